// SPDX-License-Identifier: Apache-2.0
//
// How the kernels of devrt.reduce/0 compute: the operations, the types in which
// elements are folded and partial results combined, and sums of many values.

#ifndef DEVRT_BACKENDS_GPU_REDUCE_FOLD_H_
#define DEVRT_BACKENDS_GPU_REDUCE_FOLD_H_

#include <limits>
#include <type_traits>

#include "backends/gpu/device_code.h"
#include "backends/gpu/elements.h"
#include "backends/tensor/cast.h"
#include "backends/tensor/dtype.h"
#include "backends/tensor/scalar.h"

namespace devrt::gpu {

// ---- Combining --------------------------------------------------------------

// The type in which elements of T are combined: the widest of the kind, but
// float for 16-bit floats.
template <typename T, typename C = tensor::ComputeType<T>>
using PartialType = std::conditional_t<
    !std::is_integral_v<C>, C,
    std::conditional_t<std::is_same_v<C, bool> || std::is_signed_v<C>, int64_t,
                       uint64_t>>;

// Calls f(operation) for `op`.  ANY and ALL work on 0 and 1, because complex
// numbers have no order.
template <typename P, typename F>
DEVRT_HOST_DEVICE P WithOperation(uint32_t op, const F& f) {
  constexpr bool kOrdered = !tensor::kIsComplex<P>;
  switch (op) {
    case DEVRT_REDUCE_SUM:
      return f(tensor::Add());
    case DEVRT_REDUCE_PROD:
      return f(tensor::Multiply());
    case DEVRT_REDUCE_MIN:
    case DEVRT_REDUCE_ALL:
      return f(
          std::conditional_t<kOrdered, tensor::Minimum, tensor::Multiply>());
    default:
      return f(std::conditional_t<kOrdered, tensor::Maximum, tensor::Add>());
  }
}

template <typename P>
DEVRT_HOST_DEVICE P Combine(uint32_t op, P a, P b) {
  return WithOperation<P>(
      op, [&](auto operation) { return decltype(operation)::Apply(a, b); });
}

// Combines all values as a tree, which destroys them.
template <int kCount, typename Operation, typename P>
DEVRT_HOST_DEVICE P Fold(P* values) {
  static_assert(kCount > 0 && (kCount & (kCount - 1)) == 0,
                "halving another count would leave values out");
  for (int width = kCount / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) {
      values[i] = Operation::Apply(values[i], values[i + width]);
    }
  }
  return values[0];
}

template <typename Operation, typename P>
DEVRT_HOST_DEVICE constexpr P NeutralOf() {
  if constexpr (std::is_same_v<Operation, tensor::Minimum> ||
                std::is_same_v<Operation, tensor::Maximum>) {
    using Limits = std::numeric_limits<P>;
    constexpr P kMost =
        Limits::has_infinity ? Limits::infinity() : Limits::max();
    constexpr P kLeast =
        Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
    return std::is_same_v<Operation, tensor::Minimum> ? kMost : kLeast;
  } else if constexpr (std::is_same_v<Operation, tensor::Multiply>) {
    if constexpr (tensor::kIsComplex<P>) {
      return {1, 0};
    } else {
      return 1;
    }
  } else {
    return P{};
  }
}

template <typename P>
DEVRT_HOST_DEVICE P Neutral(uint32_t op) {
  return WithOperation<P>(
      op, [](auto operation) { return NeutralOf<decltype(operation), P>(); });
}

// Combines many values in kPack places.  8 values of a level make one of the
// next, so that the error of a sum grows with the logarithm of their number.
template <typename P, int kPack>
class PackLevels {
 public:
  DEVRT_HOST_DEVICE explicit PackLevels(P neutral) : neutral_(neutral) {
    for (int k = 0; k < kLevels; ++k) {
      for (int i = 0; i < kPack; ++i) levels_[k][i] = neutral;
    }
  }

  template <typename Operation>
  DEVRT_HOST_DEVICE void Push(const P* values) {
    Add<Operation>(0, values);
    uint32_t count = ++count_;
    for (int k = 1; k < kLevels; ++k) {
      if (count % 8 != 0) return;
      Add<Operation>(k, levels_[k - 1]);
      for (int i = 0; i < kPack; ++i) levels_[k - 1][i] = neutral_;
      count /= 8;
    }
  }

  // The result is in levels_[0].
  template <typename Operation>
  DEVRT_HOST_DEVICE const P* Finish() {
    for (int k = 1; k < kLevels; ++k) Add<Operation>(0, levels_[k]);
    return levels_[0];
  }

 private:
  // In registers.  Integers need one level, since their sums lose nothing.
  static constexpr int kLevels = std::is_integral_v<P> ? 1 : 5;

  template <typename Operation>
  DEVRT_HOST_DEVICE void Add(int k, const P* values) {
    for (int i = 0; i < kPack; ++i) {
      levels_[k][i] = Operation::Apply(levels_[k][i], values[i]);
    }
  }

  const P neutral_;
  uint32_t count_ = 0;
  P levels_[kLevels][kPack];
};

// ---- A lane's elements ------------------------------------------------------

