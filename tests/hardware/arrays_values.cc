// SPDX-License-Identifier: Apache-2.0
//
// Values of a device's arrays after copies, casts and operations.

#include <cmath>
#include <complex>
#include <cstring>
#include <string>
#include <vector>

#include "tests/hardware/arrays_test.h"

namespace devrt::hardware {

namespace {

// As a double and whether it is a NaN, for one element of any dtype.
bool IsNan(DType dtype, const char* element) {
  if (!dtype.is_floating() && !dtype.is_complex()) return false;
  const auto value =
      Scalar::FromElement(dtype, element).Value<std::complex<double>>();
  return std::isnan(value.real()) || std::isnan(value.imag());
}

}  // namespace

::testing::AssertionResult SameElements(const Array& got, const Array& wanted) {
  if (got.shape() != wanted.shape() || got.dtype() != wanted.dtype()) {
    return ::testing::AssertionFailure()
           << ShapeText(got.shape()) << " of " << got.dtype() << ", wanted "
           << ShapeText(wanted.shape()) << " of " << wanted.dtype();
  }
  const std::string a = BytesOf(got);
  const std::string b = BytesOf(wanted);
  const uint64_t item = got.item_size();
  for (size_t at = 0; at < a.size(); at += item) {
    if (std::memcmp(&a[at], &b[at], item) == 0) continue;
    if (IsNan(got.dtype(), &a[at]) && IsNan(got.dtype(), &b[at])) continue;
    return ::testing::AssertionFailure()
           << "element " << at / item << " is "
           << Scalar::FromElement(got.dtype(), &a[at]).ToString() << ", wanted "
           << Scalar::FromElement(got.dtype(), &b[at]).ToString();
  }
  return ::testing::AssertionSuccess();
}

namespace {

class ArraysValues : public ArraysTest {
 protected:
  // A view of `array`: steps, reversals, axes in another order, broadcasts.
  static Array RandomView(Numbers* numbers, Array array) {
    for (int axis = 0; axis < array.ndim(); ++axis) {
      if (numbers->Below(2) == 0) continue;
      Slice slice;
      slice.step = static_cast<int64_t>(numbers->Below(3)) + 1;
      if (numbers->Below(3) == 0) slice.step = -slice.step;
      array = Must(array.SliceAxis(axis, slice));
    }
    if (numbers->Below(2) == 0) array = array.Transpose();
    return array;
  }
  static Dims RandomShape(Numbers* numbers) {
    Dims shape;
    for (uint64_t axes = numbers->Below(4); axes > 0; --axes) {
      shape.push_back(static_cast<int64_t>(numbers->Below(12)));
    }
    return shape;
  }
};

TEST_F(ArraysValues, ViewsComeBackAsTheyAreOnTheHost) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    Numbers numbers(seed);
    const DType dtype = DType::All()[seed % DType::All().size()];
    const Array host = numbers.Make(RandomShape(&numbers), dtype);
    const Array there = Must(host.To(devices[seed % devices.size()]));
    Numbers same(seed), again(seed);
    const Array view = RandomView(&same, there);
    const Array wanted = RandomView(&again, host);
    ASSERT_TRUE(SameElements(view, wanted));
    ASSERT_TRUE(SameElements(Must(view.Copy()), wanted));
    // And into a view.
    const Array target = Must(Array::Zeros(host.shape(), dtype, there.place()));
    Numbers third(seed);
    ASSERT_OK(RandomView(&third, target).CopyFrom(view));
    Numbers fourth(seed);
    ASSERT_TRUE(SameElements(RandomView(&fourth, target), wanted));
  }
}

TEST_F(ArraysValues, BetweenAllDevices) {
  for (const Device from : devices) {
    for (const Device to : devices) {
      Numbers numbers(7);
      const int64_t shape[] = {33, 65};
      const Array host = numbers.Make(shape, kFloat32);
      const Array there = Must(host.To(from));
      ASSERT_TRUE(SameElements(Must(there.To(to)), host));
      ASSERT_TRUE(
          SameElements(Must(there.Transpose().To(to)), host.Transpose()));
      ASSERT_TRUE(SameElements(Must(there.To(to, kFloat64)),
                               Must(host.Cast(kFloat64))));
    }
  }
}

