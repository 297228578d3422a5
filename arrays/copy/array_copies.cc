// SPDX-License-Identifier: Apache-2.0
//
// The copies of Array: CopyFrom, To, Cast, Copy and Contiguous.

#include "arrays/core/array_checks.h"
#include "devrt/arrays/array.h"
#include "devrt/arrays/copy.h"
#include "devrt/runtime/status.h"

namespace devrt {

using internal::CheckNotMovedFrom;

namespace {

// The place of new arrays that belong to an array in `place`.
Place PlaceForNew(const Place& place) {
  return place.kind() == MemoryKind::kManaged ? Place(*place.device()) : place;
}

}  // namespace

absl::Status Array::CopyFrom(const Array& from, bool non_blocking,
                             CallSite site) const {
  CopyOptions options;
  options.non_blocking = non_blocking;
  return CopyArray(*this, from, options, site);
}

absl::StatusOr<Array> Array::To(const Place& place, DType dtype,
                                bool non_blocking, CallSite site) const {
  DEVRT_RETURN_IF_ERROR(CheckNotMovedFrom(storage_, "To"));
  if (place == this->place() && dtype == dtype_) return *this;
  DEVRT_ASSIGN_OR_RETURN(Array made, Empty(shape_, dtype, place, site));
  DEVRT_RETURN_IF_ERROR(made.CopyFrom(*this, non_blocking, site));
  return made;
}

absl::StatusOr<Array> Array::To(const Place& place, bool non_blocking,
                                CallSite site) const {
  return To(place, dtype_, non_blocking, site);
}

absl::StatusOr<Array> Array::Cast(DType dtype, CallSite site) const {
  DEVRT_RETURN_IF_ERROR(CheckNotMovedFrom(storage_, "Cast"));
  if (dtype == dtype_) return *this;
  return To(PlaceForNew(place()), dtype, true, site);
}

absl::StatusOr<Array> Array::Copy(CallSite site) const {
  DEVRT_RETURN_IF_ERROR(CheckNotMovedFrom(storage_, "Copy"));
  DEVRT_ASSIGN_OR_RETURN(Array made,
                         Empty(shape_, dtype_, PlaceForNew(place()), site));
  DEVRT_RETURN_IF_ERROR(made.CopyFrom(*this, true, site));
  return made;
}

absl::StatusOr<Array> Array::Contiguous(CallSite site) const {
  DEVRT_RETURN_IF_ERROR(CheckNotMovedFrom(storage_, "Contiguous"));
  if (IsContiguous()) return *this;
  return Copy(site);
}

}  // namespace devrt
