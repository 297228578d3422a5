// SPDX-License-Identifier: Apache-2.0
//
// What the floors below ask of the caching allocators: the runtime by address
// and at the end (memory_hooks.h), the streams by use (timeline.h).

#ifndef DEVRT_MEMORY_COMMON_HOOKS_H_
#define DEVRT_MEMORY_COMMON_HOOKS_H_

namespace devrt::internal {

// With the first allocator, once.
void InstallMemoryHooks();

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_COMMON_HOOKS_H_
