// SPDX-License-Identifier: Apache-2.0
//
// The elementwise bodies against the reference, over random layouts.

#include "backends/mtia/kernels/kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tests/mtia/random_tensor.h"
#include "tests/support/elements.h"

namespace devrt::mtia {
namespace {

using reference::Decode;
using reference::Element;
using reference::Encode;
using reference::Match;

constexpr uint64_t kSeed = 20240609;
constexpr int kTrials = 12;

const std::vector<uint32_t> kUnary = {DEVRT_OP_NEG, DEVRT_OP_ABS,
                                      DEVRT_OP_LOGICAL_NOT};
const std::vector<uint32_t> kBinary = {
    DEVRT_OP_ADD,     DEVRT_OP_SUB,         DEVRT_OP_MUL,
    DEVRT_OP_DIV,     DEVRT_OP_EQ,          DEVRT_OP_NE,
    DEVRT_OP_LT,      DEVRT_OP_LE,          DEVRT_OP_GT,
    DEVRT_OP_GE,      DEVRT_OP_LOGICAL_AND, DEVRT_OP_LOGICAL_OR,
    DEVRT_OP_MAXIMUM, DEVRT_OP_MINIMUM};

using Inputs = std::vector<TestTensor*>;
using Expected = std::function<Element(const std::vector<Element>& inputs)>;

std::string Trace(uint64_t seed, uint32_t op, uint32_t from, uint32_t to) {
  return "seed " + std::to_string(seed) + ", op " + std::to_string(op) + ", " +
         DtypeName(from) + " to " + DtypeName(to);
}

Match MatchOf(uint32_t op, uint32_t dtype) {
  if (op == DEVRT_OP_MAXIMUM || op == DEVRT_OP_MINIMUM) return Match::kNumber;
  const bool rounded =
      op == DEVRT_OP_MUL || op == DEVRT_OP_DIV || op == DEVRT_OP_ABS;
  return cts::IsComplex(dtype) && rounded ? Match::kRounded : Match::kFloat;
}

// Random elements; `moderate` ones keep the reference's complex arithmetic
// within what it is good for.
void Randomise(Random& random, bool moderate, TestTensor* tensor) {
  const Tensor& t = tensor->tensor();
  if (t.elements == 0) return;
  Odometer all(t.shape);
  do {
    tensor->Set(all.Offset(t.strides), moderate
                                           ? RandomModerate(random, t.dtype)
                                           : RandomElement(random, t.dtype));
  } while (all.Next());
}

std::vector<Element> AllExpected(const Tensor& out, const Inputs& inputs,
                                 const Expected& expected) {
  std::vector<Element> wanted;
  if (out.elements == 0) return wanted;
  Odometer all(out.shape);
  std::vector<Element> values;
  do {
    values.clear();
    for (const TestTensor* input : inputs) {
      values.push_back(input->Get(all.Offset(input->tensor().strides)));
    }
    wanted.push_back(expected(values));
  } while (all.Next());
  return wanted;
}

// Compares the elements of `out` with `wanted`, and the bytes between them with
// `before`.
void Compare(Match match, const TestTensor& out, TestTensor before,
             const std::vector<Element>& wanted) {
  const Tensor& t = out.tensor();
  Odometer all(t.shape);
  for (size_t k = 0; k < wanted.size(); ++k) {
    const int64_t offset = all.Offset(t.strides);
    const Element got = out.Get(offset);
    ASSERT_TRUE(reference::Matches(match, t.dtype, got, wanted[k]))
        << "element " << k << ": got " << reference::Text(t.dtype, got)
        << ", want " << reference::Text(t.dtype, wanted[k]);
    before.Set(offset, got);
    all.Next();
  }
  ASSERT_TRUE(before.memory() == out.memory()) << "stray write";
}

// `out` may be among `inputs`.
void RunAndCompare(uint32_t op, Match match, TestTensor* out,
                   const Inputs& inputs, const Expected& expected) {
  std::vector<Tensor> tensors;
  std::vector<const std::byte*> locals;
  for (const TestTensor* input : inputs) {
    tensors.push_back(input->tensor());
    locals.push_back(input->local());
  }
  std::string error;
  ASSERT_TRUE(CheckElementwise(op, out->tensor(), tensors, &error)) << error;
  const std::vector<Element> wanted =
      AllExpected(out->tensor(), inputs, expected);
  const TestTensor before = *out;
  RunElementwise(op, out->tensor(), out->local(), tensors, locals);
  Compare(match, *out, before, wanted);
}

Layout AnyLayout(Random& random, bool is_output) {
  const int64_t last = is_output ? 1 : 2;
  return static_cast<Layout>(Uniform(random, 0, last));
}

Expected Reference(uint32_t op, uint32_t dtype) {
  return [op, dtype](const std::vector<Element>& in) {
    return reference::Apply(op, dtype, in.front(), in.back());
  };
}

void TestOperation(uint64_t seed, uint32_t op, uint32_t dtype, size_t count) {
  const uint32_t out_dtype = cts::OutputOf(op, dtype);
  SCOPED_TRACE(Trace(seed, op, dtype, out_dtype));
  Random random(seed);
  const Shape shape = RandomShape(random);
  const Match match = MatchOf(op, dtype);
  std::vector<TestTensor> in;
  Inputs inputs;
  for (size_t k = 0; k < count; ++k) {
    in.emplace_back(random, dtype, shape, AnyLayout(random, false));
    Randomise(random, match == Match::kRounded, &in.back());
  }
  for (TestTensor& tensor : in) inputs.push_back(&tensor);
  TestTensor out(random, out_dtype, shape, AnyLayout(random, true));
  RunAndCompare(op, match, &out, inputs, Reference(op, dtype));

  if (out_dtype != dtype || testing::Test::HasFatalFailure()) return;
  SCOPED_TRACE("in place");
  TestTensor same(random, dtype, shape, AnyLayout(random, true));
  Randomise(random, match == Match::kRounded, &same);
  inputs[random() % count] = &same;
  RunAndCompare(op, match, &same, inputs, Reference(op, dtype));
}

void TestOperations(const std::vector<uint32_t>& operations, size_t count) {
  for (uint32_t op : operations) {
    for (uint32_t dtype : cts::Dtypes()) {
      if (!cts::HasOp(op, dtype)) continue;
      for (uint64_t trial = 0; trial < kTrials; ++trial) {
        TestOperation(kSeed + trial, op, dtype, count);
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

TEST(ElementwiseTest, EveryUnaryOperation) { TestOperations(kUnary, 1); }

TEST(ElementwiseTest, EveryBinaryOperation) { TestOperations(kBinary, 2); }

TEST(ElementwiseTest, CopyConvertsEveryDtypeToEveryOther) {
  for (uint32_t from : cts::Dtypes()) {
    for (uint32_t to : cts::Dtypes()) {
      for (uint64_t seed = kSeed; seed < kSeed + kTrials; ++seed) {
        SCOPED_TRACE(Trace(seed, DEVRT_OP_COPY, from, to));
        Random random(seed);
        const Shape shape = RandomShape(random);
        TestTensor in(random, from, shape, AnyLayout(random, false));
        Randomise(random, false, &in);
        TestTensor out(random, to, shape, AnyLayout(random, true));
        const bool same = from == to && from != DEVRT_BOOL;
        RunAndCompare(DEVRT_OP_COPY, same ? Match::kBits : Match::kFloat, &out,
                      {&in}, [&](const std::vector<Element>& values) {
                        return same ? values[0]
                                    : Encode(to, Decode(from, values[0]));
                      });
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(ElementwiseTest, WhereKeepsTheBits) {
  for (uint32_t dtype : cts::Dtypes()) {
    if (!cts::HasOp(DEVRT_OP_WHERE, dtype)) continue;
    for (uint64_t seed = kSeed; seed < kSeed + kTrials; ++seed) {
      SCOPED_TRACE(Trace(seed, DEVRT_OP_WHERE, dtype, dtype));
      Random random(seed);
      const Shape shape = RandomShape(random);
      TestTensor condition(random, DEVRT_BOOL, shape, AnyLayout(random, false));
      Randomise(random, false, &condition);
      TestTensor a(random, dtype, shape, AnyLayout(random, false));
      Randomise(random, false, &a);
      TestTensor b(random, dtype, shape, AnyLayout(random, true));
      Randomise(random, false, &b);
      const Expected expected = [dtype](const std::vector<Element>& in) {
        const bool first = in[0][0] != std::byte{0};
        const Element& chosen = first ? in[1] : in[2];
        return dtype == DEVRT_BOOL ? Encode(dtype, Decode(dtype, chosen))
                                   : chosen;
      };
      TestTensor out(random, dtype, shape, AnyLayout(random, true));
      RunAndCompare(DEVRT_OP_WHERE, Match::kBits, &out, {&condition, &a, &b},
                    expected);
      RunAndCompare(DEVRT_OP_WHERE, Match::kBits, &b, {&condition, &a, &b},
                    expected);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(ElementwiseTest, FillWritesElementsOnly) {
  for (uint32_t dtype : cts::Dtypes()) {
    for (uint64_t seed = kSeed; seed < kSeed + kTrials; ++seed) {
      SCOPED_TRACE(Trace(seed, DEVRT_OP_COPY, dtype, dtype));
      Random random(seed);
      const Shape shape = RandomShape(random);
      TestTensor out(random, dtype, shape, AnyLayout(random, true));
      const Element value = RandomElement(random, dtype);
      // At an odd address, and not a byte more than an element.
      std::vector<std::byte> host(1 + cts::SizeOf(dtype));
      std::memcpy(host.data() + 1, value.data(), host.size() - 1);
      const TestTensor before = out;
      RunFill(out.tensor(), out.local(), host.data() + 1);
      const Element want =
          dtype == DEVRT_BOOL ? Encode(dtype, Decode(dtype, value)) : value;
      Compare(Match::kBits, out, before,
              std::vector<Element>(static_cast<size_t>(out.tensor().elements),
                                   want));
      if (HasFatalFailure()) return;
    }
  }
}

TEST(ElementwiseTest, SupportsTheOperationsOfTheReference) {
  std::vector<uint32_t> operations = kBinary;
  operations.insert(operations.end(), kUnary.begin(), kUnary.end());
  operations.push_back(DEVRT_OP_COPY);
  operations.push_back(DEVRT_OP_WHERE);
  for (uint32_t op : operations) {
    for (uint32_t dtype : cts::Dtypes()) {
      EXPECT_EQ(ElementwiseSupports(op, dtype), cts::HasOp(op, dtype))
          << op << " " << DtypeName(dtype);
    }
    EXPECT_FALSE(ElementwiseSupports(op, DEVRT_DTYPE(3, 64)));
  }
  for (uint32_t op : {4u, 15u, 30u, 31u, 33u, ~0u}) {
    EXPECT_FALSE(ElementwiseSupports(op, DEVRT_FLOAT32)) << op;
  }
}

// One element through the bodies.
template <typename R, typename T>
R RunOne(uint32_t op, uint32_t out_dtype, uint32_t dtype, T a, T b) {
  R result{};
  void* const data = &result;
  const Tensor out = MakeTensor(data, out_dtype, {}, nullptr);
  const Tensor in = MakeTensor(data, dtype, {}, nullptr);
  std::vector<Tensor> tensors = {in};
  std::vector<const std::byte*> locals = {
      reinterpret_cast<const std::byte*>(&a)};
  if (op >= DEVRT_OP_ADD) {
    tensors.push_back(in);
    locals.push_back(reinterpret_cast<const std::byte*>(&b));
  }
  RunElementwise(op, out, reinterpret_cast<std::byte*>(&result), tensors,
                 locals);
  return result;
}

TEST(ElementwiseTest, CopyOfBoolNormalizesValues) {
  const std::vector<uint8_t> in = {0, 1, 2, 255};
  std::vector<uint8_t> out(4, 9);
  const Tensor tensor = MakeTensor(out.data(), DEVRT_BOOL, {4}, nullptr);
  RunElementwise(DEVRT_OP_COPY, tensor,
                 reinterpret_cast<std::byte*>(out.data()), {tensor},
                 {reinterpret_cast<const std::byte*>(in.data())});
  EXPECT_EQ(out, (std::vector<uint8_t>{0, 1, 1, 1}));
}

TEST(ElementwiseTest, FloatToIntegerSaturates) {
  const double kHuge = 1e300;
  const struct {
    double value;
    int32_t as_int32;
    uint8_t as_uint8;
    int64_t as_int64;
  } kCases[] = {
      {std::nan(""), 0, 0, 0},
      {-0.9, 0, 0, 0},
      {-1.5, -1, 0, -1},
      {255.9, 255, 255, 255},
      {256, 256, 255, 256},
      {2147483647.5, INT32_MAX, 255, 2147483647},
      {2147483648.0, INT32_MAX, 255, 2147483648},
      {-2147483648.5, INT32_MIN, 0, -2147483648},
      {0x1p63, INT32_MAX, 255, INT64_MAX},
      {-0x1p63, INT32_MIN, 0, INT64_MIN},
      {kHuge, INT32_MAX, 255, INT64_MAX},
      {-HUGE_VAL, INT32_MIN, 0, INT64_MIN},
  };
  for (const auto& test : kCases) {
    const double x = test.value;
    EXPECT_EQ(
        RunOne<int32_t>(DEVRT_OP_COPY, DEVRT_INT32, DEVRT_FLOAT64, x, 0.0),
        test.as_int32)
        << x;
    EXPECT_EQ(
        RunOne<uint8_t>(DEVRT_OP_COPY, DEVRT_UINT8, DEVRT_FLOAT64, x, 0.0),
        test.as_uint8)
        << x;
    EXPECT_EQ(
        RunOne<int64_t>(DEVRT_OP_COPY, DEVRT_INT64, DEVRT_FLOAT64, x, 0.0),
        test.as_int64)
        << x;
  }
}

TEST(ElementwiseTest, IntegerDivisionIsTotal) {
  const auto divide = [](int32_t a, int32_t b) {
    return RunOne<int32_t>(DEVRT_OP_DIV, DEVRT_INT32, DEVRT_INT32, a, b);
  };
  EXPECT_EQ(divide(7, 0), 0);
  EXPECT_EQ(divide(-7, 2), -3);
  EXPECT_EQ(divide(INT32_MIN, -1), INT32_MIN);
  const auto divide64 = [](int64_t a, int64_t b) {
    return RunOne<int64_t>(DEVRT_OP_DIV, DEVRT_INT64, DEVRT_INT64, a, b);
  };
  EXPECT_EQ(divide64(INT64_MIN, -1), INT64_MIN);
  EXPECT_EQ(divide64(INT64_MIN, 0), 0);
}

struct C128 {
  double re;
  double im;
};

C128 DivideComplex(C128 a, C128 b) {
  return RunOne<C128>(DEVRT_OP_DIV, DEVRT_COMPLEX128, DEVRT_COMPLEX128, a, b);
}

TEST(ElementwiseTest, ComplexDivisionNeitherOverflowsNorLosesTheQuotient) {
  const C128 large = DivideComplex({1e300, 1e300}, {1e300, -1e300});
  EXPECT_NEAR(large.re, 0, 1e-15);
  EXPECT_NEAR(large.im, 1, 1e-15);
  const C128 small = DivideComplex({1e-300, 0}, {0, 1e-300});
  EXPECT_NEAR(small.re, 0, 1e-15);
  EXPECT_NEAR(small.im, -1, 1e-15);
}

TEST(ElementwiseTest, ComplexDivisionByZeroIsThatOfItsParts) {
  const C128 quotient = DivideComplex({1, -2}, {0, -0.0});
  EXPECT_EQ(quotient.re, HUGE_VAL);
  EXPECT_EQ(quotient.im, -HUGE_VAL);
  const C128 undefined = DivideComplex({0, 0}, {0, 0});
  EXPECT_TRUE(std::isnan(undefined.re) && std::isnan(undefined.im));
}

TEST(ElementwiseTest, AbsoluteOfComplexDoesNotOverflow) {
  const C128 value = {3e300, 4e300};
  const double magnitude = RunOne<double>(DEVRT_OP_ABS, DEVRT_FLOAT64,
                                          DEVRT_COMPLEX128, value, value);
  EXPECT_NEAR(magnitude / 5e300, 1, 1e-15);
}

}  // namespace
}  // namespace devrt::mtia
