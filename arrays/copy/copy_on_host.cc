// SPDX-License-Identifier: Apache-2.0

#include "arrays/copy/copy_on_host.h"

#include <array>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "arrays/copy/copy_layout.h"
#include "backends/tensor/cast.h"
#include "backends/tensor/dtype.h"

namespace devrt::internal {

namespace {

// One row of elements; steps are in bytes.
using RowCopy = void (*)(char* dst, int64_t dst_step, const char* src,
                         int64_t src_step, int64_t count);

template <size_t kSize>
void CopyRow(char* dst, int64_t dst_step, const char* src, int64_t src_step,
             int64_t count) {
  if (dst_step == static_cast<int64_t>(kSize) && src_step == dst_step) {
    std::memcpy(dst, src, static_cast<size_t>(count) * kSize);
    return;
  }
  for (; count > 0; --count, dst += dst_step, src += src_step) {
    std::memcpy(dst, src, kSize);
  }
}

// The integer in the widest dtype of its kind.
template <typename T>
auto Widest(T value) {
  if constexpr (std::is_integral_v<T> && std::is_signed_v<T>) {
    return int64_t{value};
  } else if constexpr (std::is_integral_v<T>) {
    return uint64_t{value};
  } else {
    return value;
  }
}

// Elements need not be aligned.
template <typename To, typename From>
void CastRow(char* dst, int64_t dst_step, const char* src, int64_t src_step,
             int64_t count) {
  // A conversion through float would round twice.
  using Computed = tensor::ComputeType<From>;
  constexpr bool kOdd =
      tensor::kIsNarrowFloat<To> && !std::is_same_v<Computed, float>;
  for (; count > 0; --count, dst += dst_step, src += src_step) {
    From from;
    std::memcpy(&from, src, sizeof from);
    const Computed value = tensor::Widen(from);
    To to;
    if constexpr (kOdd) {
      const auto wide = Widest(value);
      using Wide = std::remove_const_t<decltype(wide)>;
      to = tensor::Narrow<To>(
          tensor::Cast<tensor::OddFloat, Wide>::Convert(wide));
    } else {
      to = tensor::Narrow<To>(
          tensor::Cast<tensor::ComputeType<To>, Computed>::Convert(value));
    }
    std::memcpy(dst, &to, sizeof to);
  }
}

RowCopy FindCast(uint32_t to, uint32_t from) {
  return tensor::VisitDtype(to, [from](auto t) -> RowCopy {
    using To = typename decltype(t)::type;
    return tensor::VisitDtype(from, [](auto f) -> RowCopy {
      return &CastRow<To, typename decltype(f)::type>;
    });
  });
}

// A copy between equal dtypes keeps all bits, except that a bool becomes 0 or
// 1.
RowCopy FindRowCopy(DType to, DType from) {
  if (to != from || to == kBool) return FindCast(to.code(), from.code());
  switch (to.size()) {
    case 1:
      return &CopyRow<1>;
    case 2:
      return &CopyRow<2>;
    case 4:
      return &CopyRow<4>;
    case 8:
      return &CopyRow<8>;
    default:
      return &CopyRow<16>;
  }
}

}  // namespace

void CopyOnHost(const Array& dst, const Array& src) {
  if (dst.size() == 0) return;
  const CopyLayout layout = LayoutOf(dst, src);
  const RowCopy row = FindRowCopy(dst.dtype(), src.dtype());
  if (layout.shape.empty()) {
    row(layout.dst, 0, layout.src, 0, 1);
    return;
  }
  const size_t inner = layout.shape.size() - 1;
  std::array<int64_t, DEVRT_MAX_DIMS> index{};
  char* to = layout.dst;
  const char* from = layout.src;
  for (;;) {
    row(to, layout.dst_strides[inner], from, layout.src_strides[inner],
        layout.shape[inner]);
    size_t k = inner;
    for (; k > 0; --k) {
      const size_t axis = k - 1;
      to += layout.dst_strides[axis];
      from += layout.src_strides[axis];
      if (++index[axis] < layout.shape[axis]) break;
      to -= layout.dst_strides[axis] * layout.shape[axis];
      from -= layout.src_strides[axis] * layout.shape[axis];
      index[axis] = 0;
    }
    if (k == 0) return;
  }
}

}  // namespace devrt::internal
