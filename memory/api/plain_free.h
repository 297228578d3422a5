// SPDX-License-Identifier: Apache-2.0
//
// Frees that call no backend, for callers that hold a lock under which a driver
// must not be waited for, such as Python's.

#ifndef DEVRT_MEMORY_API_PLAIN_FREE_H_
#define DEVRT_MEMORY_API_PLAIN_FREE_H_

#include "devrt/runtime/call_site.h"

namespace devrt::internal {

// Do FreeMemory(pointer) and FreePinned(pointer) for a block that only its own
// stream has used.  Return false, and free nothing, if the free would call a
// backend or another resource.  They take only locks of the allocator, which
// are not held while a backend is called.
bool FreeMemoryPlainly(void* pointer, CallSite site = CallSite::Here());
bool FreePinnedPlainly(void* pointer, CallSite site = CallSite::Here());

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_API_PLAIN_FREE_H_
