// SPDX-License-Identifier: Apache-2.0
//
// Views.  An array without elements may have any strides, so its strides are
// used in no computation that could overflow.  Functions construct a view in
// the place of their return value, because a move costs more than the rest of
// the work.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "arrays/core/array_checks.h"
#include "arrays/core/geometry.h"
#include "devrt/arrays/array.h"
#include "devrt/runtime/status.h"

namespace devrt {
namespace {

using internal::CheckNotMovedFrom;
using internal::kMaxDims;
using internal::NormalAxis;

// `bound` of a slice, clamped to the indices at which the slice may begin or
// end.
int64_t ClampBound(int64_t bound, int64_t extent, bool forward) {
  if (bound < 0) bound += extent;
  if (bound < 0) return forward ? 0 : -1;
  if (bound >= extent) return forward ? extent : extent - 1;
  return bound;
}

struct Range {
  int64_t begin;
  int64_t count;
};

Range Resolve(const Slice& slice, int64_t extent) {
  const bool forward = slice.step > 0;
  const int64_t begin = slice.begin ? ClampBound(*slice.begin, extent, forward)
                                    : (forward ? 0 : extent - 1);
  const int64_t end = slice.end ? ClampBound(*slice.end, extent, forward)
                                : (forward ? extent : -1);
  const int64_t distance = forward ? end - begin : begin - end;
  if (distance <= 0) return {begin, 0};
  const uint64_t bits = static_cast<uint64_t>(slice.step);
  const uint64_t stride = forward ? bits : 0 - bits;
  const uint64_t behind = static_cast<uint64_t>(distance) - 1;
  // Most steps are powers of two, and a division is slow.
  const uint64_t steps = (stride & (stride - 1)) == 0
                             ? behind >> __builtin_ctzll(stride)
                             : behind / stride;
  return {begin, static_cast<int64_t>(steps) + 1};
}

char* Advance(char* data, int64_t count, int64_t stride) {
  return count == 0 ? data : data + count * stride;
}

std::string AxesText(absl::Span<const int> axes) {
  return absl::StrCat("(", absl::StrJoin(axes, ", "), ")");
}

absl::Status NoSqueeze(const Array& array, int axis) {
  return absl::InvalidArgumentError(absl::StrCat(
      "axis ", axis, " of shape ", ShapeText(array.shape()), " has the extent ",
      array.shape()[axis], ": only axes of extent 1 can be squeezed"));
}

// Sets `*resolved` to `shape`, with the extent that makes `size` elements in
// the place of -1.
absl::Status ResolveShape(DimSpan shape, int64_t size, Dims* resolved) {
  resolved->assign(shape.begin(), shape.end());
  int64_t* open = nullptr;
  int64_t known = 1;
  bool overflow = false;
  for (int64_t& extent : *resolved) {
    if (extent != -1) {
      overflow |= __builtin_mul_overflow(known, extent, &known);
    } else if (open == nullptr) {
      open = &extent;
    } else {
      return absl::InvalidArgumentError(absl::StrCat(
          "shape ", ShapeText(shape), " has -1 twice: one extent can be open"));
    }
  }
  if (open == nullptr) return absl::OkStatus();
  if (overflow || known <= 0 || size % known != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("no extent for the -1 of shape ", ShapeText(shape),
                     " makes it hold ", size, " elements"));
  }
  *open = size / known;
  return absl::OkStatus();
}

// The axes of a view, without those of extent 1.
struct Walk {
  Dims shape;
  Dims strides;
};

Walk WithoutOnes(const Array& array) {
  Walk walk;
  for (int k = 0; k < array.ndim(); ++k) {
    if (array.shape()[k] == 1) continue;
    walk.shape.push_back(array.shape()[k]);
    walk.strides.push_back(array.strides()[k]);
  }
  return walk;
}

// Computes `strides` of the axes [first, last) of `shape`, which together
// replace the axes of `old` from `from` up to `to`.  That is possible if each
// of the old axes steps over all of the next one.
bool FillRun(const Walk& old, size_t from, size_t to, DimSpan shape,
             size_t first, size_t last, Dims* strides) {
  for (size_t k = from; k + 1 < to; ++k) {
    int64_t whole = 0;
    if (__builtin_mul_overflow(old.shape[k + 1], old.strides[k + 1], &whole) ||
        old.strides[k] != whole) {
      return false;
    }
  }
  int64_t stride = old.strides[to - 1];
  for (size_t k = last; k-- > first;) {
    (*strides)[k] = stride;
    // Only the stride of an extent of 1 can overflow, and it is never used.
    int64_t next = 0;
    if (!__builtin_mul_overflow(stride, shape[k], &next)) stride = next;
  }
  return true;
}

// Computes the strides with which `shape` has the elements of the old shape in
// the old order.  Returns false if there are none.  Both shapes have the same
// number of elements, which is not 0.
bool StridesWithoutCopy(const Array& array, DimSpan shape, Dims* strides) {
  const Walk old = WithoutOnes(array);
  size_t from = 0;
  size_t first = 0;
  while (from < old.shape.size() && first < shape.size()) {
    // The shortest runs of axes with equal numbers of elements.
    size_t to = from + 1;
    size_t last = first + 1;
    int64_t held = old.shape[from];
    int64_t wanted = shape[first];
    while (held != wanted) {
      if (held < wanted) {
        held *= old.shape[to++];
      } else {
        wanted *= shape[last++];
      }
    }
    if (!FillRun(old, from, to, shape, first, last, strides)) return false;
    from = to;
    first = last;
  }
  // The remaining axes have extent 1.
  for (; first < shape.size(); ++first) {
    (*strides)[first] = first == 0 ? static_cast<int64_t>(array.item_size())
                                   : (*strides)[first - 1];
  }
  return true;
}

}  // namespace