// The type in which a few elements of T are combined: 32 bits where they
// suffice.
template <typename T, typename Operation, typename P = PartialType<T>>
using FoldType = std::conditional_t<
    std::is_integral_v<P> &&
        ((sizeof(T) <= 2 && !std::is_same_v<Operation, tensor::Multiply>) ||
         (sizeof(T) == 4 && (std::is_same_v<Operation, tensor::Minimum> ||
                             std::is_same_v<Operation, tensor::Maximum>))),
    std::conditional_t<std::is_signed_v<P>, int32_t, uint32_t>, P>;

template <typename Many, typename Few>
DEVRT_HOST_DEVICE Many FromFold(Few few) {
  if constexpr (std::is_same_v<Many, Few>) {
    return few;
  } else {
    return static_cast<Many>(few);
  }
}

// How a lane folds elements of T: a few make a Few, many of those a Many, which
// becomes a partial result.
template <typename T, typename Op>
struct Folding {
  using Operation = Op;
  using Few = FoldType<T, Op>;
  using Many = PartialType<T>;

  DEVRT_HOST_DEVICE explicit Folding(uint32_t) {}
  DEVRT_HOST_DEVICE static constexpr Few Nothing() {
    return NeutralOf<Op, Few>();
  }
  DEVRT_HOST_DEVICE static constexpr Many NothingOfMany() {
    return NeutralOf<Op, Many>();
  }
  DEVRT_HOST_DEVICE Few ValueOf(T element) const {
    const auto value = tensor::Widen(element);
    using Value = std::remove_const_t<decltype(value)>;
    return tensor::Cast<Few, Value>::Convert(value);
  }
  DEVRT_HOST_DEVICE Many Result(Many many) const { return many; }
};

struct BitOr {
  DEVRT_HOST_DEVICE static uint32_t Apply(uint32_t a, uint32_t b) {
    return a | b;
  }
};

// ANY.  ALL is computed as the negation of ANY.
template <typename T>
struct Folding<T, BitOr> {
  using Operation = BitOr;
  using Few = uint32_t;
  using Many = uint32_t;
  uint32_t inverted;

  DEVRT_HOST_DEVICE explicit Folding(uint32_t op)
      : inverted(op == DEVRT_REDUCE_ALL ? 1 : 0) {}
  DEVRT_HOST_DEVICE static constexpr uint32_t Nothing() { return 0; }
  DEVRT_HOST_DEVICE static constexpr uint32_t NothingOfMany() { return 0; }
  DEVRT_HOST_DEVICE uint32_t ValueOf(T element) const {
    const auto value = tensor::Widen(element);
    using Value = std::remove_const_t<decltype(value)>;
    const bool truth = tensor::Cast<bool, Value>::Convert(value);
    return (truth ? 1u : 0u) ^ inverted;
  }
  DEVRT_HOST_DEVICE PartialType<T> Result(uint32_t any) const {
    return tensor::Cast<PartialType<T>, bool>::Convert((any ^ inverted) != 0);
  }
};

// Calls f(folding) for `op`.
template <typename T, typename F>
DEVRT_HOST_DEVICE auto WithFolding(uint32_t op, const F& f) {
  switch (op) {
    case DEVRT_REDUCE_SUM:
      return f(Folding<T, tensor::Add>(op));
    case DEVRT_REDUCE_PROD:
      return f(Folding<T, tensor::Multiply>(op));
    case DEVRT_REDUCE_MIN:
      if constexpr (!tensor::kIsComplex<T>) {
        return f(Folding<T, tensor::Minimum>(op));
      }
      break;
    case DEVRT_REDUCE_MAX:
      if constexpr (!tensor::kIsComplex<T>) {
        return f(Folding<T, tensor::Maximum>(op));
      }
      break;
    default:
      break;
  }
  return f(Folding<T, BitOr>(op));
}

template <typename T, typename Operation>
inline constexpr bool kSumsBytes =
    sizeof(T) == 1 &&
    std::is_integral_v<T>&& std::is_same_v<Operation, tensor::Add>;

// Folds all elements of a pack.
template <typename T, int kItems, typename Folding>
DEVRT_HOST_DEVICE typename Folding::Few FoldPack(const Folding& folding,
                                                 const Pack<T, kItems>& pack) {
  using Few = typename Folding::Few;
  using Operation = typename Folding::Operation;
#if defined(__CUDA_ARCH__)
  constexpr bool kByWords = kSumsBytes<T, Operation>;
#else
  constexpr bool kByWords = false;
#endif
  if constexpr (kByWords) {
    Few sum = 0;
#if defined(__CUDA_ARCH__)
    Few words[kItems / 4];
    CopyBytes(words, pack.items, sizeof words);
    for (const Few four : words) {
      sum = __dp4a(four, static_cast<Few>(0x01010101), sum);
    }
#endif
    return sum;
  } else {
    Few values[kItems];
    for (int i = 0; i < kItems; ++i) {
      values[i] = folding.ValueOf(pack.items[i]);
    }
    return Fold<kItems, Operation>(values);
  }
}

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_REDUCE_FOLD_H_
