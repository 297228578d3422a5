// SPDX-License-Identifier: Apache-2.0
//
// Every reduction on every dtype, over random shapes, strides and axes.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "tests/arrays/arrays_fixture.h"
#include "tests/arrays/ops/random_array.h"

namespace devrt::testing {
namespace {

using reference::Decode;
using reference::Encode;
using reference::Match;
using reference::Value;

constexpr uint64_t kReduceSeed = 8009;
constexpr int kReduceTrials = 6'000;

DType SumType(DType t) {
  if (!IsWhole(t)) return t;
  return t.kind() == DTypeKind::kUnsigned ? kUInt64 : kInt64;
}

// The elements that one result element reduces, in order.
using Group = std::vector<Element>;

struct Case {
  Shape result;
  std::vector<Group> groups;
};

Case Split(const RandomArray& x, const std::vector<bool>& reduced,
           bool keep_dims) {
  const Shape shape = ShapeOf(x.array);
  Case c;
  Shape kept;
  for (size_t k = 0; k < shape.size(); ++k) {
    kept.push_back(reduced[k] ? 1 : shape[k]);
    if (!reduced[k] || keep_dims) c.result.push_back(kept.back());
  }
  c.groups.resize(CountOf(kept));
  ForEach(shape, {kept}, [&](size_t i, const std::vector<size_t>& at) {
    c.groups[at[0]].push_back(x.elements[i]);
  });
  return c;
}

// Elements are small: exact in the type that they are summed in.
Value SumOf(ReduceOp op, DType dtype, const Group& group) {
  const bool product = op == ReduceOp::kProd;
  if (IsWhole(dtype)) {
    uint64_t total = product ? 1 : 0;
    for (const Element& e : group) {
      const auto x = static_cast<uint64_t>(Decode(dtype.code(), e).integer);
      total = product ? total * x : total + x;
    }
    return Value::Integer(static_cast<int64_t>(total));
  }
  const long double first = product ? 1 : 0;
  Value total =
      dtype.is_complex() ? Value::Complex(first, 0) : Value::Real(first);
  for (const Element& e : group) {
    const Value x = Decode(dtype.code(), e);
    if (product) {
      const long double re = total.re * x.re - total.im * x.im;
      total.im = total.re * x.im + total.im * x.re;
      total.re = re;
    } else {
      total.re += x.re;
      total.im += x.im;
    }
  }
  return total;
}

Element Extremum(ReduceOp op, DType dtype, const Group& group) {
  const uint32_t code =
      op == ReduceOp::kMax ? DEVRT_OP_MAXIMUM : DEVRT_OP_MINIMUM;
  Element best = group.front();
  for (const Element& e : group) {
    best = reference::Apply(code, dtype.code(), best, e);
  }
  return best;
}

Element Truth(ReduceOp op, DType dtype, const Group& group) {
  const auto is_true = [dtype](const Element& e) {
    return Decode(kBool.code(), Encode(kBool.code(), Decode(dtype.code(), e)))
               .integer != 0;
  };
  const bool answer = op == ReduceOp::kAny
                          ? std::any_of(group.begin(), group.end(), is_true)
                          : std::all_of(group.begin(), group.end(), is_true);
  return Encode(kBool.code(), Value::Integer(answer ? 1 : 0));
}

Element Mean(DType dtype, DType result, const Group& group) {
  Value total = SumOf(ReduceOp::kSum, dtype, group);
  const double count = static_cast<double>(group.size());
  if (IsWhole(dtype)) {
    total = Value::Real(static_cast<double>(total.integer));
  }
  // In the arithmetic that the kernels have.
  if (result == kFloat64 || result == kComplex128) {
    total.re = static_cast<double>(total.re) / count;
    total.im = static_cast<double>(total.im) / count;
  } else {
    total.re = static_cast<float>(total.re) / static_cast<float>(count);
    total.im = static_cast<float>(total.im) / static_cast<float>(count);
  }
  if (!result.is_complex()) total = Value::Real(total.re);
  return Encode(result.code(), total);
}

class Reductions : public ArraysTest {
 protected:
  void Try(Random& random) {
    const auto op = static_cast<ReduceOp>(Uniform(random, 0, 6));
    const auto all = DType::All();
    const DType dtype = all[static_cast<size_t>(
        Uniform(random, 0, static_cast<int64_t>(all.size()) - 1))];
    SCOPED_TRACE(std::string(ToString(op)) + " of " + dtype.name());
    const bool exact = op == ReduceOp::kMin || op == ReduceOp::kMax ||
                       op == ReduceOp::kAny || op == ReduceOp::kAll;
    Shape shape = RandomShape(random);
    // Products of more than a few small numbers are no longer exact.
    if (op == ReduceOp::kProd && CountOf(shape) > 6) shape = {3, 2};
    const RandomArray x(random, dev(), dtype, shape,
                        exact ? Content::kAny : Content::kWhole, true);
    ReduceOptions options;
    options.keep_dims = Uniform(random, 0, 1) == 0;
    std::vector<bool> reduced(shape.size(), true);
    if (Uniform(random, 0, 3) != 0) {
      options.axes.emplace();
      for (size_t k = 0; k < shape.size(); ++k) {
        reduced[k] = Uniform(random, 0, 1) == 0;
        if (!reduced[k]) continue;
        const int axis = static_cast<int>(k);
        const bool from_end = Uniform(random, 0, 1) == 0;
        options.axes->push_back(from_end ? axis - static_cast<int>(shape.size())
                                         : axis);
      }
      std::shuffle(options.axes->begin(), options.axes->end(), random);
    }
    const Case expected = Split(x, reduced, options.keep_dims);
    if (Uniform(random, 0, 3) == 0 &&
        (op == ReduceOp::kSum || op == ReduceOp::kProd)) {
      options.dtype = IsWhole(dtype) ? kInt16 : kFloat64;
      if (dtype.is_complex()) options.dtype = kComplex128;
    }
    bool of_none = false;
    for (size_t k = 0; k < shape.size(); ++k) {
      of_none = of_none || (reduced[k] && shape[k] == 0);
    }
    Check(op, x, options, expected, of_none);
  }

