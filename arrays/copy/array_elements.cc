// SPDX-License-Identifier: Apache-2.0
//
// Single elements between the host and an array: Array::Fill and Array::Item.

#include <utility>

#include "absl/strings/str_cat.h"
#include "arrays/copy/copy_layout.h"
#include "arrays/copy/copy_steps.h"
#include "arrays/core/array_checks.h"
#include "arrays/core/kernels.h"
#include "arrays/storage/storage_order.h"
#include "devrt/arrays/array.h"
#include "devrt/arrays/copy.h"
#include "devrt/runtime/status.h"
#include "streams/objects/stream_target.h"

namespace devrt {

using internal::CheckNotMovedFrom;
using internal::IsOnDevice;
using internal::Storage;

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
