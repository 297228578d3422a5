// SPDX-License-Identifier: Apache-2.0

#include "backends/mtia/kernels/operators.h"

#include <cstring>

#include "backends/mtia/kernels/strided.h"
#include "backends/tensor/dtype.h"
#include "backends/tensor/scalar.h"

namespace devrt::mtia {
namespace {

using tensor::Absolute;
using tensor::Add;
using tensor::Complex;
using tensor::ComputeType;
using tensor::Divide;
using tensor::Equal;
using tensor::kIsNarrowFloat;
using tensor::Less;
using tensor::LessEqual;
using tensor::LogicalAnd;
using tensor::LogicalNot;
using tensor::LogicalOr;
using tensor::Maximum;
using tensor::Minimum;
using tensor::Multiply;
using tensor::Negate;
using tensor::NotEqual;
using tensor::Subtract;
using tensor::Tag;
using tensor::VisitDtype;

template <typename T>
const T* As(const std::byte* bytes) {
  return reinterpret_cast<const T*>(bytes);
}

template <typename Op, typename T>
void Unary(const std::byte* const* in, size_t n, std::byte* out) {
  const T* const a = As<T>(in[0]);
  using Result = decltype(Op::Apply(T{}));
  Generate<Result>(out, n, [a](size_t i) { return Op::Apply(a[i]); });
}

template <typename Op, typename T>
void Binary(const std::byte* const* in, size_t n, std::byte* out) {
  const T* const a = As<T>(in[0]);
  const T* const b = As<T>(in[1]);
  using Result = decltype(Op::Apply(T{}, T{}));
  Generate<Result>(out, n, [a, b](size_t i) { return Op::Apply(a[i], b[i]); });
}

// The operation with its arguments swapped.
template <typename Op, typename T>
void Swapped(const std::byte* const* in, size_t n, std::byte* out) {
  const std::byte* const swapped[] = {in[1], in[0]};
  Binary<Op, T>(swapped, n, out);
}

template <typename T>
void Where(const std::byte* const* in, size_t n, std::byte* out) {
  const bool* const condition = As<bool>(in[0]);
  const T* const a = As<T>(in[1]);
  const T* const b = As<T>(in[2]);
  Generate<T>(out, n, [condition, a, b](size_t i) {
    return condition[i] ? a[i] : b[i];
  });
}

// The result of `make` for the type of the computation, or nullptr if Op does
// not take that type.
template <typename Op, typename F>
BlockFn Find(uint32_t dtype, F make) {
  return VisitDtype(dtype, [make](auto tag) -> BlockFn {
    using Stored = typename decltype(tag)::type;
    using T = ComputeType<Stored>;
    if constexpr (!kIsNarrowFloat<Stored> && Op::template kTakes<T>) {
      return make(Tag<T>{});
    } else {
      return nullptr;
    }
  });
}

template <typename Op>
BlockFn FindUnary(uint32_t dtype) {
  return Find<Op>(dtype, [](auto tag) -> BlockFn {
    return Unary<Op, typename decltype(tag)::type>;
  });
}

template <typename Op>
BlockFn FindBinary(uint32_t dtype) {
  return Find<Op>(dtype, [](auto tag) -> BlockFn {
    return Binary<Op, typename decltype(tag)::type>;
  });
}

template <typename Op>
BlockFn FindSwapped(uint32_t dtype) {
  return Find<Op>(dtype, [](auto tag) -> BlockFn {
    return Swapped<Op, typename decltype(tag)::type>;
  });
}

BlockFn FindWhere(uint32_t raw) {
  switch (raw) {
    case DEVRT_BOOL:
      return Where<bool>;
    case DEVRT_UINT8:
      return Where<uint8_t>;
    case DEVRT_UINT16:
      return Where<uint16_t>;
    case DEVRT_UINT32:
      return Where<uint32_t>;
    case DEVRT_UINT64:
      return Where<uint64_t>;
    default:
      return Where<Complex<double>>;
  }
}

// Independent partial results.  The loop is vectorised, and the sum of them
// loses less than one running sum.
constexpr size_t kLanes = 16;

template <typename Op, typename T>
void FoldRow(const std::byte* in, size_t n, std::byte* out) {
  const T* const a = As<T>(in);
  T lane[kLanes];
  const size_t lanes = n < kLanes ? n : kLanes;
  for (size_t j = 0; j < lanes; ++j) lane[j] = a[j];
  size_t i = lanes;
  for (; i + kLanes <= n; i += kLanes) {
    for (size_t j = 0; j < kLanes; ++j) {
      lane[j] = Op::Apply(lane[j], a[i + j]);
    }
  }
  for (size_t j = 0; i < n; ++i, ++j) lane[j] = Op::Apply(lane[j], a[i]);
  for (size_t width = lanes; width > 1; width = (width + 1) / 2) {
    const size_t half = (width + 1) / 2;
    for (size_t j = 0; j + half < width; ++j) {
      lane[j] = Op::Apply(lane[j], lane[j + half]);
    }
  }
  std::memcpy(out, lane, sizeof(T));
}

template <typename Op, typename T>
void Combine(const std::byte* left, const std::byte* right, size_t n,
             std::byte* out) {
  const std::byte* const in[] = {left, right};
  Binary<Op, T>(in, n, out);
}

template <typename Op, typename T>
constexpr Fold kFold = {FoldRow<Op, T>, Combine<Op, T>};

template <typename Op>
Fold FindArithmetic(uint32_t dtype) {
  switch (dtype) {
    case DEVRT_FLOAT32:
      return kFold<Op, float>;
    case DEVRT_FLOAT64:
      return kFold<Op, double>;
    case DEVRT_COMPLEX64:
      return kFold<Op, Complex<float>>;
    case DEVRT_COMPLEX128:
      return kFold<Op, Complex<double>>;
    default:  // modulo 2^64 signed and unsigned are one
      return kFold<Op, uint64_t>;
  }
}

template <typename Op>
Fold FindOrder(uint32_t dtype) {
  switch (dtype) {
    case DEVRT_BOOL:
      return kFold<Op, bool>;
    case DEVRT_INT64:
      return kFold<Op, int64_t>;
    case DEVRT_FLOAT32:
      return kFold<Op, float>;
    case DEVRT_FLOAT64:
      return kFold<Op, double>;
    default:
      return kFold<Op, uint64_t>;
  }
}

}  // namespace

BlockFn FindOperator(uint32_t op, uint32_t dtype) {
  switch (op) {
    case DEVRT_OP_NEG:
      return FindUnary<Negate>(dtype);
    case DEVRT_OP_ABS:
      return FindUnary<Absolute>(dtype);
    case DEVRT_OP_LOGICAL_NOT:
      return FindUnary<LogicalNot>(dtype);
    case DEVRT_OP_ADD:
      return FindBinary<Add>(dtype);
    case DEVRT_OP_SUB:
      return FindBinary<Subtract>(dtype);
    case DEVRT_OP_MUL:
      return FindBinary<Multiply>(dtype);
    case DEVRT_OP_DIV:
      return FindBinary<Divide>(dtype);
    case DEVRT_OP_EQ:
      return FindBinary<Equal>(dtype);
    case DEVRT_OP_NE:
      return FindBinary<NotEqual>(dtype);
    case DEVRT_OP_LT:
      return FindBinary<Less>(dtype);
    case DEVRT_OP_LE:
      return FindBinary<LessEqual>(dtype);
    case DEVRT_OP_GT:
      return FindSwapped<Less>(dtype);
    case DEVRT_OP_GE:
      return FindSwapped<LessEqual>(dtype);
    case DEVRT_OP_LOGICAL_AND:
      return FindBinary<LogicalAnd>(dtype);
    case DEVRT_OP_LOGICAL_OR:
      return FindBinary<LogicalOr>(dtype);
    case DEVRT_OP_MAXIMUM:
      return FindBinary<Maximum>(dtype);
    case DEVRT_OP_MINIMUM:
      return FindBinary<Minimum>(dtype);
    case DEVRT_OP_WHERE:
      return FindWhere(dtype);
    default:
      return nullptr;
  }
}

Fold FindFold(uint32_t op, uint32_t dtype) {
  switch (op) {
    case DEVRT_REDUCE_SUM:
      return FindArithmetic<Add>(dtype);
    case DEVRT_REDUCE_PROD:
      return FindArithmetic<Multiply>(dtype);
    case DEVRT_REDUCE_MIN:
    case DEVRT_REDUCE_ALL:
      return FindOrder<Minimum>(dtype);
    default:
      return FindOrder<Maximum>(dtype);
  }
}

}  // namespace devrt::mtia
