// SPDX-License-Identifier: Apache-2.0
//
// Device memory for the normal path of a program.
//
//   DEVRT_ASSIGN_OR_RETURN(void* x, devrt::AllocateMemory(s, 1 << 20));
//   DEVRT_RETURN_IF_ERROR(devrt::FillAsync(s, x, 0, 1 << 20));
//   DEVRT_RETURN_IF_ERROR(devrt::FreeMemory(x));   // does not wait for s
//
// The memory comes from the device's resource (memory_resource.h).  By default
// that is a caching allocator: it takes segments from the driver and cuts
// blocks from them.  A freed block serves the next request of its stream, in
// stream order, without a call of the driver.
//
// Several streams.  A block belongs to the stream that it was allocated on.
// Work of another stream waits for that stream first: earlier work there may
// still use the memory.
//
// devrt must know of work on other streams before the block is used again:
//
//   devrt's own operations   devrt notes CopyAsync, FillAsync and Launch with
//                            accesses when they are submitted
//   anything else            RecordStream(x, other), or FreeMemory(x, other)
//                            after `other` was ordered behind all uses
//
// FreeMemory returns at once.  The block is reused when the noted uses are
// complete; neither the host nor a stream waits for them.  A block passes to
// another stream only if all its uses are known to be over, or are ordered
// before that stream by events (docs/reference/semantics.md 1.14).
//
// Use after FreeMemory.  A copy or a fill of a freed block fails with
// INVALID_ARGUMENT, and the message names the place of the free.  On the
// simulator, so does a launch with declared accesses; with
// DEVRT_MTIA="suballocation=check" the simulator also finds kernels that reach
// beyond the end of their block.  None of these finds a use after the block
// was handed out again, because the address is then the new owner's.
//
// Captures.  While another library captures a stream into a graph, a request
// for that stream gets memory from the stream's cache, or fails with
// FAILED_PRECONDITION.  FreeMemory says that nobody uses the block any more,
// graphs included.  So free memory that a graph uses when the graph is
// destroyed, or use devrt_memory.h, whose blocks live as long as their graphs.
// A block that devrt_memory.h has noted as a graph's is kept, whichever of the
// two frees it.
//
// What it is not: raw_memory.h, where each call goes to the driver; nor an
// owner (buffer.h).
//
// Sizes are rounded up to 512 bytes.  Requests of up to 1 MiB are cut from
// segments of 2 MiB, those below 10 MiB from segments of 20 MiB; larger ones
// get segments of a multiple of 2 MiB (docs/reference/semantics.md 3.3;
// settings.h can change the rounding).  A request that finds no room goes
// through the steps of docs/reference/semantics.md 2.6.  If it fails, it has
// changed nothing but num_ooms, num_alloc_retries, the counters of device
// calls, and the cache.
//
// Threads: any.  Each stream has a lock of its own, so threads on different
// streams do not wait for each other.
// Errors: FAILED_PRECONDITION inside host functions (C42), after Shutdown and
// in a forked child.  On a quarantined device frees succeed without the driver,
// and all other calls return the device's error (docs/reference/semantics.md
// 2.5).

#ifndef DEVRT_MEMORY_API_DEVICE_MEMORY_H_
#define DEVRT_MEMORY_API_DEVICE_MEMORY_H_

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

// Returns `bytes` of memory of the stream's device; null for zero bytes.
//   RESOURCE_EXHAUSTED  no room, or 2^60 bytes and more; has OutOfMemoryInfo
//   INVALID_ARGUMENT    the stream was destroyed
DEVRT_EXPORT absl::StatusOr<void*> AllocateMemory(
    StreamRef stream, uint64_t bytes, CallSite site = CallSite::Here());
// Allocates on the device's current stream.
inline absl::StatusOr<void*> AllocateMemory(Device device, uint64_t bytes,
                                            CallSite site = CallSite::Here()) {
  return AllocateMemory(CurrentStream(device), bytes, site);
}

// Gives a block back to the resource that it came from, in the order of the
// stream that it was allocated on, or in the order of `stream`.  Null is
// allowed.  Does not return errors of earlier work (docs/reference/semantics.md
// 2.4).
//   INVALID_ARGUMENT  `pointer` is not the beginning of a live block: it was
//                     freed before (the message says where), or is interior,
//                     pinned, raw or unknown; or `stream` belongs to another
//                     device
DEVRT_EXPORT absl::Status FreeMemory(void* pointer,
                                     CallSite site = CallSite::Here());
DEVRT_EXPORT absl::Status FreeMemory(void* pointer, StreamRef stream,
                                     CallSite site = CallSite::Here());

// Notes that `stream` uses the block that `pointer` lies in: its present work,
// and all work that is submitted to it until the free.  The stream that the
// block was allocated on needs no note.  The stream may be of another device,
// as for a copy between devices.
//
// Any pointer into the block is valid, and so is its end, so that empty views
// count (F17).  If another block begins at that end, that one is noted too.
//
// An adopted stream without an owner may be destroyed before the free (F22), so
// devrt touches it only in calls that name it.  A block that such a stream uses
// at its free is reused when a later call of that kind finds the use over, at
// Device::Synchronize, or when memory runs out.
//   INVALID_ARGUMENT  there is no live block, or the stream was destroyed
//   UNIMPLEMENTED     the block's resource does not track uses
DEVRT_EXPORT absl::Status RecordStream(const void* pointer, StreamRef stream,
                                       CallSite site = CallSite::Here());

// Gives cached segments without a live block back to the driver, those of
// private resources too.  Polls freed blocks once, and waits for nothing.
DEVRT_EXPORT absl::Status EmptyCache(Device device);

// Lets this process reserve floor(fraction * total) bytes of the device.  If
// more is reserved already, that stays, and only growth stops.  The fraction is
// per_process_memory_fraction (settings.h) at first, and again whenever a text
// of settings names that key.
//   INVALID_ARGUMENT  "Invalid fraction value: ...": outside [0, 1], or NaN
DEVRT_EXPORT absl::Status SetMemoryFraction(Device device, double fraction);
// Returns the value that was set last, unchanged.
DEVRT_EXPORT double GetMemoryFraction(Device device);

// A function that frees what the program can spare.  `bytes` is the size of the
// request that finds no room.  Returns true if the cache is to be searched
// again.
using OutOfMemoryCallback = std::function<bool(Device device, uint64_t bytes)>;
// devrt calls the callbacks when no cached block fits a request, before it asks
// the driver for memory (docs/reference/semantics.md 2.6).  They run in the
// order of their registration, on the requesting thread, with no lock held.
//
// A callback frees memory, and should allocate none: inside it a request that a
// free block of the stream's cache serves succeeds, and every other one is
// FAILED_PRECONDITION.  devrt does not copy the function.  If a callback
// throws, the request fails with INTERNAL, which names the id, and later
// callbacks do not run.
//
// Returns the id of the callback; 0 in a forked child, where no callback runs.
//   INVALID_ARGUMENT  the callback is empty
DEVRT_EXPORT absl::StatusOr<uint64_t> AddOutOfMemoryCallback(
    OutOfMemoryCallback callback);
// Ends the callback that has this id.
DEVRT_EXPORT void RemoveOutOfMemoryCallback(uint64_t id);

// Returns a text for people: for the device and for each stream, the bytes that
// are live, that are freed but still in use, and that are free, with the
// largest free block.  If history is on, also the call sites that hold most.
// Private resources are one line.
DEVRT_EXPORT std::string MemoryReport(Device device);

}  // namespace devrt

#endif  // DEVRT_MEMORY_API_DEVICE_MEMORY_H_
