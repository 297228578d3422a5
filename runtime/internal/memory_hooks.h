// SPDX-License-Identifier: Apache-2.0
//
// What the layer of allocators above tells the runtime: blocks that are cut
// from memory of the driver, and how many are alive.

#ifndef DEVRT_RUNTIME_INTERNAL_MEMORY_HOOKS_H_
#define DEVRT_RUNTIME_INTERNAL_MEMORY_HOOKS_H_

#include <cstdint>
#include <optional>

#include "runtime/internal/allocation_table.h"
#include "runtime/internal/records.h"

namespace devrt::internal {

struct MemoryHooks {
  // Sets `*cached` when `pointer` lies in an allocator's memory.  Then the live
  // block that holds it is the answer, with its size as asked for; the driver's
  // block around it is none of the program's.
  std::optional<AllocationRange> (*find)(const void* pointer, bool* cached);
  // A block that began at `pointer` and is not alive.
  std::optional<AllocationRange> (*find_freed)(const void* pointer);
  // Blocks that programs hold, for Shutdown (C98): after the gate was closed
  // this sees all that ever will be.
  int64_t (*count_live)(DeviceRecord* device);
  // As ReleaseHook, and before it: gives cached memory back.
  ReleaseHook release;
  // As SettleHook, and before it: looks once for work that is over.
  SettleHook settle;
};

// Once; `hooks` live for ever.
void SetMemoryHooks(const MemoryHooks* hooks);
// nullptr: no allocator was ever used.
const MemoryHooks* GetMemoryHooks();

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_INTERNAL_MEMORY_HOOKS_H_
