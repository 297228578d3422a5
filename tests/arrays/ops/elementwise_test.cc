// SPDX-License-Identifier: Apache-2.0
//
// Every elementwise operation on every dtype, over random shapes and strides,
// against the reference of the kernels, one element at a time.

#include <gtest/gtest.h>

#include <algorithm>
#include <complex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/arrays/arrays_fixture.h"
#include "tests/arrays/ops/random_array.h"

namespace devrt::testing {
namespace {

using reference::Decode;
using reference::Encode;
using reference::Match;
using reference::Value;

constexpr uint64_t kSeed = 8008;
constexpr int kTrials = 12'000;

constexpr uint32_t kCodes[] = {
    DEVRT_OP_ADD,        DEVRT_OP_SUB,     DEVRT_OP_MUL,
    DEVRT_OP_DIV,        DEVRT_OP_DIV,     DEVRT_OP_EQ,
    DEVRT_OP_NE,         DEVRT_OP_LT,      DEVRT_OP_LE,
    DEVRT_OP_GT,         DEVRT_OP_GE,      DEVRT_OP_LOGICAL_AND,
    DEVRT_OP_LOGICAL_OR, DEVRT_OP_MAXIMUM, DEVRT_OP_MINIMUM};

bool Compares(BinaryOp op) {
  return op >= BinaryOp::kEqual && op <= BinaryOp::kGreaterEqual;
}
bool IsLogical(BinaryOp op) {
  return op == BinaryOp::kLogicalAnd || op == BinaryOp::kLogicalOr;
}

Match MatchOf(uint32_t op, DType dtype) {
  if (op == DEVRT_OP_MAXIMUM || op == DEVRT_OP_MINIMUM) return Match::kNumber;
  const bool rounded =
      op == DEVRT_OP_MUL || op == DEVRT_OP_DIV || op == DEVRT_OP_ABS;
  return dtype.is_complex() && rounded ? Match::kRounded : Match::kFloat;
}

Element Cast(DType from, DType to, const Element& element) {
  if (from == to && from != kBool) return element;
  return Encode(to.code(), Decode(from.code(), element));
}

// By value, as NumPy compares integers of which no dtype holds both.
Element CompareIntegers(BinaryOp op, const Value& a, const Value& b) {
  const cts::Wide x = a.integer;
  const cts::Wide y = b.integer;
  const bool answers[] = {x == y, x != y, x<y, x <= y, x> y, x >= y};
  Element element{};
  element[0] = std::byte{
      answers[static_cast<int>(op) - static_cast<int>(BinaryOp::kEqual)]};
  return element;
}

DType AnyDType(Random& random) {
  const auto all = DType::All();
  return all[static_cast<size_t>(
      Uniform(random, 0, static_cast<int64_t>(all.size()) - 1))];
}

// An operand: an array or a number, and its elements.
struct Side {
  DType dtype;  // of a number: in which it is exact
  Shape shape;
  std::vector<Element> elements;
  std::optional<Operand> operand;
};

Side ArraySide(Random& random, DType dtype, const Shape& shape,
               Content content) {
  RandomArray made(random, MtiaTest::dev(), dtype, shape, content, true);
  return {dtype, shape, made.elements, Operand(made.array)};
}

Side NumberSide(Random& random, Content content) {
  (void)content;
  const int64_t whole = Uniform(random, 0, 7);
  const auto side = [](DType dtype, const Value& value, Operand operand) {
    return Side{dtype, {}, {Encode(dtype.code(), value)}, std::move(operand)};
  };
  switch (Uniform(random, 0, 3)) {
    case 0:
      return side(kBool, Value::Integer(whole & 1), Operand((whole & 1) != 0));
    case 1:
      return side(kInt64, Value::Integer(whole), Operand(whole));
    case 2: {
      const double re = static_cast<double>(whole) / 4;
      return side(kFloat64, Value::Real(re), Operand(re));
    }
    default: {
      const double re = static_cast<double>(whole) / 2;
      return side(kComplex128, Value::Complex(re, 1),
                  Operand(std::complex<double>(re, 1)));
    }
  }
}

absl::StatusOr<DType> Promoted(const Side& a, const Side& b) {
  if (a.operand->array() == nullptr) {
    return PromoteWithScalar(b.dtype, a.operand->scalar()->kind());
  }
  if (b.operand->array() == nullptr) {
    return PromoteWithScalar(a.dtype, b.operand->scalar()->kind());
  }
  return PromoteTypes(a.dtype, b.dtype);
}

// Returns true if NumPy refuses the operation, too.
bool Refused(BinaryOp op, DType computing) {
  switch (op) {
    case BinaryOp::kSub:
      return computing == kBool;
    case BinaryOp::kDivTruncated:
      return !computing.is_integer();
    case BinaryOp::kLess:
    case BinaryOp::kLessEqual:
    case BinaryOp::kGreater:
    case BinaryOp::kGreaterEqual:
    case BinaryOp::kMaximum:
    case BinaryOp::kMinimum:
      return computing.is_complex();
    default:
      return false;
  }
}

bool HasZero(const Side& side) {
  return std::any_of(side.elements.begin(), side.elements.end(),
                     [&](const Element& e) {
                       const Value v = Decode(side.dtype.code(), e);
                       return v.integer == 0 && v.re == 0 && v.im == 0;
                     });
}

class Elementwise : public ArraysTest {
 protected:
  // Where the result is to be written, if anywhere; sets what is read then.
  std::optional<Array> ChooseOut(Random& random, DType result,
                                 const Shape& shape, Side* a) {
    const int64_t choice = Uniform(random, 0, 4);
    if (choice == 0) {
      const DType wider = result == kFloat32   ? kFloat64
                          : result == kInt32   ? kInt64
                          : result == kFloat64 ? kFloat32
                                               : result;
      return RandomArray(random, dev(), wider, shape, Content::kAny, false)
          .array;
    }
    // In place.
    if (choice == 1 && a->operand->array() != nullptr && a->dtype == result &&
        a->shape == shape) {
      const RandomArray made(random, dev(), result, shape, Content::kModerate,
                             false);
      a->elements = made.elements;
      a->operand = Operand(made.array);
      return made.array;
    }
    return std::nullopt;
  }