TEST_F(ArraysValues, CastsAsOnTheHost) {
  const int64_t shape[] = {1027};
  for (const DType from : DType::All()) {
    Numbers numbers(from.code());
    const Array host = numbers.Make(shape, from);
    const Array there = Must(host.To(dev()));
    for (const DType to : DType::All()) {
      SCOPED_TRACE(std::string(from.name()) + " to " + to.name());
      ASSERT_TRUE(SameElements(Must(there.Cast(to)), Must(host.Cast(to))));
      const Array strided = Must(there.SliceAxis(0, {1, std::nullopt, 3}));
      ASSERT_TRUE(SameElements(
          Must(strided.Cast(to)),
          Must(Must(host.SliceAxis(0, {1, std::nullopt, 3})).Cast(to))));
    }
  }
}

constexpr BinaryOp kBinary[] = {
    BinaryOp::kAdd,       BinaryOp::kSub,          BinaryOp::kMul,
    BinaryOp::kDiv,       BinaryOp::kDivTruncated, BinaryOp::kEqual,
    BinaryOp::kNotEqual,  BinaryOp::kLess,         BinaryOp::kLessEqual,
    BinaryOp::kGreater,   BinaryOp::kGreaterEqual, BinaryOp::kLogicalAnd,
    BinaryOp::kLogicalOr, BinaryOp::kMaximum,      BinaryOp::kMinimum};

TEST_F(ArraysValues, BinaryOperationsAsOnMtia) {
  const Device reference = Must(GetDevice("mtia:0"));
  const int64_t shape[] = {6, 1, 43};
  const int64_t other[] = {5, 43};
  for (const DType dtype : DType::All()) {
    Numbers numbers(dtype.code());
    const Array a = numbers.Make(shape, dtype);
    const Array b = numbers.Make(other, dtype);
    for (const BinaryOp op : kBinary) {
      SCOPED_TRACE(std::string(ToString(op)) + " of " + dtype.name());
      const auto wanted =
          Apply(op, Must(a.To(reference)), Must(b.To(reference)));
      const auto got = Apply(op, Must(a.To(dev())), Must(b.To(dev())));
      ASSERT_EQ(got.status().code(), wanted.status().code()) << got.status();
      if (got.ok()) {
        ASSERT_TRUE(SameElements(*got, *wanted));
      }
      // Not C-contiguous, and a number.
      const auto turned = Apply(op, Must(a.To(dev())).Transpose(), 2);
      const auto wanted_turned =
          Apply(op, Must(a.To(reference)).Transpose(), 2);
      ASSERT_EQ(turned.ok(), wanted_turned.ok()) << turned.status();
      if (turned.ok()) {
        ASSERT_TRUE(SameElements(*turned, *wanted_turned));
      }
    }
  }
}

TEST_F(ArraysValues, UnaryOperationsAndWhereAsOnMtia) {
  const Device reference = Must(GetDevice("mtia:0"));
  const int64_t shape[] = {7, 129};
  for (const DType dtype : DType::All()) {
    Numbers numbers(dtype.code());
    const Array a = numbers.Make(shape, dtype);
    const Array b = numbers.Make(shape, dtype);
    const Array mask = numbers.Make(shape, kBool);
    for (const UnaryOp op :
         {UnaryOp::kNegate, UnaryOp::kAbs, UnaryOp::kLogicalNot}) {
      SCOPED_TRACE(std::string(ToString(op)) + " of " + dtype.name());
      const auto wanted = Apply(op, Must(a.To(reference)));
      const auto got = Apply(op, Must(a.To(dev())));
      ASSERT_EQ(got.status().code(), wanted.status().code()) << got.status();
      if (got.ok()) {
        ASSERT_TRUE(SameElements(*got, *wanted));
      }
    }
    const auto wanted = Where(Must(mask.To(reference)), Must(a.To(reference)),
                              Must(b.To(reference)));
    const auto got =
        Where(Must(mask.To(dev())), Must(a.To(dev())), Must(b.To(dev())));
    ASSERT_EQ(got.ok(), wanted.ok()) << got.status();
    if (got.ok()) {
      ASSERT_TRUE(SameElements(*got, *wanted));
    }
  }
}

