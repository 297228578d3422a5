// SPDX-License-Identifier: Apache-2.0
//
// The reductions against the reference, over random layouts.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "backends/mtia/kernels/kernels.h"
#include "tests/mtia/random_tensor.h"
#include "tests/support/elements.h"

namespace devrt::mtia {
namespace {

using cts::IsComplex;
using cts::IsFloat8;
using cts::IsInteger;
using reference::Decode;
using reference::Element;
using reference::Encode;
using reference::Match;
using reference::Value;

constexpr uint64_t kReduceSeed = 20240610;
constexpr uint64_t kReduceTrials = 30;

bool IsBool(uint32_t dtype) { return dtype == DEVRT_BOOL; }

bool IsSum(uint32_t op) {
  return op == DEVRT_REDUCE_SUM || op == DEVRT_REDUCE_PROD;
}

bool IsOrder(uint32_t op) {
  return op == DEVRT_REDUCE_MIN || op == DEVRT_REDUCE_MAX;
}

// The pairs of devrt_tensor.h.
bool Supports(uint32_t op, uint32_t in, uint32_t out) {
  if (IsFloat8(in)) return false;
  if (op == DEVRT_REDUCE_ANY || op == DEVRT_REDUCE_ALL) return IsBool(out);
  if (IsOrder(op)) return in == out && !IsComplex(in);
  const bool is_signed = IsBool(in) || in >> 8 == 0;
  const uint32_t wide = is_signed ? DEVRT_INT64 : DEVRT_UINT64;
  if (IsBool(in)) return out == wide;
  return in == out || (IsInteger(in) && out == wide);
}

bool ToBool(const Value& value) {
  return value.integer != 0 || value.re != 0 || value.im != 0;
}

// Sums and products wrap around.
Value FoldIntegers(uint32_t op, const std::vector<Value>& values) {
  if (!IsSum(op)) {
    const auto less = [](const Value& a, const Value& b) {
      return a.integer < b.integer;
    };
    return op == DEVRT_REDUCE_MIN
               ? *std::min_element(values.begin(), values.end(), less)
               : *std::max_element(values.begin(), values.end(), less);
  }
  const bool product = op == DEVRT_REDUCE_PROD;
  uint64_t result = product ? 1 : 0;
  for (const Value& value : values) {
    const auto x = static_cast<uint64_t>(value.integer);
    result = product ? result * x : result + x;
  }
  return Value::Integer(result);
}

Value FoldOrder(uint32_t op, const std::vector<Value>& values) {
  Value result = values[0];
  for (const Value& value : values) {
    if (std::isnan(result.re)) break;
    const bool better =
        op == DEVRT_REDUCE_MIN ? value.re < result.re : value.re > result.re;
    if (better || std::isnan(value.re)) result = value;
  }
  return result;
}

// A sum or product in long double, and how far off a good one may be.
struct Estimate {
  long double re;
  long double im;
  long double error;
};

Estimate FoldFloats(uint32_t op, const std::vector<Value>& values,
                    long double unit) {
  const bool sum = op == DEVRT_REDUCE_SUM;
  Estimate result = {sum ? 0.0L : 1.0L, 0, 0};
  long double size = 0;
  for (const Value& v : values) {
    size += std::fabs(v.re) + std::fabs(v.im);
    if (sum) {
      result.re += v.re;
      result.im += v.im;
    } else {
      const long double re = result.re * v.re - result.im * v.im;
      result.im = result.re * v.im + result.im * v.re;
      result.re = re;
    }
  }
  const long double n = static_cast<long double>(values.size());
  result.error = sum ? unit * size * (16 + std::log2(n + 1))
                     : unit * 4 * n * std::hypot(result.re, result.im);
  return result;
}

// A part of a float result is right if it lies between the two ends of the
// error, rounded to its dtype.
bool IsBetween(uint32_t dtype, long double got, long double want,
               long double error) {
  const auto end = [dtype](long double x) {
    return Decode(dtype, Encode(dtype, Value::Real(x))).re;
  };
  return end(want - error) <= got && got <= end(want + error);
}

void ExpectResult(uint32_t op, uint32_t out_dtype, uint32_t dtype,
                  const std::vector<Value>& values, const Element& got) {
  const std::string text = reference::Text(out_dtype, got);
  if (IsBool(out_dtype)) {
    bool any = false;
    bool all = true;
    for (const Value& value : values) {
      any = any || ToBool(value);
      all = all && ToBool(value);
    }
    const bool is_any = op == DEVRT_REDUCE_ANY || op == DEVRT_REDUCE_MAX;
    ASSERT_EQ(got[0] == std::byte{1}, is_any ? any : all) << text;
    ASSERT_LE(got[0], std::byte{1});
  } else if (IsInteger(dtype) || IsBool(dtype)) {
    const Element want = Encode(out_dtype, FoldIntegers(op, values));
    ASSERT_TRUE(reference::Matches(Match::kBits, out_dtype, got, want))
        << text << ", want " << reference::Text(out_dtype, want);
  } else if (IsOrder(op)) {
    const Element want = Encode(out_dtype, FoldOrder(op, values));
    ASSERT_TRUE(reference::Matches(Match::kNumber, out_dtype, got, want))
        << text << ", want " << reference::Text(out_dtype, want);
  } else {
    const bool wide = dtype == DEVRT_FLOAT64 || dtype == DEVRT_COMPLEX128;
    const Estimate want = FoldFloats(op, values, wide ? 0x1p-53L : 0x1p-24L);
    const Value value = Decode(out_dtype, got);
    const uint32_t part = dtype == DEVRT_COMPLEX64    ? DEVRT_FLOAT32
                          : dtype == DEVRT_COMPLEX128 ? DEVRT_FLOAT64
                                                      : out_dtype;
    ASSERT_TRUE(IsBetween(part, value.re, want.re, want.error))
        << text << ", want " << want.re << " +- " << want.error;
    ASSERT_TRUE(IsBetween(part, value.im, want.im, want.error))
        << text << ", want im " << want.im << " +- " << want.error;
  }
}

// For sums and products of floats neither overflow nor cancellation.
Element InputFor(Random& random, uint32_t op, uint32_t dtype) {
  const bool arithmetic = IsSum(op) && (cts::IsReal(dtype) || IsComplex(dtype));
  if (!arithmetic) return RandomElement(random, dtype);
  if (op == DEVRT_REDUCE_SUM) return RandomModerate(random, dtype);
  std::uniform_real_distribution<double> small(-0.02, 0.02);
  const double re = 1 + small(random);
  return Encode(dtype, IsComplex(dtype) ? Value::Complex(re, small(random))
                                        : Value::Real(re));
}

Shape Reduced(Shape shape, uint32_t axes) {
  for (size_t k = 0; k < shape.size(); ++k) {
    if ((axes >> k & 1) != 0) shape[k] = 1;
  }
  return shape;
}

std::vector<Value> ValuesOf(const TestTensor& in, uint32_t axes,
                            const Shape& at) {
  const Tensor& t = in.tensor();
  std::vector<Value> values;
  Shape extents(t.shape.size(), 1);
  for (size_t k = 0; k < extents.size(); ++k) {
    if ((axes >> k & 1) != 0) extents[k] = t.shape[k];
    if (extents[k] == 0) return values;
  }
  Odometer reduced(extents);
  do {
    const int64_t offset =
        reduced.Offset(t.strides) +
        std::inner_product(at.begin(), at.end(), t.strides.begin(), int64_t{0});
    values.push_back(Decode(t.dtype, in.Get(offset)));
  } while (reduced.Next());
  return values;
}

void CompareAll(uint32_t op, const TestTensor& in, TestTensor* before,
                const TestTensor& out, uint32_t axes) {
  const Tensor& t = out.tensor();
  Odometer all(t.shape);
  do {
    const int64_t offset = all.Offset(t.strides);
    ExpectResult(op, t.dtype, in.tensor().dtype,
                 ValuesOf(in, axes, all.index()), out.Get(offset));
    if (testing::Test::HasFatalFailure()) return;
    before->Set(offset, out.Get(offset));
  } while (all.Next());
}

void TestReduction(Random& random, uint32_t op, uint32_t dtype,
                   uint32_t out_dtype) {
  const Shape shape = RandomShape(random);
  const uint32_t mask = shape.size() == 32 ? ~0u : (1u << shape.size()) - 1;
  uint32_t axes = static_cast<uint32_t>(random()) & mask;
  if (Uniform(random, 0, 3) == 0) axes = mask;
  TestTensor in(random, dtype, shape,
                static_cast<Layout>(Uniform(random, 0, 2)));
  if (in.tensor().elements > 0) {
    Odometer all(shape);
    do {
      in.Set(all.Offset(in.tensor().strides), InputFor(random, op, dtype));
    } while (all.Next());
  }
  TestTensor out(random, out_dtype, Reduced(shape, axes),
                 static_cast<Layout>(Uniform(random, 0, 1)));
  const bool empty = in.tensor().elements == 0 && out.tensor().elements != 0;
  std::string error;
  ASSERT_EQ(CheckReduce(op, out.tensor(), in.tensor(), axes, &error),
            !(empty && IsOrder(op)))
      << error;
  if (empty && IsOrder(op)) return;
  TestTensor before = out;
  RunReduce(op, out.tensor(), out.local(), in.tensor(), in.local(), axes);
  if (out.tensor().elements > 0) {
    CompareAll(op, in, &before, out, axes);
  }
  ASSERT_TRUE(before.memory() == out.memory()) << "stray write";
}

TEST(ReduceTest, EveryOperationOnEveryPairOfDtypes) {
  for (uint32_t op = 0; op <= DEVRT_REDUCE_ALL; ++op) {
    for (uint32_t in : cts::Dtypes()) {
      for (uint32_t out : cts::Dtypes()) {
        ASSERT_EQ(ReduceSupports(op, in, out), Supports(op, in, out))
            << op << " " << DtypeName(in) << " " << DtypeName(out);
        if (!Supports(op, in, out)) continue;
        for (uint64_t seed = kReduceSeed; seed < kReduceSeed + kReduceTrials;
             ++seed) {
          SCOPED_TRACE("seed " + std::to_string(seed) + ", op " +
                       std::to_string(op) + ", " + DtypeName(in) + " to " +
                       DtypeName(out));
          Random random(seed);
          TestReduction(random, op, in, out);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
  EXPECT_FALSE(ReduceSupports(6, DEVRT_INT32, DEVRT_INT32));
  EXPECT_FALSE(ReduceSupports(0, DEVRT_DTYPE(3, 64), DEVRT_DTYPE(3, 64)));
}

// Reduces contiguous `in` of `shape`.
template <typename Out, typename In>
std::vector<Out> Reduce(uint32_t op, uint32_t out_dtype, uint32_t dtype,
                        const std::vector<In>& in, const Shape& shape,
                        uint32_t axes) {
  void* const data = reinterpret_cast<void*>(uintptr_t{1} << 40);  // unused
  const Tensor from = MakeTensor(data, dtype, shape, nullptr);
  const Tensor to = MakeTensor(data, out_dtype, Reduced(shape, axes), nullptr);
  std::vector<Out> out(static_cast<size_t>(to.elements));
  RunReduce(op, to, reinterpret_cast<std::byte*>(out.data()), from,
            reinterpret_cast<const std::byte*>(in.data()), axes);
  return out;
}

// Lengths around the sizes of blocks and rows, and some with many odd levels of
// the pairwise tree; one result at a time and nine side by side.
TEST(ReduceTest, SumsOfEveryLength) {
  std::vector<int64_t> lengths = {255, 256, 257, 511, 4095, 4097, 99991};
  for (int64_t length = 1; length < 70; ++length) lengths.push_back(length);
  constexpr int64_t kColumns = 9;
  for (int64_t length : lengths) {
    std::vector<int32_t> in(static_cast<size_t>(length * kColumns));
    std::iota(in.begin(), in.end(), 0);
    const int64_t n = static_cast<int64_t>(in.size());
    EXPECT_EQ(
        Reduce<int64_t>(DEVRT_REDUCE_SUM, DEVRT_INT64, DEVRT_INT32, in, {n}, 1),
        std::vector<int64_t>{n * (n - 1) / 2});
    std::vector<int64_t> columns;
    for (int64_t k = 0; k < kColumns; ++k) {
      columns.push_back(length * k + kColumns * length * (length - 1) / 2);
    }
    EXPECT_EQ(Reduce<int64_t>(DEVRT_REDUCE_SUM, DEVRT_INT64, DEVRT_INT32, in,
                              {length, kColumns}, 1),
              columns)
        << length;
  }
}

// A running sum in float32 would be off by about 1e-3.
TEST(ReduceTest, SumOfManyFloatsIsAccurateAlongEveryAxis) {
  constexpr int64_t kRows = 1 << 18;
  constexpr int64_t kColumns = 16;
  const std::vector<float> in(kRows * kColumns, 0.1f);
  const double exact = static_cast<double>(0.1f) * kRows;
  const std::vector<float> down = Reduce<float>(
      DEVRT_REDUCE_SUM, DEVRT_FLOAT32, DEVRT_FLOAT32, in, {kRows, kColumns}, 1);
  ASSERT_EQ(down.size(), static_cast<size_t>(kColumns));
  for (float sum : down) EXPECT_NEAR(sum / exact, 1, 1e-6);
  const std::vector<float> along = Reduce<float>(
      DEVRT_REDUCE_SUM, DEVRT_FLOAT32, DEVRT_FLOAT32, in, {kColumns, kRows}, 2);
  ASSERT_EQ(along.size(), static_cast<size_t>(kColumns));
  for (float sum : along) EXPECT_NEAR(sum / exact, 1, 1e-6);
}

// In float16, 2048 + 1 is 2048.
TEST(ReduceTest, SumOfHalvesAccumulatesInFloat32) {
  const std::vector<uint16_t> ones(4096, 0x3c00);
  const std::vector<uint16_t> sum = Reduce<uint16_t>(
      DEVRT_REDUCE_SUM, DEVRT_FLOAT16, DEVRT_FLOAT16, ones, {4096}, 1);
  uint8_t bytes[2];
  std::memcpy(bytes, sum.data(), sizeof bytes);
  EXPECT_EQ(cts::Load(DEVRT_FLOAT16, bytes).re, 4096);
}

TEST(ReduceTest, EmptyReductionsAreTheIdentity) {
  const std::vector<int32_t> none;
  const auto reduce = [&none](uint32_t op) {
    return Reduce<int32_t>(op, DEVRT_INT32, DEVRT_INT32, none, {2, 0, 3}, 2);
  };
  EXPECT_EQ(reduce(DEVRT_REDUCE_SUM), std::vector<int32_t>(6, 0));
  EXPECT_EQ(reduce(DEVRT_REDUCE_PROD), std::vector<int32_t>(6, 1));
  const auto test = [&none](uint32_t op) {
    return Reduce<uint8_t>(op, DEVRT_BOOL, DEVRT_INT32, none, {0}, 1);
  };
  EXPECT_EQ(test(DEVRT_REDUCE_ANY), std::vector<uint8_t>{0});
  EXPECT_EQ(test(DEVRT_REDUCE_ALL), std::vector<uint8_t>{1});
}

TEST(ReduceTest, InPlaceOverAxesOfExtentOne) {
  std::vector<double> data = {1, 2, 3, 4};
  const Tensor tensor =
      MakeTensor(data.data(), DEVRT_FLOAT64, {2, 1, 2}, nullptr);
  std::byte* const local = reinterpret_cast<std::byte*>(data.data());
  RunReduce(DEVRT_REDUCE_SUM, tensor, local, tensor, local, 2);
  EXPECT_EQ(data, (std::vector<double>{1, 2, 3, 4}));
}

}  // namespace
}  // namespace devrt::mtia
