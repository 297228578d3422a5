// SPDX-License-Identifier: Apache-2.0
//
// CUDA Array Interface, versions 0 to 3: the entries of the Python dict as a
// struct, without Python.
//
//   DEVRT_ASSIGN_OR_RETURN(devrt::CudaArrayInterface cai,
//                          devrt::ToCudaArrayInterface(x));
//   // Work on cai.stream now comes after devrt's work on x.
//
//   DEVRT_ASSIGN_OR_RETURN(devrt::Array y,
//                          devrt::FromCudaArrayInterface(theirs, owner));
//
// Lifetime.  An exported struct keeps nothing alive (E35): the caller keeps the
// array until the consumer is done.  The memory keeps the native stream that
// the struct names.  An import keeps `owner` until devrt's uses of the memory
// are complete.
//
// Order.  An export makes the current stream of the data's device wait for the
// pending uses of other streams, and names that stream; if nothing is pending
// it names none.  In both cases that stream counts as a user of the memory to
// the end of the memory.
//
// An import makes the current stream of the data's device wait for the stream
// that the struct names.  The named stream becomes the array's home stream:
// when the memory is released it waits for devrt's uses.
//
// Errors: exchange.h.  Threads: any.

#ifndef DEVRT_ARRAYS_EXCHANGE_CUDA_ARRAY_INTERFACE_H_
#define DEVRT_ARRAYS_EXCHANGE_CUDA_ARRAY_INTERFACE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/arrays/array.h"
#include "devrt/arrays/exchange.h"
#include "devrt/arrays/place.h"
#include "devrt/runtime/call_site.h"
#include "devrt/runtime/export.h"

namespace devrt {

// The entries of the dict; `shape` and `strides` have one number an axis.
struct CudaArrayInterface {
  Dims shape;
  std::string typestr;     // "<f4"
  uintptr_t data = 0;      // 0 if there are no elements
  bool read_only = false;  // the consumer must not write
  int64_t version = 3;
  std::optional<Dims> strides;  // bytes; nullopt: C-contiguous
  bool has_mask = false;        // an import with a mask is refused
  bool has_descr = false;       // so is one with a structured dtype
  // Version 3 only.  nullopt: nothing to wait for; 1: the default stream; 2:
  // the per-thread default stream; others: a native handle.
  std::optional<int64_t> stream;
};

// What ToCudaArrayInterface takes.
struct CudaArrayExport {
  std::optional<int> version;  // 2 or 3; nullopt: the setting
  // The caller knows that kernels of the device can use this pinned memory.
  bool pinned_is_mapped = false;
};
// Describes `array` for a consumer.  A negative stride of an extent of 1 is
// replaced by that of C order.
//   kNotOffered  memory that is neither device memory, managed nor mapped; a
//                backend other than cuda, or hip with
//                ExchangeSettings::hip_cai; dtypes without a type string;
//                negative strides of extents above 1
//   kBuffer      a capture forbids the wait (E45)
DEVRT_EXPORT absl::StatusOr<CudaArrayInterface> ToCudaArrayInterface(
    const Array& array, const CudaArrayExport& options = {},
    CallSite site = CallSite::Here());

// What FromCudaArrayInterface takes.
struct CudaArrayImport {
  std::optional<Place> place;  // as in DLPackImport
  std::optional<bool> copy;    // as in DLPackImport
  // true: devrt waits for the stream that the struct names; nullopt: the
  // setting cai_sync.  Also with false the stream becomes the home stream, and
  // waits for devrt's uses when the memory is released.
  std::optional<bool> sync;
};
// An array over the memory that `cai` describes; devrt keeps `owner`.
//   INVALID_ARGUMENT  a typestr that cannot be read; negative extents, version
//                     or stream; more or fewer strides than extents; elements
//                     without an address; stream 0, if strict
//   kCopyRequired     `place` is elsewhere, and copy is false
//   kBuffer           a mask; a foreign byte order; dtypes that devrt lacks;
//                     strides that are not multiples of the item; elements
//                     outside the address space or their block; an address that
//                     no driver knows
DEVRT_EXPORT absl::StatusOr<Array> FromCudaArrayInterface(
    const CudaArrayInterface& cai, std::shared_ptr<void> owner,
    const CudaArrayImport& options = {}, CallSite site = CallSite::Here());

}  // namespace devrt

#endif  // DEVRT_ARRAYS_EXCHANGE_CUDA_ARRAY_INTERFACE_H_