  void TryBinary(Random& random) {
    const auto op = static_cast<BinaryOp>(Uniform(random, 0, 14));
    const uint32_t code = kCodes[static_cast<size_t>(op)];
    const Shape whole = RandomShape(random);
    const DType first = AnyDType(random);
    const DType second = Uniform(random, 0, 2) == 0 ? AnyDType(random) : first;
    const bool hard = !first.is_complex() && !second.is_complex();
    const Content content = hard ? Content::kAny : Content::kModerate;
    Side a = ArraySide(random, first, RandomPart(random, whole), content);
    Side b =
        Uniform(random, 0, 3) == 0
            ? NumberSide(random, content)
            : ArraySide(random, second, RandomPart(random, whole), content);
    if (Uniform(random, 0, 1) == 0) std::swap(a, b);
    SCOPED_TRACE(std::string(ToString(op)) + " of " + a.dtype.name() + " and " +
                 b.dtype.name());
    const bool storage_only = a.dtype.kind() == DTypeKind::kFloat8 ||
                              b.dtype.kind() == DTypeKind::kFloat8;
    const absl::StatusOr<DType> promoted = Promoted(a, b);
    if (storage_only || (!IsLogical(op) && Refused(op, *promoted))) {
      EXPECT_EQ(Apply(op, *a.operand, *b.operand).status().code(),
                absl::StatusCode::kUnimplemented);
      EXPECT_EQ(ResultType(op, *a.operand, *b.operand).status().code(),
                absl::StatusCode::kUnimplemented);
      return;
    }
    DType computing = IsLogical(op) ? kBool : *promoted;
    if (op == BinaryOp::kDiv && IsWhole(computing)) computing = kFloat64;
    // C leaves the quotient of a complex number and 0 open.
    if (op == BinaryOp::kDiv && computing.is_complex() && HasZero(b)) return;
    const DType result = Compares(op) || IsLogical(op) ? kBool : computing;
    const Dims dims = Must(BroadcastShapes(a.shape, b.shape));
    const Shape shape(dims.begin(), dims.end());
    const std::optional<Array> out = ChooseOut(random, result, shape, &a);

    std::vector<Element> wanted(CountOf(shape));
    const bool mixed = Compares(op) && computing == kFloat64 &&
                       first.is_integer() && second.is_integer() &&
                       a.operand->array() != nullptr &&
                       b.operand->array() != nullptr;
    ForEach(shape, {a.shape, b.shape},
            [&](size_t i, const std::vector<size_t>& at) {
              const Element& x = a.elements[at[0]];
              const Element& y = b.elements[at[1]];
              wanted[i] = mixed ? CompareIntegers(op, Decode(a.dtype.code(), x),
                                                  Decode(b.dtype.code(), y))
                                : reference::Apply(code, computing.code(),
                                                   Cast(a.dtype, computing, x),
                                                   Cast(b.dtype, computing, y));
              if (out) wanted[i] = Cast(result, out->dtype(), wanted[i]);
            });
    EXPECT_EQ(Must(ResultType(op, *a.operand, *b.operand)), result);
    const Array got =
        Must(Apply(op, *a.operand, *b.operand, out ? &*out : nullptr));
    EXPECT_EQ(ShapeOf(got), shape);
    EXPECT_EQ(got.dtype(), out ? out->dtype() : result);
    EXPECT_TRUE(out || got.IsContiguous());
    EXPECT_TRUE(!out || got.SharesStorage(*out));
    ExpectElements(got, wanted, MatchOf(code, computing));
  }

