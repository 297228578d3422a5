// SPDX-License-Identifier: Apache-2.0
//
// Frees that are a note in an allocator and nothing else: for callers that hold
// a lock which nobody may wait for a driver with, such as Python's.

#ifndef DEVRT_MEMORY_COMMON_PLAIN_FREE_H_
#define DEVRT_MEMORY_COMMON_PLAIN_FREE_H_

#include "devrt/runtime/call_site.h"

namespace devrt::internal {

// FreeMemory(pointer), FreePinned(pointer) of a block that nobody else has ever
// used.  False, with nothing done, wherever a backend would be called or told,
// or another resource be asked.  Only locks of the allocator are taken, which
// nobody holds over such a call.
bool FreeMemoryPlainly(void* pointer, CallSite site = CallSite::Here());
bool FreePinnedPlainly(void* pointer, CallSite site = CallSite::Here());

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_COMMON_PLAIN_FREE_H_
