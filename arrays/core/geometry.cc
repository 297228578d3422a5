// SPDX-License-Identifier: Apache-2.0
#include "arrays/core/geometry.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "arrays/storage/storage.h"
#include "devrt/arrays/array.h"
#include "devrt/runtime/status.h"

namespace devrt {
namespace internal {
namespace {

// HasOverlap looks at each element only up to this number.
constexpr int64_t kMostEnumerated = 4096;

uint64_t Magnitude(int64_t stride) {
  const uint64_t bits = static_cast<uint64_t>(stride);
  return stride < 0 ? 0 - bits : bits;
}

uintptr_t AddressOf(const Array& array) {
  return reinterpret_cast<uintptr_t>(array.data());
}

// An axis with more than one element.
struct Axis {
  uint64_t stride;  // magnitude
  uint64_t extent;
};

std::vector<Axis> AxesByStride(const Array& array) {
  std::vector<Axis> axes;
  for (int k = 0; k < array.ndim(); ++k) {
    if (array.shape()[k] <= 1) continue;
    axes.push_back({Magnitude(array.strides()[k]),
                    static_cast<uint64_t>(array.shape()[k])});
  }
  std::sort(axes.begin(), axes.end(),
            [](const Axis& a, const Axis& b) { return a.stride < b.stride; });
  return axes;
}

// Returns true if each axis steps over all bytes of the axes inside it.
bool Nests(const std::vector<Axis>& axes, uint64_t item) {
  uint64_t inner = item;
  for (const Axis& axis : axes) {
    if (axis.stride < inner) return false;
    inner += axis.stride * (axis.extent - 1);
  }
  return true;
}

bool EnumerationOverlaps(const std::vector<Axis>& axes, uint64_t item) {
  std::vector<uint64_t> offsets = {0};
  for (const Axis& axis : axes) {
    const size_t inner = offsets.size();
    for (uint64_t i = 1; i < axis.extent; ++i) {
      for (size_t k = 0; k < inner; ++k) {
        offsets.push_back(offsets[k] + i * axis.stride);
      }
    }
  }
  std::sort(offsets.begin(), offsets.end());
  for (size_t i = 1; i < offsets.size(); ++i) {
    if (offsets[i] - offsets[i - 1] < item) return true;
  }
  return false;
}

// Compares addresses: two storages may have one piece of memory.
bool AreApart(const Storage& a, const Storage& b) {
  const uintptr_t low_a = reinterpret_cast<uintptr_t>(a.base());
  const uintptr_t low_b = reinterpret_cast<uintptr_t>(b.base());
  return low_a < low_b ? low_b - low_a >= a.bytes()
                       : low_a - low_b >= b.bytes();
}

// The greatest common divisor of `period` and all strides of extents above 1.
uint64_t Period(const Array& array, uint64_t period) {
  for (const Axis& axis : AxesByStride(array)) {
    period = std::gcd(period, axis.stride);
  }
  return period;
}

}  // namespace

absl::StatusOr<uint64_t> CountBytes(DimSpan shape, DType dtype) {
  if (shape.size() > static_cast<size_t>(kMaxDims)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a shape of ", shape.size(),
                     " axes is too long: arrays have at most ", kMaxDims));
  }
  // This path does not allocate.
  int64_t bytes = static_cast<int64_t>(dtype.size());
  bool empty = false;
  bool overflow = false;
  for (size_t k = 0; k < shape.size(); ++k) {
    if (shape[k] < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("shape ", ShapeText(shape), " has the extent ", shape[k],
                       " at axis ", k, ": extents are 0 or more"));
    }
    empty |= shape[k] == 0;
    overflow |=
        __builtin_mul_overflow(bytes, std::max<int64_t>(shape[k], 1), &bytes);
  }
  if (overflow) {
    return absl::InvalidArgumentError(
        absl::StrCat("shape ", ShapeText(shape), " of ", dtype.name(),
                     " is more than 2^63 - 1 bytes",
                     empty ? " but for its extents of 0" : "",
                     ": that much cannot be addressed"));
  }
  return empty ? 0 : static_cast<uint64_t>(bytes);
}

int64_t CountElements(DimSpan shape) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  return count;
}

int64_t MakeContiguous(int64_t* strides, DimSpan shape, uint64_t item) {
  int64_t stride = static_cast<int64_t>(item);
  int64_t count = 1;
  for (size_t k = shape.size(); k-- > 0;) {
    strides[k] = stride;
    stride *= std::max<int64_t>(shape[k], 1);
    count *= shape[k];
  }
  return count;
}

Dims ZeroDims(size_t count) {
  // A vector without an allocation is copied byte by byte.
  static const auto* const zeros = new std::array<Dims, 6>{
      Dims(0), Dims(1), Dims(2), Dims(3), Dims(4), Dims(5)};
  return count < zeros->size() ? (*zeros)[count] : Dims(count);
}

Dims ContiguousStrides(DimSpan shape, uint64_t item) {
  Dims strides = ZeroDims(shape.size());
  MakeContiguous(strides.data(), shape, item);
  return strides;
}

bool IsContiguous(DimSpan shape, DimSpan strides, uint64_t item) {
  int64_t expected = static_cast<int64_t>(item);
  bool contiguous = true;
  for (size_t k = shape.size(); k-- > 0;) {
    if (shape[k] == 0) return true;
    if (shape[k] == 1) continue;
    contiguous = contiguous && strides[k] == expected;
    if (contiguous) expected *= shape[k];
  }
  return contiguous;
}