absl::StatusOr<Array> Array::SliceAxis(int axis, Slice slice) const {
  DEVRT_RETURN_IF_ERROR(CheckNotMovedFrom(storage_, "SliceAxis"));
  DEVRT_ASSIGN_OR_RETURN(const int k, NormalAxis("SliceAxis", axis, shape_));
  if (slice.step == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("a slice of axis ", axis,
                     " has a step of 0: steps are positive or negative"));
  }
  const Range range = Resolve(slice, shape_[k]);
  absl::StatusOr<Array> made(*this);
  Array& view = *made;
  view.shape_[k] = range.count;
  // With fewer than two elements the stride is never used.
  if (range.count > 1 && size_ != 0) view.strides_[k] *= slice.step;
  view.size_ = internal::CountElements(view.shape_);
  if (view.size_ != 0) view.data_ = Advance(data_, range.begin, strides_[k]);
  return made;
}

absl::StatusOr<Array> Array::Index(int axis, int64_t index) const {
  DEVRT_RETURN_IF_ERROR(CheckNotMovedFrom(storage_, "Index"));
  DEVRT_ASSIGN_OR_RETURN(const int k, NormalAxis("Index", axis, shape_));
  const int64_t extent = shape_[k];
  if (index < -extent || index >= extent) {
    return absl::InvalidArgumentError(absl::StrCat(
        "Index: index ", index, " is out of range for axis ", axis,
        " of shape ", ShapeText(shape_), ", which has the extent ", extent));
  }
  absl::StatusOr<Array> made(*this);
  Array& view = *made;
  view.shape_.erase(view.shape_.begin() + k);
  view.strides_.erase(view.strides_.begin() + k);
  view.size_ = internal::CountElements(view.shape_);
  if (view.size_ != 0) {
    view.data_ =
        Advance(data_, index < 0 ? index + extent : index, strides_[k]);
  }
  return made;
}

Array Array::Transpose() const {
  Array view = *this;
  std::reverse(view.shape_.begin(), view.shape_.end());
  std::reverse(view.strides_.begin(), view.strides_.end());
  return view;
}

absl::StatusOr<Array> Array::Permute(absl::Span<const int> axes) const {
  DEVRT_RETURN_IF_ERROR(CheckNotMovedFrom(storage_, "Permute"));
  if (axes.size() != shape_.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("axes ", AxesText(axes), " are no permutation of the ",
                     ndim(), " axes of shape ", ShapeText(shape_)));
  }
  absl::StatusOr<Array> made(*this);
  Array& view = *made;
  uint32_t seen = 0;
  for (size_t i = 0; i < axes.size(); ++i) {
    DEVRT_ASSIGN_OR_RETURN(const int k, NormalAxis("Permute", axes[i], shape_));
    if ((seen >> k & 1) != 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("axes ", AxesText(axes), " name axis ", k,
                       " twice: a permutation has each axis once"));
    }
    seen |= uint32_t{1} << k;
    view.shape_[i] = shape_[k];
    view.strides_[i] = strides_[k];
  }
  return made;
}

