// SPDX-License-Identifier: Apache-2.0
//
// Pinned host memory, cached: what copies reach without a detour.
//
//   DEVRT_ASSIGN_OR_RETURN(void* h, devrt::AllocatePinned(gpu, 1 << 20));
//   DEVRT_RETURN_IF_ERROR(devrt::CopyAsync(s, dst, h, 1 << 20));
//   DEVRT_RETURN_IF_ERROR(devrt::FreePinned(h));  // while the copy still runs
//
// A block is used again when the work that used it is over, never before.
// Copies by devrt are known by themselves; for anything else there is
// RecordPinnedUse.  Each stream's unfinished uses are looked at apart: one that
// is stuck holds back its own blocks only (F9).
//
// Sizes: up to `pinned_class_limit` (settings.h, at first 1 MiB) the next power
// of two, at least 512; above it whole pages, and a cached block serves a
// request that takes at least 7/8 of it.
//
// How pages are obtained is a setting: the backend's host_alloc, or host pages
// that are touched by several threads and then registered.  A block is released
// in the way in which it was obtained, whatever the setting is by then (F9).
//
// What it is not: AllocateHost of raw_memory.h, where each call goes to the
// driver and a free may wait for the device.
//
// One cache per backend.  Threads: any.  Errors as of device_memory.h;
// UNIMPLEMENTED without PINNED_HOST (or HOST_REGISTER, by setting).

#ifndef DEVRT_MEMORY_PINNED_PINNED_MEMORY_H_
#define DEVRT_MEMORY_PINNED_PINNED_MEMORY_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/runtime/backend.h"
#include "devrt/runtime/call_site.h"
#include "devrt/runtime/device.h"
#include "devrt/runtime/export.h"
#include "devrt/streams/stream.h"

namespace devrt {

// Attributed to `device`, usable by all of its backend.  Zero bytes: null.
DEVRT_EXPORT absl::StatusOr<void*> AllocatePinned(
    Device device, uint64_t bytes, CallSite site = CallSite::Here());

// Null is allowed.  INVALID_ARGUMENT as of FreeMemory.
DEVRT_EXPORT absl::Status FreePinned(void* pointer,
                                     CallSite site = CallSite::Here());

// Work on `stream` uses the block that `pointer` lies in, up to its free;
// interior pointers and the end count (F17).  INVALID_ARGUMENT: no live block
// of this allocator.
DEVRT_EXPORT absl::Status RecordPinnedUse(const void* pointer, StreamRef stream,
                                          CallSite site = CallSite::Here());

// Whether the device reaches it without a detour: asks the backends too, so
// that memory registered by others counts, interior pointers included.
DEVRT_EXPORT absl::StatusOr<bool> IsPinned(const void* pointer);

// Gives cached blocks back.  Waits for no use, but the driver's free may wait
// for the device (DeviceProperties::raw_free_syncs, C64).
DEVRT_EXPORT absl::Status EmptyPinnedCache(Backend backend);

}  // namespace devrt

#endif  // DEVRT_MEMORY_PINNED_PINNED_MEMORY_H_
