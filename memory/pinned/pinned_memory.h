// SPDX-License-Identifier: Apache-2.0
//
// Pinned host memory from a cache.  Devices copy from and to it directly.
//
//   DEVRT_ASSIGN_OR_RETURN(void* h, devrt::AllocatePinned(gpu, 1 << 20));
//   DEVRT_RETURN_IF_ERROR(devrt::CopyAsync(s, dst, h, 1 << 20));
//   DEVRT_RETURN_IF_ERROR(devrt::FreePinned(h));  // while the copy still runs
//
// A block is reused only when the work that uses it is over.  devrt notes its
// own copies; for other work there is RecordPinnedUse.  Unfinished uses are
// kept apart by stream, so a stream that is stuck holds back its own blocks
// only (F9).
//
// Sizes: a request of up to `pinned_class_limit` (settings.h, 1 MiB by default)
// is rounded up to a power of two, at least 512.  A larger one is rounded up to
// whole pages, and a cached block serves a request that needs at least 7/8 of
// the block.
//
// A setting says how pages are obtained: by the backend's host_alloc, or as
// host pages that several threads touch and that are then registered.  A block
// is released in the way in which it was obtained, whatever the setting is by
// then (F9).
//
// What it is not: AllocateHost of raw_memory.h, where each call goes to the
// driver and a free may wait for the device.
//
// There is one cache for each backend.
// Threads: any.
// Errors: those of device_memory.h, and UNIMPLEMENTED without PINNED_HOST (or
// HOST_REGISTER, if the setting asks for registered pages).

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

// Returns memory that all devices of the backend can use; the driver is asked
// for it in the name of `device`.  Null for zero bytes.
DEVRT_EXPORT absl::StatusOr<void*> AllocatePinned(
    Device device, uint64_t bytes, CallSite site = CallSite::Here());

// Null is allowed.  INVALID_ARGUMENT: see FreeMemory.
DEVRT_EXPORT absl::Status FreePinned(void* pointer,
                                     CallSite site = CallSite::Here());

// Notes that `stream` uses the block that `pointer` lies in, until its free.
// Interior pointers and the end are valid (F17).  INVALID_ARGUMENT: there is no
// live block of this allocator.
DEVRT_EXPORT absl::Status RecordPinnedUse(const void* pointer, StreamRef stream,
                                          CallSite site = CallSite::Here());

// Returns true if devices reach the memory directly.  Asks the backends too, so
// that memory which other libraries have registered counts.  Interior pointers
// are valid.
DEVRT_EXPORT absl::StatusOr<bool> IsPinned(const void* pointer);

// Gives cached blocks back to the driver.  Does not wait for uses, but the
// driver's free may wait for the device (DeviceProperties::raw_free_syncs,
// C64).
DEVRT_EXPORT absl::Status EmptyPinnedCache(Backend backend);

}  // namespace devrt

#endif  // DEVRT_MEMORY_PINNED_PINNED_MEMORY_H_
