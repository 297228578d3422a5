// SPDX-License-Identifier: Apache-2.0
//
// Device memory for the normal path of a program.
//
//   DEVRT_ASSIGN_OR_RETURN(void* x, devrt::AllocateMemory(s, 1 << 20));
//   DEVRT_RETURN_IF_ERROR(devrt::FillAsync(s, x, 0, 1 << 20));
//   DEVRT_RETURN_IF_ERROR(devrt::FreeMemory(x));   // does not wait for s
//
// The memory comes from the device's resource (memory_resource.h), at first a
// caching allocator: it takes segments from the driver, cuts blocks from them
// and hands a block that was freed to the next request of the same stream, in
// stream order, without a call to the driver.
//
// Several streams.  A block belongs to the stream that it was allocated on.
// Work on other streams must be known before the block is used again:
//
//   devrt's own operations   CopyAsync, FillAsync, Launch with accesses: known
//                            by themselves, as of their submission
//   anything else            RecordStream(x, other), or FreeMemory(x, other)
//                            after `other` was ordered behind all uses
//
// FreeMemory then returns at once, and the block comes back when those uses are
// complete; neither the host nor a stream waits for them.  A block passes to
// another stream if all its uses are known to be over, or to be ordered before
// that stream by events (docs/semantics.md 1.14); if they are not, it does not.
//
// Use after FreeMemory.  Copies, fills and, on the simulator, launches with
// declared accesses are refused with INVALID_ARGUMENT and the place of the
// free. On the simulator DEVRT_MTIA="suballocation=check" also finds kernels
// that reach beyond the end of their block.
//
// Captures.  On a stream that another library captures into a graph, memory
// comes from the stream's cache; what is not there is FAILED_PRECONDITION.
// FreeMemory says that nobody uses the block any more, graphs included: free
// what a graph uses when the graph is destroyed, or use devrt_memory.h, whose
// blocks are kept as long as their graphs.  What devrt_memory.h has noted as a
// graph's is kept whichever of the two frees it.
//
// What it is not: raw_memory.h, where each call goes to the driver; nor an
// owner (buffer.h).
//
// Sizes round up to 512 bytes; requests to 1 MiB are cut from segments of
// 2 MiB, below 10 MiB from segments of 20 MiB, larger ones take multiples of
// 2 MiB (docs/semantics.md 3.3; settings.h changes some of it).  Out of memory:
// docs/semantics.md 2.6, in that order; nothing but num_ooms,
// num_alloc_retries, the counters of device calls and the cache changes by a
// request that failed.
//
// Threads: any.  Each stream has a lock of its own: threads on different
// streams do not meet.  Refused with FAILED_PRECONDITION inside host functions
// (C42), after Shutdown and in a forked child.  On a quarantined device frees
// succeed without the driver, everything else answers its error
// (docs/semantics.md 2.5).

#ifndef DEVRT_MEMORY_DEVICE_DEVICE_MEMORY_H_
#define DEVRT_MEMORY_DEVICE_DEVICE_MEMORY_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/runtime/call_site.h"
#include "devrt/runtime/device.h"
#include "devrt/runtime/export.h"
#include "devrt/runtime/status.h"
#include "devrt/streams/stream.h"

namespace devrt {

// `bytes` of memory of the stream's device.  Zero bytes: null.
//   RESOURCE_EXHAUSTED  no room, or 2^60 bytes and more; OutOfMemoryInfo
//   INVALID_ARGUMENT    the stream was destroyed
DEVRT_EXPORT absl::StatusOr<void*> AllocateMemory(
    StreamRef stream, uint64_t bytes, CallSite site = CallSite::Here());
// The same on the device's current stream.
inline absl::StatusOr<void*> AllocateMemory(Device device, uint64_t bytes,
                                            CallSite site = CallSite::Here()) {
  return AllocateMemory(CurrentStream(device), bytes, site);
}

// Gives a block back to the resource that it came from, in the order of the
// stream that it was allocated on, or of `stream`.  Null is allowed.  Never an
// error of earlier work (docs/semantics.md 2.4).
//   INVALID_ARGUMENT  not the beginning of a live block: freed before (and
//                     where), interior, pinned, raw, or unknown; `stream` is of
//                     another device
DEVRT_EXPORT absl::Status FreeMemory(void* pointer,
                                     CallSite site = CallSite::Here());
DEVRT_EXPORT absl::Status FreeMemory(void* pointer, StreamRef stream,
                                     CallSite site = CallSite::Here());

// Work on `stream` uses the block that `pointer` lies in: from now on, and all
// that is submitted until its free.  The one allocated there needs no mark.
// Any pointer into the block, its end included, so that empty views count
// (F17); where another block begins at that end, it is marked too.  An adopted
// stream whose owner devrt does not hold may be destroyed before the free
// (F22): it is not touched outside calls that name it, and so a block that it
// uses at its free comes back when a later such call finds that over, at
// Device::Synchronize, or when memory runs out.
//   INVALID_ARGUMENT  no live block; the stream was destroyed
//   UNIMPLEMENTED     the block's resource does not track uses
DEVRT_EXPORT absl::Status RecordStream(const void* pointer, StreamRef stream,
                                       CallSite site = CallSite::Here());

// Gives cached segments that are wholly free back to the driver, those of
// private resources too; looks once for uses that have ended and waits for
// nothing.
DEVRT_EXPORT absl::Status EmptyCache(Device device);

// This process may reserve floor(fraction * total) bytes of the device; less
// than is reserved now only stops growth.  At first, and again whenever a text
// of settings names it, per_process_memory_fraction (settings.h).
//   INVALID_ARGUMENT  "Invalid fraction value: ...": outside [0, 1], NaN
DEVRT_EXPORT absl::Status SetMemoryFraction(Device device, double fraction);
// Exactly what was set last.
DEVRT_EXPORT double GetMemoryFraction(Device device);

// Called when a request finds no room, before anything is given back to the
// driver (docs/semantics.md 2.6): frees what the program can spare and returns
// true to have the cache searched again.  In order of registration, on the
// requesting thread, with no lock held; it may free and must not allocate.  In
// a forked child nothing is called, and the id is 0.
using OutOfMemoryCallback = std::function<bool(Device device, uint64_t bytes)>;
DEVRT_EXPORT uint64_t AddOutOfMemoryCallback(OutOfMemoryCallback callback);
DEVRT_EXPORT void RemoveOutOfMemoryCallback(uint64_t id);

// Who holds what: totals and each stream's part, with what is held, what is
// freed but still used, what is free and its largest piece; with history on the
// largest holders by call site.  Private resources are one line.  Made to be
// read.
DEVRT_EXPORT std::string MemoryReport(Device device);

}  // namespace devrt

#endif  // DEVRT_MEMORY_DEVICE_DEVICE_MEMORY_H_
