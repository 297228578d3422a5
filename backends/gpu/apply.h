// SPDX-License-Identifier: Apache-2.0
//
// The operations of devrt.elementwise/0 on the elements of one thread.

#ifndef DEVRT_BACKENDS_GPU_APPLY_H_
#define DEVRT_BACKENDS_GPU_APPLY_H_

#include <type_traits>

#include "backends/tensor/dtype.h"
#include "backends/tensor/host_device.h"
#include "backends/tensor/scalar.h"

namespace devrt::gpu {

// True for the types that stand for all types of their size when bits are
// moved.
template <typename T>
inline constexpr bool kIsRaw =
    std::is_same_v<T, uint8_t> || std::is_same_v<T, uint16_t> ||
    std::is_same_v<T, uint32_t> || std::is_same_v<T, uint64_t> ||
    std::is_same_v<T, tensor::Complex<double>>;

// The upper bit of each integer of `item` bytes, 1 or 2, in a word.
DEVRT_HOST_DEVICE constexpr uint32_t UpperBits(size_t item) {
  return item == 1 ? 0x80808080u : 0x80008000u;
}

// Adds or subtracts the integers of two words.  The upper bit of each, which
// `bits` has, is computed apart, so that none carries into the next.
DEVRT_HOST_DEVICE inline uint32_t AddParts(uint32_t left, uint32_t right,
                                           uint32_t bits, bool subtracts) {
  const uint32_t upper = (left ^ right) & bits;
  return subtracts ? ((left | bits) - (right & ~bits)) ^ (upper ^ bits)
                   : ((left & ~bits) + (right & ~bits)) ^ upper;
}

// kCount elements of one thread, in registers.
template <typename T, int kCount>
struct ThreadApply {
  using Computed = tensor::ComputeType<T>;

  T a[kCount] = {};
  T b[kCount] = {};
  T result[kCount] = {};
  tensor::Bool truth[kCount] = {};

  // Arithmetic gives T, comparisons give bool.
  template <typename Op>
  DEVRT_HOST_DEVICE void Unary() {
    if constexpr (Op::template kTakes<Computed>) {
      for (int i = 0; i < kCount; ++i) Put(i, Op::Apply(tensor::Widen(a[i])));
    }
  }
  template <typename Op>
  DEVRT_HOST_DEVICE void Binary(const T* left, const T* right) {
    if constexpr (Op::template kTakes<Computed>) {
      for (int i = 0; i < kCount; ++i) {
        Put(i, Op::Apply(tensor::Widen(left[i]), tensor::Widen(right[i])));
      }
    }
  }

  // Every operation on T but WHERE, and ABS of complex numbers.
  DEVRT_HOST_DEVICE void Compute(uint32_t op) {
    switch (op) {
      case DEVRT_OP_NEG:
        return Unary<tensor::Negate>();
      case DEVRT_OP_ABS:
        if constexpr (!tensor::kIsComplex<T>) return Unary<tensor::Absolute>();
        break;
      case DEVRT_OP_LOGICAL_NOT:
        return Unary<tensor::LogicalNot>();
      case DEVRT_OP_ADD:
        if constexpr (kHasWords) {
          return AddWords(false);
        } else {
          return Binary<tensor::Add>(a, b);
        }
      case DEVRT_OP_SUB:
        if constexpr (kHasWords) {
          return AddWords(true);
        } else {
          return Binary<tensor::Subtract>(a, b);
        }
      case DEVRT_OP_MUL:
        return Binary<tensor::Multiply>(a, b);
      case DEVRT_OP_DIV:
        return Binary<tensor::Divide>(a, b);
      case DEVRT_OP_EQ:
        return Binary<tensor::Equal>(a, b);
      case DEVRT_OP_NE:
        return Binary<tensor::NotEqual>(a, b);
      case DEVRT_OP_LT:
        return Binary<tensor::Less>(a, b);
      case DEVRT_OP_LE:
        return Binary<tensor::LessEqual>(a, b);
      case DEVRT_OP_GT:
        return Binary<tensor::Less>(b, a);
      case DEVRT_OP_GE:
        return Binary<tensor::LessEqual>(b, a);
      case DEVRT_OP_LOGICAL_AND:
        return Binary<tensor::LogicalAnd>(a, b);
      case DEVRT_OP_LOGICAL_OR:
        return Binary<tensor::LogicalOr>(a, b);
      case DEVRT_OP_MAXIMUM:
        return Binary<tensor::Maximum>(a, b);
      case DEVRT_OP_MINIMUM:
        return Binary<tensor::Minimum>(a, b);
      default:  // COPY
        for (int i = 0; i < kCount; ++i) Put(i, tensor::Widen(a[i]));
    }
  }

  // WHERE, for types that move bits.
  DEVRT_HOST_DEVICE void Select(const tensor::Bool* condition) {
    for (int i = 0; i < kCount; ++i) {
      result[i] = condition[i].byte != 0 ? a[i] : b[i];
    }
  }

  // ABS of complex numbers.
  template <typename Part>
  DEVRT_HOST_DEVICE void Lengths(Part* lengths) const {
    for (int i = 0; i < kCount; ++i) {
      lengths[i] = tensor::Absolute::Apply(a[i]);
    }
  }

 private:
  // True if the integers of a word are computed together.
  static constexpr int kOfWord = static_cast<int>(4 / sizeof(T));
  static constexpr bool kHasWords =
      sizeof(T) <= 2 && std::is_integral_v<T> && kCount % kOfWord == 0;

  // ADD or SUB by words.
  DEVRT_HOST_DEVICE void AddWords(bool subtracts) {
    for (int i = 0; i < kCount; i += kOfWord) {
      uint32_t left, right;
      CopyBytes(&left, a + i, 4);
      CopyBytes(&right, b + i, 4);
      const uint32_t sum =
          AddParts(left, right, UpperBits(sizeof(T)), subtracts);
      CopyBytes(result + i, &sum, 4);
    }
  }

  template <typename R>
  DEVRT_HOST_DEVICE void Put(int i, R value) {
    if constexpr (std::is_same_v<R, bool>) {
      truth[i] = tensor::Narrow<tensor::Bool>(value);
    }
    if constexpr (std::is_same_v<R, Computed>) {
      result[i] = tensor::Narrow<T>(value);
    }
  }
};

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_APPLY_H_