// Sums of floats differ by their order: the error that this may make is
// bounded.
TEST_F(ArraysValues, ReductionsAsOnMtia) {
  const Device reference = Must(GetDevice("mtia:0"));
  const int64_t shape[] = {37, 5, 130};
  for (const DType dtype : DType::All()) {
    Numbers numbers(dtype.code());
    const Array a = numbers.Make(shape, dtype);
    for (const ReduceOp op :
         {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMin, ReduceOp::kMax,
          ReduceOp::kMean, ReduceOp::kAny, ReduceOp::kAll}) {
      for (const std::vector<int>& axes :
           {std::vector<int>{0}, {2}, {1, 2}, {0, 1, 2}, {}}) {
        SCOPED_TRACE(std::string(ToString(op)) + " of " + dtype.name() +
                     " over " + std::to_string(axes.size()) + " axes");
        ReduceOptions options;
        options.axes = axes;
        const auto wanted = Reduce(op, Must(a.To(reference)), options);
        const auto got = Reduce(op, Must(a.To(dev())), options);
        ASSERT_EQ(got.status().code(), wanted.status().code()) << got.status();
        if (!got.ok()) continue;
        const bool rounds = (dtype.is_floating() || dtype.is_complex() ||
                             op == ReduceOp::kMean) &&
                            (op == ReduceOp::kSum || op == ReduceOp::kProd ||
                             op == ReduceOp::kMean);
        if (!rounds) {
          ASSERT_TRUE(SameElements(*got, *wanted));
          continue;
        }
        if (op == ReduceOp::kProd) continue;  // overflows in any order
        const Array x = Must(Must(got->To(Place::Host())).Cast(kFloat64));
        const Array y = Must(Must(wanted->To(Place::Host())).Cast(kFloat64));
        // Beside the greatest sum of magnitudes that there can be.
        const double scale =
            op == ReduceOp::kMean ? 4.3e9 : 4.3e9 * 37 * 5 * 130;
        const double unit = dtype == kBFloat16  ? 0x1p-7
                            : dtype == kFloat16 ? 0x1p-10
                                                : 0x1p-20;
        for (int64_t i = 0; i < x.size(); ++i) {
          const double p = x.data_as<double>()[i];
          const double q = y.data_as<double>()[i];
          if (std::isnan(q) || std::isinf(q)) {
            ASSERT_FALSE(std::isfinite(p));
            continue;
          }
          const double allowed =
              std::abs(q) * unit + scale * (dtype == kFloat64 ? 1e-15 : 1e-7);
          ASSERT_NEAR(p, q, allowed) << i;
        }
      }
    }
  }
}

TEST_F(ArraysValues, MoreThanTwoToThe31Elements) {
  if (!IsHardware()) GTEST_SKIP() << "not that much memory, or time";
  const int64_t count = (int64_t{1} << 31) + 12345;
  const int64_t shape[] = {count};
  const Array ones = Must(Array::Full(shape, kInt8, 1, dev()));
  EXPECT_EQ(Must(Must(Sum(ones)).Item()).Value<int64_t>(), count);
  const Array twos = Must(Add(ones, ones));
  EXPECT_EQ(Must(Must(Sum(twos)).Item()).Value<int64_t>(), 2 * count);
  const Array odd = Must(twos.SliceAxis(0, {1, std::nullopt, 2}));
  const Array halves = Must(odd.Copy());
  EXPECT_EQ(Must(Must(Sum(halves)).Item()).Value<int64_t>(), 2 * (count / 2));
  const Array last = Must(twos.Index(0, -1));
  ASSERT_OK(last.Fill(5));
  EXPECT_EQ(Must(Must(Sum(twos)).Item()).Value<int64_t>(), 2 * count + 3);
  const Array wide = Must(ones.Cast(kInt16));
  EXPECT_EQ(Must(Must(Sum(wide)).Item()).Value<int64_t>(), count);
}

TEST_F(ArraysValues, PinnedMemoryIsWithinReachOfKernels) {
  const int64_t shape[] = {1000};
  const Array pinned =
      Must(Array::Full(shape, kInt32, 20, Place::Pinned(dev())));
  const Array sum = Must(Add(pinned, 22));
  ASSERT_OK(pinned.Ready());
  EXPECT_EQ(pinned.data_as<int32_t>()[999], 20);
  EXPECT_EQ(Must(Must(sum.Index(0, 999)).Item()).Value<int64_t>(), 42);
}

}  // namespace
}  // namespace devrt::hardware
