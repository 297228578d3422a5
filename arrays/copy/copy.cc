// SPDX-License-Identifier: Apache-2.0

#include "devrt/arrays/copy.h"

#include <optional>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "arrays/copy/copy_layout.h"
#include "arrays/copy/copy_routes.h"
#include "arrays/copy/copy_steps.h"
#include "arrays/core/geometry.h"
#include "arrays/ops/compute.h"
#include "arrays/ops/kernels.h"
#include "arrays/storage/storage.h"
#include "devrt/runtime/status.h"
#include "streams/internal/stream_target.h"

namespace devrt {

using internal::CheckNotMovedFrom;
using internal::CopyJob;
using internal::IsOnDevice;
using internal::Storage;

namespace {

absl::Status CheckStreamOption(const Array& target, const Array& source,
                               StreamRef stream) {
  DEVRT_RETURN_IF_ERROR(internal::CheckStream(stream, "CopyArray"));
  for (const Array* side : {&target, &source}) {
    const Place place = side->place();
    if (IsOnDevice(*side) && stream.device() == *place.device()) {
      return absl::OkStatus();
    }
  }
  std::ostringstream text;
  text << stream;
  return absl::InvalidArgumentError(
      absl::StrCat("CopyArray: the ", text.str(), " cannot copy from ",
                   source.place().name(), " to ", target.place().name(),
                   ": pass a stream of a device that has one side, or none"));
}

// Copies by the route that the two places need.
absl::Status CopyAlong(const Array& target, const Array& source,
                       const CopyOptions& options, CallSite site) {
  const bool to_device = IsOnDevice(target);
  const bool from_device = IsOnDevice(source);
  if (!to_device && !from_device) {
    return internal::CopyHostToHost(target, source, site);
  }
  const CopyJob job(target, source, options.stream, options.non_blocking, site);
  if (!to_device) return internal::CopyDeviceToHost(job);
  if (!from_device) return internal::CopyHostToDevice(job);
  return *target.place().device() == *source.place().device()
             ? internal::CopyWithinDevice(job)
             : internal::CopyBetweenPeers(job);
}

// The place of new arrays that belong to an array in `place`.
Place PlaceForNew(const Place& place) {
  return place.kind() == MemoryKind::kManaged ? Place(*place.device()) : place;
}

}  // namespace

absl::Status CopyArray(const Array& target, const Array& source,
                       const CopyOptions& options, CallSite site) {
  if (internal::InHostFunction()) {
    return internal::HostFunctionError("CopyArray");
  }
  DEVRT_RETURN_IF_ERROR(internal::CheckTarget("CopyArray", target));
  DEVRT_RETURN_IF_ERROR(CheckNotMovedFrom(source.storage(), "CopyArray"));
  if (options.stream.has_value()) {
    DEVRT_RETURN_IF_ERROR(CheckStreamOption(target, source, *options.stream));
  }
  if (target.size() == 0 && target.shape() == source.shape()) {
    return absl::OkStatus();
  }
  std::optional<Array> broadcast;
  if (target.shape() != source.shape()) {
    absl::StatusOr<Array> wide = source.BroadcastTo(target.shape());
    if (!wide.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("CopyArray: the source's ", wide.status().message(),
                       "; reshape it, or copy to a slice of the target"));
    }
    if (target.size() == 0) return absl::OkStatus();
    broadcast.emplace(*std::move(wide));
  }
  const Array& from = broadcast.has_value() ? *broadcast : source;
  if (target.dtype() == from.dtype() && internal::IsSameView(target, from)) {
    return absl::OkStatus();
  }
  return CopyAlong(target, from, options, site);
}

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

namespace {

bool IsOneByte(const Scalar::Element& element, uint64_t size) {
  for (uint64_t i = 1; i < size; ++i) {
    if (element.bytes[i] != element.bytes[0]) return false;
  }
  return true;
}

// An array over an element in host memory, which is valid while the call runs.
Array HostElement(const Scalar::Element& element, DType dtype) {
  Storage::Borrowed borrowed;
  borrowed.base = const_cast<unsigned char*>(element.bytes);
  borrowed.bytes = dtype.size();
  auto* const data = static_cast<char*>(borrowed.base);
  return Array(Storage::Borrow(Place::Host(), std::move(borrowed)), data, {},
               {}, dtype);
}

absl::Status FillOnDevice(const Array& array, const Scalar::Element& element,
                          CallSite site) {
  const StreamRef stream = internal::CurrentStreamOf(array.place());
  char* begin = nullptr;
  const bool bytes = array.place().kind() == MemoryKind::kDevice &&
                     IsOneByte(element, array.item_size()) &&
                     internal::IsDense(array, &begin);
  if (!bytes && !internal::HasElementwise(stream.device())) {
    return CopyArray(array, HostElement(element, array.dtype()), {}, site);
  }
  const internal::Touched touched[] = {{array.storage().get(), true}};
  const auto enqueue = [&](const internal::StreamTarget& target) {
    if (bytes) {
      return internal::FillOperand(
          target, internal::OperandOf(array, begin, array.nbytes()),
          element.bytes[0]);
    }
    return internal::Kernels("fill", target)
        .Fill(internal::TensorOf(array), element.bytes);
  };
  return internal::RunOrdered({stream, site}, touched, enqueue);
}

}  // namespace

absl::Status Array::Fill(Scalar value, CallSite site) const {
  if (internal::InHostFunction()) return internal::HostFunctionError("Fill");
  DEVRT_RETURN_IF_ERROR(internal::CheckTarget("Fill", *this));
  DEVRT_ASSIGN_OR_RETURN(const Scalar::Element element, value.As(dtype_));
  if (size_ == 0) return absl::OkStatus();
  if (IsOnDevice(*this)) return FillOnDevice(*this, element, site);
  return CopyArray(*this, HostElement(element, dtype_), {}, site);
}

absl::StatusOr<Scalar> Array::Item(CallSite site) const {
  DEVRT_RETURN_IF_ERROR(CheckNotMovedFrom(storage_, "Item"));
  if (size_ != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("Item() needs an array of one element, but the shape is ",
                     ShapeText(shape_), ": Index() or Reshape() it first"));
  }
  Scalar::Element element;
  Storage::Borrowed borrowed;
  borrowed.base = element.bytes;
  borrowed.bytes = item_size();
  const Array host(Storage::Borrow(Place::Host(), std::move(borrowed)),
                   reinterpret_cast<char*>(element.bytes), shape_,
                   Dims(shape_.size(), static_cast<int64_t>(item_size())),
                   dtype_);
  DEVRT_RETURN_IF_ERROR(host.CopyFrom(*this, false, site));
  return Scalar::FromElement(dtype_, element.bytes);
}

}  // namespace devrt
