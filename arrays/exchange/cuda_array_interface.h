// SPDX-License-Identifier: Apache-2.0
//
// CUDA Array Interface, versions 0 to 3, as a struct: what a dict of Python's
// says, without Python.
//
//   DEVRT_ASSIGN_OR_RETURN(devrt::CudaArrayInterface cai,
//                          devrt::ToCudaArrayInterface(x));
//   // work on cai.stream is after all that devrt does to x
//
//   DEVRT_ASSIGN_OR_RETURN(devrt::Array y,
//                          devrt::FromCudaArrayInterface(theirs, owner));
//
// Lifetime.  The struct keeps nothing alive (E35): the array it came from lives
// as long as it is used, and keeps the native stream that it names.  An import
// keeps `owner` until devrt's last use of the memory is complete.
//
// Order.  An export joins pending uses into one stream, the current one, and
// names that; without any it names none.  That stream is a user of the memory
// to its end, named or not.  An import orders the current stream of the data's
// device behind the one that is named, which becomes the array's home stream:
// when the memory is let go it comes after devrt's last use.
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

struct CudaArrayInterface {
  Dims shape;
  std::string typestr;  // "<f4"
  uintptr_t data = 0;   // 0 without elements
  bool read_only = false;
  int64_t version = 3;
  std::optional<Dims> strides;  // bytes; nullopt: C-contiguous
  bool has_mask = false;        // of an import: refused
  bool has_descr = false;       // of an import: a structured dtype, refused
  // Of version 3: nullopt: nothing to wait for; 1: the default stream; 2: the
  // per-thread one; else a native handle.
  std::optional<int64_t> stream;
};

struct CudaArrayExport {
  std::optional<int> version;  // 2 or 3; nullopt: the setting
  // The caller says that kernels of the device can use this pinned memory.
  bool pinned_is_mapped = false;
};
// kNotOffered: memory that is not a device's, managed, or mapped; of another
// backend than cuda (hip: ExchangeSettings::hip_cai); dtypes without a type
// string; negative strides of extents above 1, below which they are given as
// those of C order.  kBuffer where a capture forbids the join (E45).
DEVRT_EXPORT absl::StatusOr<CudaArrayInterface> ToCudaArrayInterface(
    const Array& array, const CudaArrayExport& options = {},
    CallSite site = CallSite::Here());

struct CudaArrayImport {
  std::optional<Place> place;  // as of DLPackImport
  std::optional<bool> copy;
  // Order devrt behind the stream that is named; nullopt: the setting.  If
  // false it is the home stream all the same, and comes after devrt's uses.
  std::optional<bool> sync;
};
//   INVALID_ARGUMENT  a typestr that cannot be read; negative extents, version
//                     or stream; as many strides as extents are not there; no
//                     address, but elements; stream 0, if strict
//   kCopyRequired     `place` is elsewhere, and copy is false
//   kBuffer           a mask; a foreign byte order; dtypes that devrt has not;
//                     strides that are no multiple of the item; a span that
//                     leaves the address space or its block; an address that no
//                     driver knows
DEVRT_EXPORT absl::StatusOr<Array> FromCudaArrayInterface(
    const CudaArrayInterface& cai, std::shared_ptr<void> owner,
    const CudaArrayImport& options = {}, CallSite site = CallSite::Here());

}  // namespace devrt

#endif  // DEVRT_ARRAYS_EXCHANGE_CUDA_ARRAY_INTERFACE_H_
