// SPDX-License-Identifier: Apache-2.0
//
// DLPack 1.3: arrays to other libraries of this process, and theirs to devrt,
// without a copy.
//
//   // out: the consumer's stream waits for what devrt still does to x
//   devrt::DLPackExport how;
//   how.stream = reinterpret_cast<int64_t>(their_stream);
//   DEVRT_ASSIGN_OR_RETURN(DLManagedTensorVersioned* t,
//                          devrt::ToDLPack(x, how));
//   TheirImport(t);                        // theirs now: they call t->deleter
//
//   // in: devrt's from here on, if it succeeds
//   DEVRT_ASSIGN_OR_RETURN(devrt::Array y, devrt::FromDLPack(tensor));
//
// Ownership.  ToDLPack gives a tensor away; its deleter may be called on any
// thread, inside host functions, after Shutdown and at exit: it takes no lock
// and calls no driver, and the memory comes back at the next call that uses
// arrays, wait for a device, or Shutdown.  FromDLPack takes the tensor only if
// it succeeds; otherwise it stays the caller's, with nothing of it called, and
// the caller releases it (a foreign major version included: `deleter` is valid
// in all).  A tensor of devrt's own comes back as the same memory.
//
// Order.  An export makes the consumer's stream wait, by events, for pending
// uses of other streams.  What the consumer submitted to that stream when it
// calls the deleter, or FromDLPack takes the tensor, is a use of the memory:
// what devrt does next comes after it, and the memory is not used again before.
// The tensor keeps that native stream: the program may end its Stream, and the
// consumer goes on.  Streams that devrt does not know, and those that it
// adopted without an owner once their Stream has ended, it does not touch
// (ExchangeSettings::Release).
// Nothing is issued where nothing is pending.  What the consumer writes and
// devrt reads before that is the program's to order: Array::NoteUse.
//
// Which numbers: a backend says what DLPack calls its memory
// (devrt_dlpack.h).  The structs are in dlpack_abi.h.
//
// Threads: any.  Errors: exchange.h.

#ifndef DEVRT_ARRAYS_EXCHANGE_DLPACK_H_
#define DEVRT_ARRAYS_EXCHANGE_DLPACK_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/arrays/array.h"
#include "devrt/arrays/dlpack_abi.h"
#include "devrt/arrays/exchange.h"
#include "devrt/arrays/place.h"
#include "devrt/runtime/call_site.h"
#include "devrt/runtime/export.h"
#include "devrt/streams/stream.h"

namespace devrt {

// What the array's memory is called: __dlpack_device__.
DEVRT_EXPORT DLDevice DLPackDevice(const Place& place);

struct DLPackExport {
  // The consumer's stream, as __dlpack__ numbers it, of the data's device:
  //   nullopt  cuda, hip, mtia: the default stream.  Host memory of any kind:
  //            the call waits for pending uses
  //   -1       no order, and no use at its end: who asks for it lets go when
  //            what it did is over, or tells by Array::NoteUse
  //   0        the default stream; on cuda with a warning, or, if strict, an
  //            error; not for host memory
  //   1, 2     cuda: the default and the per-thread stream
  //   others   a native handle
  std::optional<int64_t> stream;
  // Where it is wanted; nullopt: where it is.
  std::optional<DLDevice> dl_device;
  // true: always a copy; false: never; nullopt: if it must be.
  std::optional<bool> copy;
};

// INVALID_ARGUMENT for impossible stream numbers; kCopyRequired; kBuffer for
// devices that it cannot go to, negative or odd strides, and where a capture
// forbids the wait (E44, E45).
DEVRT_EXPORT absl::StatusOr<DLManagedTensorVersioned*> ToDLPack(
    const Array& array, const DLPackExport& options = {},
    CallSite site = CallSite::Here());
// Of before version 1, for consumers that ask for no version: kBuffer for
// read-only arrays, which it cannot mark, unless it is a copy.
DEVRT_EXPORT absl::StatusOr<DLManagedTensor*> ToDLPackLegacy(
    const Array& array, const DLPackExport& options = {},
    CallSite site = CallSite::Here());
// Which of the two a consumer wants that says __dlpack__(max_version=...).
inline bool WantsVersioned(std::optional<DLPackVersion> max_version) {
  return max_version.has_value() && max_version->major >= 1;
}

struct DLPackImport {
  // Where it is wanted; nullopt: where it is.
  std::optional<Place> place;
  // true: always a copy; false: never; nullopt: if `place` needs one.
  std::optional<bool> copy;
  // Refuse writes though the producer did not say so.
  bool read_only = false;
  // The producer has ordered this stream of the data's device behind its work:
  // the array's home stream.  nullopt: the current one; none for pinned memory,
  // whose producers have no stream to order and wait on the host (E43).
  std::optional<StreamRef> stream;
};

//   INVALID_ARGUMENT  null; a place or a stream that cannot be
//   kCopyRequired     `place` is elsewhere, and copy is false
//   kBuffer           a foreign major version; ndim, extents, strides or span
//                     that cannot be; lanes, sub-byte and unknown dtypes;
//                     unknown device types; an address that is not memory of
//                     that device
DEVRT_EXPORT absl::StatusOr<Array> FromDLPack(DLManagedTensorVersioned* tensor,
                                              const DLPackImport& options = {},
                                              CallSite site = CallSite::Here());
DEVRT_EXPORT absl::StatusOr<Array> FromDLPack(DLManagedTensor* tensor,
                                              const DLPackImport& options = {},
                                              CallSite site = CallSite::Here());

}  // namespace devrt

#endif  // DEVRT_ARRAYS_EXCHANGE_DLPACK_H_