  void TryUnary(Random& random) {
    const auto op = static_cast<UnaryOp>(Uniform(random, 0, 2));
    constexpr uint32_t kUnary[] = {DEVRT_OP_NEG, DEVRT_OP_ABS,
                                   DEVRT_OP_LOGICAL_NOT};
    const uint32_t code = kUnary[static_cast<size_t>(op)];
    const DType dtype = AnyDType(random);
    SCOPED_TRACE(std::string(ToString(op)) + " of " + dtype.name());
    const Content content =
        dtype.is_complex() ? Content::kModerate : Content::kAny;
    const Shape shape = RandomShape(random);
    const RandomArray x(random, dev(), dtype, shape, content, true);
    if (dtype.kind() == DTypeKind::kFloat8 ||
        (dtype == kBool && op == UnaryOp::kNegate)) {
      EXPECT_EQ(Apply(op, x.array).status().code(),
                absl::StatusCode::kUnimplemented);
      return;
    }
    std::vector<Element> wanted;
    for (const Element& e : x.elements) {
      wanted.push_back(reference::Apply(code, dtype.code(), e, e));
    }
    const Array got = Must(Apply(op, x.array));
    EXPECT_EQ(ShapeOf(got), shape);
    EXPECT_EQ(got.dtype().code(), cts::OutputOf(code, dtype.code()));
    ExpectElements(got, wanted, MatchOf(code, dtype));
  }

  void TryWhere(Random& random) {
    const Shape whole = RandomShape(random);
    const DType truth = Uniform(random, 0, 1) == 0 ? kBool : kInt16;
    const DType first = AnyDType(random);
    const DType second = Uniform(random, 0, 2) == 0 ? AnyDType(random) : first;
    const Side c =
        ArraySide(random, truth, RandomPart(random, whole), Content::kWhole);
    const Side a =
        ArraySide(random, first, RandomPart(random, whole), Content::kAny);
    const Side b = Uniform(random, 0, 3) == 0
                       ? NumberSide(random, Content::kAny)
                       : ArraySide(random, second, RandomPart(random, whole),
                                   Content::kAny);
    SCOPED_TRACE(std::string("where of ") + a.dtype.name() + " and " +
                 b.dtype.name());
    const absl::StatusOr<Array> got =
        Where(*c.operand->array(), *a.operand, *b.operand);
    if (a.dtype.kind() == DTypeKind::kFloat8 ||
        b.dtype.kind() == DTypeKind::kFloat8) {
      EXPECT_EQ(got.status().code(), absl::StatusCode::kUnimplemented);
      return;
    }
    const DType dtype = *Promoted(a, b);
    Dims dims = Must(BroadcastShapes(a.shape, b.shape));
    dims = Must(BroadcastShapes(dims, c.shape));
    const Shape shape(dims.begin(), dims.end());
    std::vector<Element> wanted(CountOf(shape));
    ForEach(shape, {c.shape, a.shape, b.shape},
            [&](size_t i, const std::vector<size_t>& at) {
              const bool chosen =
                  Decode(truth.code(), c.elements[at[0]]).integer != 0;
              wanted[i] = chosen ? Cast(a.dtype, dtype, a.elements[at[1]])
                                 : Cast(b.dtype, dtype, b.elements[at[2]]);
            });
    EXPECT_EQ(got->dtype(), dtype);
    ExpectElements(*got, wanted, Match::kFloat);
  }
};

TEST_F(Elementwise, RandomOperationsAgreeWithTheReference) {
  for (int trial = 0; trial < kTrials && !HasFailure(); ++trial) {
    const uint64_t seed = kSeed + static_cast<uint64_t>(trial);
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const int64_t kind = Uniform(random, 0, 9);
    if (kind == 0) {
      TryWhere(random);
    } else if (kind <= 2) {
      TryUnary(random);
    } else {
      TryBinary(random);
    }
  }
}

}  // namespace
}  // namespace devrt::testing
