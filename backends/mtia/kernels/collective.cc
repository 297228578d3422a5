// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/kernels/collective.h"

#include <algorithm>
#include <type_traits>

#include "backends/tensor/dtype.h"
#include "backends/tensor/scalar.h"
#include "devrt/backends/abi/devrt_collectives.h"

namespace devrt::mtia {
namespace {

using tensor::Add;
using tensor::ComputeType;
using tensor::kIsComplex;
using tensor::Maximum;
using tensor::Minimum;
using tensor::Multiply;
using tensor::Narrow;
using tensor::VisitDtype;
using tensor::Widen;

template <typename T>
T Quotient(T sum, uint32_t n) {
  if constexpr (kIsComplex<T>) {
    const auto parts = static_cast<decltype(sum.re)>(n);
    return {sum.re / parts, sum.im / parts};
  } else if constexpr (std::is_signed_v<T> && std::is_integral_v<T>) {
    return static_cast<T>(static_cast<int64_t>(sum) / int64_t{n});
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<uint64_t>(sum) / n);
  } else {
    return sum / static_cast<T>(n);
  }
}

// f(0) to f(size - 1), most of them in loops of a fixed length, which compilers
// turn into vector instructions.
template <typename F>
void ForEach(uint64_t size, F f) {
  constexpr uint64_t kLanes = 16;
  uint64_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    for (uint64_t lane = 0; lane < kLanes; ++lane) f(i + lane);
  }
  for (; i < size; ++i) f(i);
}

template <typename Op, typename Stored, bool kAverage>
void FoldRanks(const std::byte* const* in, uint32_t n, uint64_t count,
               std::byte* out) {
  using T = ComputeType<Stored>;
  constexpr uint64_t kBlock = 1024;
  T sum[kBlock];
  auto* const to = reinterpret_cast<Stored*>(out);
  for (uint64_t begin = 0; begin < count; begin += kBlock) {
    const uint64_t size = std::min(kBlock, count - begin);
    for (uint32_t r = 0; r < n; ++r) {
      const auto* const from = reinterpret_cast<const Stored*>(in[r]) + begin;
      if (r == 0) {
        ForEach(size, [&](uint64_t i) { sum[i] = Widen(from[i]); });
      } else {
        ForEach(size, [&](uint64_t i) {
          sum[i] = Op::Apply(sum[i], static_cast<T>(Widen(from[i])));
        });
      }
    }
    ForEach(size, [&](uint64_t i) {
      if constexpr (kAverage) sum[i] = Quotient<T>(sum[i], n);
      to[begin + i] = Narrow<Stored>(sum[i]);
    });
  }
}

template <typename Op, bool kAverage = false>
RankFold Find(uint32_t dtype) {
  return VisitDtype(dtype, [](auto tag) -> RankFold {
    using Stored = typename decltype(tag)::type;
    constexpr bool kIsFloat8 = std::is_same_v<Stored, tensor::Float8E4m3fn> ||
                               std::is_same_v<Stored, tensor::Float8E5m2>;
    constexpr bool kIsOrder =
        std::is_same_v<Op, Minimum> || std::is_same_v<Op, Maximum>;
    constexpr bool kIsBool = std::is_same_v<Stored, tensor::Bool>;
    if constexpr (!kIsFloat8 && !(kIsBool && !kIsOrder) &&
                  !(kIsComplex<Stored> && kIsOrder)) {
      return &FoldRanks<Op, Stored, kAverage>;
    } else {
      return nullptr;
    }
  });
}

}  // namespace

RankFold FindRankFold(uint32_t reduction, uint32_t dtype) {
  switch (reduction) {
    case DEVRT_COLLECTIVE_SUM:
      return Find<Add>(dtype);
    case DEVRT_COLLECTIVE_PROD:
      return Find<Multiply>(dtype);
    case DEVRT_COLLECTIVE_MIN:
      return Find<Minimum>(dtype);
    case DEVRT_COLLECTIVE_MAX:
      return Find<Maximum>(dtype);
    case DEVRT_COLLECTIVE_AVG:
      return Find<Add, true>(dtype);
    default:
      return nullptr;
  }
}

}  // namespace devrt::mtia