absl::StatusOr<ByteSpan> SpanOf(DimSpan shape, DimSpan strides, uint64_t item) {
  ByteSpan span;
  span.hi = static_cast<int64_t>(item);
  bool overflow = false;
  for (size_t k = 0; k < shape.size(); ++k) {
    if (shape[k] == 0) return ByteSpan();
    int64_t reach = 0;
    overflow |= __builtin_mul_overflow(shape[k] - 1, strides[k], &reach);
    int64_t& end = reach < 0 ? span.lo : span.hi;
    overflow |= __builtin_add_overflow(end, reach, &end);
  }
  int64_t all = 0;
  overflow |= __builtin_sub_overflow(span.hi, span.lo, &all);
  if (overflow) {
    return absl::InvalidArgumentError(absl::StrCat(
        "shape ", ShapeText(shape), " with strides ", ShapeText(strides),
        " (bytes) spans more than 2^63 - 1 bytes: that much cannot be "
        "addressed"));
  }
  return span;
}

ByteSpan SpanOf(const Array& array) {
  ByteSpan span;
  if (array.size() == 0) return span;
  span.hi = static_cast<int64_t>(array.item_size());
  for (int k = 0; k < array.ndim(); ++k) {
    const int64_t reach = (array.shape()[k] - 1) * array.strides()[k];
    (reach < 0 ? span.lo : span.hi) += reach;
  }
  return span;
}

bool HasOverlap(const Array& array) {
  if (array.size() <= 1 || array.IsContiguous()) return false;
  const std::vector<Axis> axes = AxesByStride(array);
  if (axes.front().stride == 0) return true;
  if (Nests(axes, array.item_size())) return false;
  return array.size() > kMostEnumerated ||
         EnumerationOverlaps(axes, array.item_size());
}

bool MayOverlap(const Array& a, const Array& b) {
  if (a.size() == 0 || b.size() == 0) return false;
  if (a.storage() != nullptr && b.storage() != nullptr &&
      AreApart(*a.storage(), *b.storage())) {
    return false;
  }
  const ByteSpan in_a = SpanOf(a);
  const ByteSpan in_b = SpanOf(b);
  // The lowest and highest byte.  Unsigned, because lo is negative and wraps.
  const uintptr_t low_a = AddressOf(a) + static_cast<uintptr_t>(in_a.lo);
  const uintptr_t low_b = AddressOf(b) + static_cast<uintptr_t>(in_b.lo);
  const uint64_t bytes_a = static_cast<uint64_t>(in_a.hi - in_a.lo);
  const uint64_t bytes_b = static_cast<uint64_t>(in_b.hi - in_b.lo);
  if (low_a < low_b ? low_b - low_a >= bytes_a : low_a - low_b >= bytes_b) {
    return false;
  }
  const uint64_t period = Period(b, Period(a, 0));
  if (period == 0) return true;
  // The distance of b's elements behind a's in each period.
  const uint64_t distance = low_b >= low_a
                                ? (low_b - low_a) % period
                                : (period - (low_a - low_b) % period) % period;
  return distance < a.item_size() || period - distance < b.item_size();
}

bool IsSameView(const Array& a, const Array& b) {
  if (a.data() != b.data() || a.shape() != b.shape() ||
      a.item_size() != b.item_size()) {
    return false;
  }
  if (a.size() == 0) return true;
  for (int k = 0; k < a.ndim(); ++k) {
    if (a.shape()[k] > 1 && a.strides()[k] != b.strides()[k]) return false;
  }
  return true;
}

absl::Status NoAxisError(const char* call, int axis, DimSpan shape, int ndim) {
  const std::string begin = absl::StrCat(
      call, ": axis ", axis, " does not exist: shape ", ShapeText(shape));
  if (ndim == 0) {
    return absl::InvalidArgumentError(absl::StrCat(begin, " has no axes"));
  }
  const bool adds = static_cast<size_t>(ndim) != shape.size();
  return absl::InvalidArgumentError(absl::StrCat(
      begin, adds ? " with the new axis has " : " has ", ndim,
      ndim == 1 ? " axis (" : " axes (", -ndim, " to ", ndim - 1, ")"));
}

}  // namespace internal

std::string ShapeText(DimSpan shape) {
  return absl::StrCat("(", absl::StrJoin(shape, ", "),
                      shape.size() == 1 ? ",)" : ")");
}

absl::StatusOr<Dims> BroadcastShapes(DimSpan a, DimSpan b) {
  const bool swapped = a.size() < b.size();
  const DimSpan longer = swapped ? b : a;
  const DimSpan shorter = swapped ? a : b;
  Dims shape(longer.begin(), longer.end());
  const size_t skip = longer.size() - shorter.size();
  for (size_t k = 0; k < shorter.size(); ++k) {
    int64_t& extent = shape[skip + k];
    if (shorter[k] == extent || shorter[k] == 1) continue;
    if (extent != 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          "shapes ", ShapeText(a), " and ", ShapeText(b),
          " do not broadcast: at axis ",
          static_cast<int64_t>(k) - static_cast<int64_t>(shorter.size()),
          " the extents are ", swapped ? shorter[k] : extent, " and ",
          swapped ? extent : shorter[k],
          ", and neither is 1; reshape one of them"));
    }
    extent = shorter[k];
  }
  return shape;
}

}  // namespace devrt
