// SPDX-License-Identifier: Apache-2.0
//
// The hooks through which lower floors call the caching allocators: the runtime
// with addresses and at the end of a device (memory_hooks.h), the streams floor
// with uses (timeline.h).

#ifndef DEVRT_MEMORY_COMMON_HOOKS_H_
#define DEVRT_MEMORY_COMMON_HOOKS_H_

namespace devrt::internal {

// Called with the first allocator.  The body is in memory/api/, because it
// reaches all allocators.
void InstallMemoryHooks();

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_COMMON_HOOKS_H_
