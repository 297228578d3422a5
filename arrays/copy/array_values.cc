// SPDX-License-Identifier: Apache-2.0
//
// New arrays with values from the host.

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "arrays/core/geometry.h"
#include "arrays/storage/storage.h"
#include "devrt/arrays/array.h"
#include "devrt/runtime/status.h"

namespace devrt {

absl::StatusOr<Array> Array::Zeros(DimSpan shape, DType dtype,
                                   const Place& place, CallSite site) {
  return Full(shape, dtype, false, place, site);
}

absl::StatusOr<Array> Array::Zeros(DimSpan shape, DType dtype, CallSite site) {
  return Full(shape, dtype, false, site);
}

absl::StatusOr<Array> Array::Full(DimSpan shape, DType dtype, Scalar value,
                                  const Place& place, CallSite site) {
  // Checks that the dtype can hold the value before it allocates.
  DEVRT_RETURN_IF_ERROR(value.As(dtype).status());
  DEVRT_ASSIGN_OR_RETURN(Array array, Empty(shape, dtype, place, site));
  DEVRT_RETURN_IF_ERROR(array.Fill(value, site));
  return array;
}

absl::StatusOr<Array> Array::Full(DimSpan shape, DType dtype, Scalar value,
                                  CallSite site) {
  DEVRT_ASSIGN_OR_RETURN(const Place place, Place::Current());
  return Full(shape, dtype, value, place, site);
}

absl::StatusOr<Array> Array::FromHost(const void* data, DimSpan shape,
                                      DType dtype, const Place& place,
                                      CallSite site) {
  DEVRT_ASSIGN_OR_RETURN(const uint64_t bytes,
                         internal::CountBytes(shape, dtype));
  if (data == nullptr && bytes != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("a null pointer has no elements for shape ",
                     ShapeText(shape), ": give memory, or use Empty"));
  }
  DEVRT_ASSIGN_OR_RETURN(Array array, Empty(shape, dtype, place, site));
  if (bytes == 0) return array;
  internal::Storage::Borrowed borrowed;
  borrowed.base = const_cast<void*>(data);
  borrowed.bytes = bytes;
  const Array source(
      internal::Storage::Borrow(Place::Host(), std::move(borrowed)),
      static_cast<char*>(const_cast<void*>(data)), array.shape_, array.strides_,
      dtype, /*read_only=*/true);
  DEVRT_RETURN_IF_ERROR(array.CopyFrom(source, /*non_blocking=*/false, site));
  return array;
}

}  // namespace devrt
