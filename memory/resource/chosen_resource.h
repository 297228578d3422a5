// SPDX-License-Identifier: Apache-2.0
//
// Which resource serves the requests for a device.

#ifndef DEVRT_MEMORY_RESOURCE_CHOSEN_RESOURCE_H_
#define DEVRT_MEMORY_RESOURCE_CHOSEN_RESOURCE_H_

#include <memory>

#include "devrt/memory/memory_resource.h"
#include "devrt/runtime/device.h"

namespace devrt::internal {

// The resource that the settings name.  If the backend lacks it, its
// allocations fail.  Fixes nothing.
std::shared_ptr<MemoryResource> SourceResource(Device device);
// GetMemoryResource for a request.  Fixes the settings, and notes in the
// device's record whether later requests need this function.
std::shared_ptr<MemoryResource> ResourceForRequest(Device device);

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_RESOURCE_CHOSEN_RESOURCE_H_