absl::StatusOr<Array> Array::Reshape(DimSpan shape) const {
  DEVRT_RETURN_IF_ERROR(CheckNotMovedFrom(storage_, "Reshape"));
  absl::StatusOr<Array> made(*this);
  Array& view = *made;
  DEVRT_RETURN_IF_ERROR(ResolveShape(shape, size_, &view.shape_));
  DEVRT_ASSIGN_OR_RETURN(const uint64_t bytes,
                         internal::CountBytes(view.shape_, dtype_));
  if (bytes != nbytes()) {
    return absl::InvalidArgumentError(
        absl::StrCat("shape ", ShapeText(shape_), " of ", size_,
                     " elements cannot be reshaped to ", ShapeText(shape),
                     " of ", bytes / item_size()));
  }
  if (IsContiguous()) {
    view.strides_ = internal::ContiguousStrides(view.shape_, item_size());
    return made;
  }
  view.strides_.resize(view.shape_.size());
  if (!StridesWithoutCopy(*this, view.shape_, &view.strides_)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "shape ", ShapeText(shape_), " with strides ", ShapeText(strides_),
        " (bytes) cannot be seen as ", ShapeText(shape),
        " without a copy: reshape Contiguous() of it instead"));
  }
  return made;
}

absl::StatusOr<Array> Array::ExpandDims(int axis) const {
  DEVRT_RETURN_IF_ERROR(CheckNotMovedFrom(storage_, "ExpandDims"));
  if (ndim() == kMaxDims) {
    return absl::InvalidArgumentError(
        absl::StrCat("no axis can be added to ", kMaxDims,
                     ": arrays have at most that many"));
  }
  const int last = ndim();
  if (axis < -last - 1 || axis > last) {
    return internal::NoAxisError("ExpandDims", axis, shape_, last + 1);
  }
  const int k = axis < 0 ? axis + last + 1 : axis;
  absl::StatusOr<Array> made(*this);
  Array& view = *made;
  int64_t stride = static_cast<int64_t>(item_size());
  if (k < ndim() && __builtin_mul_overflow(shape_[k], strides_[k], &stride)) {
    stride = strides_[k];
  }
  view.shape_.insert(view.shape_.begin() + k, 1);
  view.strides_.insert(view.strides_.begin() + k, stride);
  return made;
}

absl::StatusOr<Array> Array::Squeeze(int axis) const {
  DEVRT_RETURN_IF_ERROR(CheckNotMovedFrom(storage_, "Squeeze"));
  DEVRT_ASSIGN_OR_RETURN(const int k, NormalAxis("Squeeze", axis, shape_));
  if (shape_[k] != 1) return NoSqueeze(*this, k);
  absl::StatusOr<Array> made(*this);
  Array& view = *made;
  view.shape_.erase(view.shape_.begin() + k);
  view.strides_.erase(view.strides_.begin() + k);
  return made;
}

Array Array::Squeeze() const {
  if (storage_ == nullptr) return *this;
  Walk walk = WithoutOnes(*this);
  return ViewOf(data_, std::move(walk.shape), std::move(walk.strides));
}

absl::StatusOr<Array> Array::BroadcastTo(DimSpan shape) const {
  DEVRT_RETURN_IF_ERROR(CheckNotMovedFrom(storage_, "BroadcastTo"));
  DEVRT_ASSIGN_OR_RETURN(const uint64_t bytes,
                         internal::CountBytes(shape, dtype_));
  const size_t added = shape.size() - std::min(shape.size(), shape_.size());
  bool fits = shape.size() >= shape_.size();
  absl::StatusOr<Array> made(*this);
  Array& view = *made;
  view.shape_.assign(shape.begin(), shape.end());
  view.strides_.assign(shape.size(), 0);
  for (size_t k = 0; fits && k < shape_.size(); ++k) {
    fits = shape_[k] == shape[added + k] || shape_[k] == 1;
    if (shape_[k] == shape[added + k]) view.strides_[added + k] = strides_[k];
  }
  if (!fits) {
    return absl::InvalidArgumentError(absl::StrCat(
        "shape ", ShapeText(shape_), " does not broadcast to ",
        ShapeText(shape), ": extents are equal or 1, counted from the last"));
  }
  view.size_ = static_cast<int64_t>(bytes / item_size());
  return made;
}

absl::StatusOr<Array> Array::ViewAs(DType dtype) const {
  DEVRT_RETURN_IF_ERROR(CheckNotMovedFrom(storage_, "ViewAs"));
  if (dtype.size() != item_size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("elements of ", dtype_.name(), " have ", item_size(),
                     " bytes and those of ", dtype.name(), " ", dtype.size(),
                     ": they cannot be seen as those; Cast converts"));
  }
  absl::StatusOr<Array> made(*this);
  Array& view = *made;
  view.dtype_ = dtype;
  return made;
}

}  // namespace devrt
