// SPDX-License-Identifier: Apache-2.0
//
// Array::Arange.  The host computes the values as NumPy does: it converts begin
// and begin + step to the dtype, and computes all others from these two in the
// dtype.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "arrays/copy/copy_steps.h"
#include "arrays/core/geometry.h"
#include "backends/tensor/dtype.h"
#include "devrt/arrays/array.h"
#include "devrt/runtime/status.h"

namespace devrt {
namespace {

__extension__ using Int128 = __int128;

bool IsInteger(const Scalar& value) {
  return value.kind() != DTypeKind::kFloat &&
         value.kind() != DTypeKind::kComplex;
}

Int128 Exact(const Scalar& value) {
  return value.kind() == DTypeKind::kUnsigned ? Int128{value.Value<uint64_t>()}
                                              : Int128{value.Value<int64_t>()};
}

struct Progression {
  Scalar begin, end, step;

  std::string text() const {
    return absl::StrCat("the range from ", begin.ToString(), " to ",
                        end.ToString(), " in steps of ", step.ToString());
  }
  bool integers() const {
    return IsInteger(begin) && IsInteger(end) && IsInteger(step);
  }
};

absl::Status CheckProgression(const Progression& p) {
  for (const Scalar& value : {p.begin, p.end, p.step}) {
    if (value.kind() == DTypeKind::kComplex) {
      return absl::InvalidArgumentError(
          absl::StrCat(p.text(), " is complex: a range needs real numbers"));
    }
    if (!std::isfinite(value.Value<double>())) {
      return absl::InvalidArgumentError(
          absl::StrCat(p.text(), " has no end: its numbers must be finite"));
    }
  }
  if (p.step.Value<double>() != 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(p.text(), " never ends: the step must not be 0"));
}

absl::Status TooLong(const Progression& p) {
  return absl::InvalidArgumentError(
      absl::StrCat(p.text(), " has more than 2^63 - 1 elements"));
}

absl::StatusOr<int64_t> CountIntegers(const Progression& p) {
  const Int128 step = Exact(p.step);
  const Int128 distance = Exact(p.end) - Exact(p.begin);
  if (distance == 0 || (distance < 0) != (step < 0)) return 0;
  const Int128 toward = step < 0 ? Int128{1} : Int128{-1};
  const Int128 count = (distance + toward) / step + 1;
  if (count > INT64_MAX) return TooLong(p);
  return static_cast<int64_t>(count);
}

absl::StatusOr<int64_t> CountFloats(const Progression& p) {
  const double distance = p.end.Value<double>() - p.begin.Value<double>();
  if (std::isinf(distance)) {
    return absl::InvalidArgumentError(
        absl::StrCat(p.text(), " is longer than any float64: scale it"));
  }
  const double steps = distance / p.step.Value<double>();
  // A distance that is far smaller than the step still has one element.
  if (steps == 0) return distance != 0 && !std::signbit(steps) ? 1 : 0;
  const double count = std::ceil(steps);
  if (!(count < 9223372036854775808.0)) return TooLong(p);
  return count < 0 ? 0 : static_cast<int64_t>(count);
}

// begin + step; the caller knows that the end is not nearer.
Scalar SecondOf(const Progression& p) {
  if (!p.integers()) {
    return p.begin.Value<double>() + p.step.Value<double>();
  }
  const Int128 second = Exact(p.begin) + Exact(p.step);
  if (second > INT64_MAX) return static_cast<uint64_t>(second);
  return static_cast<int64_t>(second);
}

template <typename T>
T ElementAt(T first, T second, int64_t index) {
  if constexpr (std::is_same_v<T, bool>) {
    return index == 0 ? first : second;
  } else if constexpr (tensor::kIsComplex<T>) {
    return {ElementAt(first.re, second.re, index),
            ElementAt(first.im, second.im, index)};
  } else if constexpr (std::is_integral_v<T>) {
    const uint64_t delta =
        static_cast<uint64_t>(second) - static_cast<uint64_t>(first);
    return static_cast<T>(static_cast<uint64_t>(first) +
                          static_cast<uint64_t>(index) * delta);
  } else {
    const T delta = second - first;
    return first + static_cast<T>(index) * delta;
  }
}

template <typename Stored>
void WriteAll(const Scalar::Element& first, const Scalar::Element& second,
              char* out, int64_t count) {
  Stored ends[2];
  std::memcpy(&ends[0], first.bytes, sizeof(Stored));
  std::memcpy(&ends[1], second.bytes, sizeof(Stored));
  const auto a = tensor::Widen(ends[0]);
  const auto b = tensor::Widen(ends[1]);
  for (int64_t i = 0; i < count; ++i) {
    const Stored value =
        i < 2 ? ends[i] : tensor::Narrow<Stored>(ElementAt(a, b, i));
    std::memcpy(out + static_cast<size_t>(i) * sizeof value, &value,
                sizeof value);
  }
}

// Memory for the values from which a device can copy without a wait.
absl::StatusOr<Array> NewValues(const Place& place, int64_t count, DType dtype,
                                CallSite site) {
  const DimSpan shape(&count, 1);
  if (place.kind() != MemoryKind::kDevice || count == 0) {
    return Array::Empty(shape, dtype, Place::Host(), site);
  }
  DEVRT_ASSIGN_OR_RETURN(const uint64_t bytes,
                         internal::CountBytes(shape, dtype));
  DEVRT_ASSIGN_OR_RETURN(const Array block, internal::NewStagingBlock(
                                                *place.device(), bytes, site));
  return Array(block.storage(), shape, dtype);
}

}  // namespace

absl::StatusOr<Array> Array::Arange(Scalar begin, Scalar end, Scalar step,
                                    DType dtype, const Place& place,
                                    CallSite site) {
  const Progression p{begin, end, step};
  DEVRT_RETURN_IF_ERROR(CheckProgression(p));
  DEVRT_ASSIGN_OR_RETURN(const int64_t count,
                         p.integers() ? CountIntegers(p) : CountFloats(p));
  if (dtype == kBool && count > 2) {
    return absl::InvalidArgumentError(absl::StrCat(
        p.text(), " has ", count, " elements: of bools it has 2 at most"));
  }
  Scalar::Element first, second;
  if (count > 0) {
    DEVRT_ASSIGN_OR_RETURN(first, begin.As(dtype));
  }
  if (count > 1) {
    DEVRT_ASSIGN_OR_RETURN(second, SecondOf(p).As(dtype));
  }
  DEVRT_ASSIGN_OR_RETURN(Array host, NewValues(place, count, dtype, site));
  tensor::VisitDtype(dtype.code(), [&](auto tag) {
    using Stored = typename decltype(tag)::type;
    WriteAll<Stored>(first, second, static_cast<char*>(host.data()), count);
    return 0.0f;
  });
  if (place.kind() == MemoryKind::kHost) return host;
  DEVRT_ASSIGN_OR_RETURN(Array array, Empty({&count, 1}, dtype, place, site));
  DEVRT_RETURN_IF_ERROR(array.CopyFrom(host, /*non_blocking=*/true, site));
  return array;
}

}  // namespace devrt
