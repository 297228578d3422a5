// SPDX-License-Identifier: Apache-2.0
//
// Functions of the caching allocators, which lie above the runtime: they
// find blocks that are cut from the driver's memory, and count them.

#ifndef DEVRT_RUNTIME_REGISTRY_MEMORY_HOOKS_H_
#define DEVRT_RUNTIME_REGISTRY_MEMORY_HOOKS_H_

#include <cstdint>
#include <optional>

#include "runtime/registry/records.h"

namespace devrt::internal {

struct AllocationRange;  // runtime/raw_memory/allocation_table.h

struct MemoryHooks {
  // Returns the live block that holds `pointer`, with the size that was
  // requested.  Sets `*cached` if `pointer` lies in an allocator's memory; that
  // memory outside live blocks does not belong to the program.
  std::optional<AllocationRange> (*find)(const void* pointer, bool* cached);
  // A freed block that began at `pointer`.
  std::optional<AllocationRange> (*find_freed)(const void* pointer);
  // The number of blocks that programs hold, for Shutdown (C98).  Once the
  // device's gate is closed, the number can only fall.
  int64_t (*count_live)(DeviceRecord* device);
  // A ReleaseHook that runs before the others: frees cached memory.
  ReleaseHook release;
  // A SettleHook that runs before the others: checks once which work has ended.
  SettleHook settle;
};

// Called once; `hooks` has static storage duration.
void SetMemoryHooks(const MemoryHooks* hooks);
// nullptr if no allocator was ever used.
const MemoryHooks* GetMemoryHooks();

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_REGISTRY_MEMORY_HOOKS_H_