  void Check(ReduceOp op, const RandomArray& x, const ReduceOptions& options,
             const Case& expected, bool of_none) {
    const DType dtype = x.array.dtype();
    const bool extremum = op == ReduceOp::kMin || op == ReduceOp::kMax;
    const absl::StatusOr<Array> got = Reduce(op, x.array, options);
    if (dtype.kind() == DTypeKind::kFloat8 ||
        (extremum && dtype.is_complex())) {
      EXPECT_EQ(got.status().code(), absl::StatusCode::kUnimplemented);
      return;
    }
    if (extremum && of_none) {
      EXPECT_STATUS(got, kInvalidArgument, "of no elements");
      return;
    }
    ASSERT_OK(got);
    EXPECT_EQ(ShapeOf(*got), expected.result);
    const bool truth = op == ReduceOp::kAny || op == ReduceOp::kAll;
    DType result = dtype;
    if (op == ReduceOp::kSum || op == ReduceOp::kProd) {
      result = options.dtype.value_or(SumType(dtype));
    } else if (op == ReduceOp::kMean && IsWhole(dtype)) {
      result = kFloat64;
    } else if (truth) {
      result = kBool;
    }
    ASSERT_EQ(got->dtype(), result);
    std::vector<Element> wanted;
    for (const Group& group : expected.groups) {
      wanted.push_back(truth      ? Truth(op, dtype, group)
                       : extremum ? Extremum(op, dtype, group)
                       : op == ReduceOp::kMean
                           ? Mean(dtype, result, group)
                           : Encode(result.code(), SumOf(op, dtype, group)));
    }
    ExpectElements(*got, wanted,
                   op == ReduceOp::kMean && result.is_complex()
                       ? Match::kRounded
                       : Match::kNumber);
  }
};

TEST_F(Reductions, RandomReductionsAgreeWithTheReference) {
  for (int trial = 0; trial < kReduceTrials && !HasFailure(); ++trial) {
    const uint64_t seed = kReduceSeed + static_cast<uint64_t>(trial);
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    Try(random);
  }
}

// More elements than an int32_t counts, of which there is one in memory.
TEST_F(Reductions, PartsOfMoreElementsThanAnInt32Counts) {
  const Array one = Must(Array::Full({1, 1}, kInt8, 3, dev()));
  const Array many = Must(one.BroadcastTo({0x1'0001, 0x8000}));
  ASSERT_GT(many.size(), int64_t{1} << 31);
  // One column, so that it takes no time; as strides and extents it is all.
  const Array rows = Must(many.SliceAxis(1, Slice{0, 2}));
  const Array sum = Must(Sum(rows));
  EXPECT_EQ(Must(sum.Item()).Value<int64_t>(), int64_t{3} * 2 * 0x1'0001);
}

// Cast they would not fit into the device's 16 MiB, but they are three.
TEST_F(Reductions, BroadcastElementsAreCastOnce) {
  const std::vector<double> values = {1, 2, 6};
  const auto expect = [&](DType in, ReduceOp op, std::optional<DType> dtype,
                          double times) {
    const Array row = Must(Must(Array::FromVector(values, dev())).Cast(in));
    const Array x = Must(row.BroadcastTo({1 << 20, 3}));
    ReduceOptions options;
    options.axes = {0};
    options.dtype = dtype;
    const Array got = Must(Reduce(op, x, options));
    EXPECT_TRUE(Must(ArrayEqual(got, Must(Mul(row, times))))) << in << got;
  };
  expect(kInt64, ReduceOp::kMean, std::nullopt, 1);
  expect(kInt64, ReduceOp::kSum, kFloat64, 1 << 20);
  expect(kFloat64, ReduceOp::kMean, kComplex128, 1);
  // Nothing of it is left, and what repeats nothing is not there either.
  ReduceOptions rows;
  rows.axes = {0};
  const Array none = Must(Array::Empty({0, 1}, kInt64, dev()));
  const Array mean =
      Must(Reduce(ReduceOp::kMean, Must(none.BroadcastTo({0, 3})), rows));
  EXPECT_EQ(mean.size(), 3);
  EXPECT_TRUE(std::isnan(Must(Must(mean.Index(0, 2)).Item()).Value<double>()));
}

TEST_F(Reductions, MeansOfHalvesDoNotOverflow) {
  const Array x = Must(Array::Full({4096}, kFloat16, 1000.0, dev()));
  const Array mean = Must(Reduce(ReduceOp::kMean, x));
  EXPECT_EQ(mean.dtype(), kFloat16);
  EXPECT_EQ(Must(mean.Item()).Value<double>(), 1000.0);
  EXPECT_TRUE(std::isinf(Must(Must(Sum(x)).Item()).Value<double>()));
}

TEST_F(Reductions, MeanOfNothingIsNaN) {
  const Array x = Must(Array::Empty({0}, kInt32, dev()));
  EXPECT_TRUE(std::isnan(
      Must(Must(Reduce(ReduceOp::kMean, x)).Item()).Value<double>()));
  EXPECT_EQ(Must(Must(Sum(x)).Item()).Value<int64_t>(), 0);
}

TEST_F(Reductions, NoAxesMeanACopyInTheResultsDtype) {
  const Array x = Must(Array::FromVector<int8_t>({1, -2, 3}, dev()));
  ReduceOptions none;
  none.axes.emplace();
  const Array sum = Must(Sum(x, none));
  EXPECT_EQ(sum.dtype(), kInt64);
  EXPECT_FALSE(sum.SharesStorage(x));
  EXPECT_TRUE(Must(ArrayEqual(sum, x)));
}

}  // namespace
}  // namespace devrt::testing
