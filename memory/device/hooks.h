// SPDX-License-Identifier: Apache-2.0
//
// The hooks through which what lies below calls the allocators: the runtime
// with addresses and at the end of a device (memory_hooks.h), the streams floor
// with uses and at the end of a stream (use_hooks.h), and the settings with a
// new fraction of memory (settings_state.h).
//
// Pinned memory and adopted streams lie in folders above this one.  Each fills
// in its functions here before its first object exists.

#ifndef DEVRT_MEMORY_DEVICE_HOOKS_H_
#define DEVRT_MEMORY_DEVICE_HOOKS_H_

#include <cstdint>
#include <optional>

#include "devrt/streams/stream.h"
#include "runtime/raw_memory/allocation_table.h"
#include "runtime/registry/records.h"

namespace devrt::internal {

// Installs the hooks; called before the first allocator exists.  Further calls
// change nothing.
void InstallMemoryHooks();

// The part of pinned memory: see MemoryHooks and UseHook.
struct PinnedHooks {
  std::optional<AllocationRange> (*find_live)(const void* pointer);
  std::optional<AllocationRange> (*find_freed)(const void* pointer);
  void (*note_use)(const void* pointer, StreamRef stream);
  int64_t (*count_live)(DeviceRecord* device);
  ReleaseHook release;
};
// Installs the hooks, with those of pinned memory.  `hooks` has static storage
// duration.
void InstallPinnedHooks(const PinnedHooks* hooks);

// Installs the hooks.  `release` ends the adopted streams of a device, before
// the allocators release its memory.
void InstallAdoptedStreamsHook(ReleaseHook release);

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_DEVICE_HOOKS_H_
