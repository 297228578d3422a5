// SPDX-License-Identifier: Apache-2.0
//
// DLPack 1.3: arrays to other libraries of this process, and theirs to devrt,
// without a copy.
//
//   // Out: their_stream waits for what devrt still does to x.
//   devrt::DLPackExport how;
//   how.stream = reinterpret_cast<int64_t>(their_stream);
//   DEVRT_ASSIGN_OR_RETURN(DLManagedTensorVersioned* t,
//                          devrt::ToDLPack(x, how));
//   TheirImport(t);                        // theirs now: they call t->deleter
//
//   // In: devrt owns the tensor if the call succeeds.
//   DEVRT_ASSIGN_OR_RETURN(devrt::Array y, devrt::FromDLPack(tensor));
//
// Ownership of an exported tensor.  ToDLPack gives the tensor away.  Its
// deleter may be called on any thread, inside host functions, after Shutdown
// and at the end of the process: it takes no lock and calls no driver.  The
// memory comes back at the next call that uses arrays or waits for a device, or
// at Shutdown.
//
// Ownership of an imported tensor.  FromDLPack takes the tensor only if it
// succeeds.  If it fails the tensor stays the caller's, who has to release it,
// also one of a foreign major version: `deleter` is valid in all versions.
// FromDLPack calls nothing of such a tensor.  A tensor that devrt exported
// comes back as an array over the original memory.  A deleter that throws ends
// the process.
//
// Order.  An export makes the consumer's stream wait, by events, for the
// pending uses of other streams; if there are none it calls no backend.  When
// the consumer calls the deleter, or FromDLPack takes the tensor, everything
// that the consumer's stream was given by then counts as a use of the memory:
// later operations of devrt wait for it, and so does the next owner of the
// memory.
//
// Until then devrt does not know what the consumer writes: a program in which
// devrt reads it earlier calls Array::NoteUse.
//
// Streams.  The tensor keeps the consumer's native stream, so that the program
// may end its Stream while the consumer goes on.  devrt does not touch a stream
// that it does not know, or that it adopted without an owner and whose Stream
// has ended (ExchangeSettings::Release).
//
// Numbers.  A backend says which DLPack device type its memory has
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

// The pair that __dlpack_device__ returns for memory in `place`.
DEVRT_EXPORT DLDevice DLPackDevice(const Place& place);

// What __dlpack__ takes.
struct DLPackExport {
  // The consumer's stream on the data's device, as __dlpack__ numbers it:
  //   nullopt  the default stream; for host memory of any kind the call waits
  //            for pending uses
  //   -1       no order, and no use when the tensor is released: the consumer
  //            releases it after its work is complete, or calls Array::NoteUse
  //   0        the default stream, not for host memory; on cuda with a warning,
  //            or an error if ExchangeSettings::strict
  //   1, 2     cuda: the default stream and the per-thread default stream
  //   others   a native handle
  std::optional<int64_t> stream;
  // The device that the consumer wants the data on.  nullopt: where it is.
  std::optional<DLDevice> dl_device;
  // true: always copy; false: never copy; nullopt: copy if necessary.
  std::optional<bool> copy;
};

// A tensor over the memory of `array`, which the caller gives to the consumer.
//   INVALID_ARGUMENT  impossible stream numbers
//   kCopyRequired     a copy is needed, and `copy` is false
//   kBuffer           a device that the data cannot go to; strides that are
//                     negative or not a multiple of the element; a capture that
//                     forbids the wait (E44, E45)
DEVRT_EXPORT absl::StatusOr<DLManagedTensorVersioned*> ToDLPack(
    const Array& array, const DLPackExport& options = {},
    CallSite site = CallSite::Here());
// An unversioned DLPack tensor, for consumers that ask for no version.  kBuffer
// for a read-only array unless the call copies, because such a tensor cannot be
// marked read-only.
DEVRT_EXPORT absl::StatusOr<DLManagedTensor*> ToDLPackLegacy(
    const Array& array, const DLPackExport& options = {},
    CallSite site = CallSite::Here());
// Returns true if a consumer that calls __dlpack__(max_version=...) wants a
// DLManagedTensorVersioned.
inline bool WantsVersioned(std::optional<DLPackVersion> max_version) {
  return max_version.has_value() && max_version->major >= 1;
}

// What FromDLPack takes.
struct DLPackImport {
  // Where the array is to be.  nullopt: where the memory is.
  std::optional<Place> place;
  // true: always copy; false: never copy; nullopt: copy if `place` needs it.
  std::optional<bool> copy;
  // Makes the array read-only even if the producer allows writes.
  bool read_only = false;
  // A stream of the data's device that the producer made wait for its work.  It
  // becomes the array's home stream.  nullopt: the current stream, but no
  // stream for pinned memory, whose producers wait on the host (E43).
  std::optional<StreamRef> stream;
};

// An array over the tensor's memory.  Takes the tensor if it succeeds.
//   INVALID_ARGUMENT  null; an impossible place or stream
//   kCopyRequired     `place` is elsewhere, and copy is false
//   kBuffer           a foreign major version; impossible ndim, extents,
//                     strides or span; lanes, sub-byte and unknown dtypes;
//                     unknown device types; an address that is not memory of
//                     the device
DEVRT_EXPORT absl::StatusOr<Array> FromDLPack(DLManagedTensorVersioned* tensor,
                                              const DLPackImport& options = {},
                                              CallSite site = CallSite::Here());
DEVRT_EXPORT absl::StatusOr<Array> FromDLPack(DLManagedTensor* tensor,
                                              const DLPackImport& options = {},
                                              CallSite site = CallSite::Here());

}  // namespace devrt

#endif  // DEVRT_ARRAYS_EXCHANGE_DLPACK_H_
