// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "tests/arrays/arrays_fixture.h"

namespace devrt::testing {
namespace {

class Equality : public ArraysTest {
 protected:
  template <typename T>
  static Array Of(const std::vector<T>& values, const Place& place = dev()) {
    return Must(Array::FromVector(values, place));
  }
  // On every pair of places.
  static void Expect(bool equal, const Array& a, const Array& b) {
    const Place places[] = {Place::Host(), Place(dev()), Place(dev(1)),
                            Place::Pinned(dev())};
    for (const Place& first : places) {
      for (const Place& second : places) {
        const Array x = Must(a.To(first));
        const Array y = Must(b.To(second));
        EXPECT_THAT(ArrayEqual(x, y), IsOkAndHolds(equal))
            << first << " " << second;
      }
    }
  }
  // All integers of a dtype are less than a number, or all are greater.
  template <typename T>
  static void CheckBeyond(const Scalar& number, bool less) {
    using Limits = std::numeric_limits<T>;
    const Array x = Of<T>({Limits::min(), 0, Limits::max()});
    const auto all = [&](BinaryOp op, const Operand& a, const Operand& b) {
      const Array made = Must(Apply(op, a, b));
      EXPECT_EQ(made.dtype(), kBool);
      const bool every = Must(Must(Reduce(ReduceOp::kAll, made)).Item())
                             .template Value<bool>();
      const bool some = Must(Must(Reduce(ReduceOp::kAny, made)).Item())
                            .template Value<bool>();
      EXPECT_EQ(every, some) << number.ToString() << " " << ToString(op);
      return every;
    };
    EXPECT_EQ(all(BinaryOp::kLess, x, number), less);
    EXPECT_EQ(all(BinaryOp::kLessEqual, x, number), less);
    EXPECT_EQ(all(BinaryOp::kGreater, x, number), !less);
    EXPECT_EQ(all(BinaryOp::kGreaterEqual, x, number), !less);
    EXPECT_EQ(all(BinaryOp::kLess, number, x), !less);
    EXPECT_EQ(all(BinaryOp::kGreaterEqual, number, x), less);
    EXPECT_FALSE(all(BinaryOp::kEqual, x, number));
    EXPECT_TRUE(all(BinaryOp::kNotEqual, number, x));
  }
};

TEST_F(Equality, ComparesValuesAcrossDTypes) {
  Expect(true, Of<float>({1, 2, 3}), Of<float>({1, 2, 3}));
  Expect(false, Of<float>({1, 2, 3}), Of<float>({1, 2, 4}));
  Expect(true, Of<int16_t>({1, -2}), Of<double>({1, -2}));
  Expect(true, Of<float>({0.0f}), Of<float>({-0.0f}));
}

TEST_F(Equality, NaNIsUnequalToAll) {
  const Array nan = Of<double>({1, std::nan("")});
  Expect(false, nan, nan);
}

TEST_F(Equality, OtherShapesAreUnequal) {
  const Array a = Of<float>({1, 2, 3, 4});
  Expect(false, a, Must(a.Reshape({2, 2})));
  Expect(false, a, Must(a.SliceAxis(0, Slice{0, 3})));
  Expect(true, Of<float>({}), Of<float>({}));
  EXPECT_THAT(ArrayEqual(Must(a.SliceAxis(0, Slice{0, 0})), Of<int8_t>({})),
              IsOkAndHolds(true));
}

TEST_F(Equality, StridedViews) {
  const Array a = Must(Of<float>({1, 2, 3, 4}).Reshape({2, 2}));
  EXPECT_THAT(ArrayEqual(a.Transpose(), a), IsOkAndHolds(false));
  EXPECT_THAT(ArrayEqual(a.Transpose().Transpose(), a), IsOkAndHolds(true));
  const Array host = Must(a.To(Place::Host()));
  EXPECT_THAT(ArrayEqual(host.Transpose(), a), IsOkAndHolds(false));
  EXPECT_THAT(ArrayEqual(host.Transpose(), a.Transpose()), IsOkAndHolds(true));
}

// float64 would round both to the same.
TEST_F(Equality, IntegersThatNoDTypeHoldsTogether) {
  constexpr int64_t kBig = (int64_t{1} << 53) + 1;
  Expect(true, Of<int64_t>({kBig}), Of<uint64_t>({kBig}));
  Expect(false, Of<int64_t>({kBig}), Of<uint64_t>({kBig - 1}));
  Expect(false, Of<int64_t>({-1}), Of<uint64_t>({UINT64_MAX}));
}

TEST_F(Equality, NumbersBeyondTheDType) {
  CheckBeyond<int8_t>(128, true);
  CheckBeyond<int8_t>(-129, false);
  CheckBeyond<uint8_t>(256, true);
  CheckBeyond<uint8_t>(-1, false);
  CheckBeyond<int64_t>(uint64_t{1} << 63, true);
  CheckBeyond<uint64_t>(-1, false);
}

TEST_F(Equality, NarrowFloats) {
  for (DType dtype : {kFloat16, kBFloat16, kFloat8E4M3FN, kFloat8E5M2}) {
    const Array a = Must(Of<float>({1, -2, 0.5f}).Cast(dtype));
    Expect(true, a, Of<float>({1, -2, 0.5f}));
    Expect(false, a, Of<float>({1, -2, 0.25f}));
  }
}

TEST_F(Equality, BoolsAreTrueOrFalse) {
  const Array two = Must(Of<uint8_t>({2, 0}).ViewAs(kBool));
  const Array one = Must(Of<uint8_t>({1, 0}).ViewAs(kBool));
  EXPECT_THAT(ArrayEqual(two, one), IsOkAndHolds(true));
  EXPECT_THAT(
      ArrayEqual(Must(two.To(Place::Host())), Must(one.To(Place::Host()))),
      IsOkAndHolds(true));
}

// Strides and addresses need no alignment, on the host either.
TEST_F(Equality, UnalignedMemoryOfTheHost) {
  const auto at = [](std::vector<unsigned char>& bytes, DType dtype) {
    return Must(Array::FromPointer(bytes.data() + 1, {3}, dtype));
  };
  for (DType dtype : {kBool, kUInt16, kBFloat16, kInt32, kFloat32, kInt64,
                      kFloat64, kComplex64, kComplex128}) {
    std::vector<unsigned char> left(1 + 3 * 16);
    std::vector<unsigned char> right(1 + 3 * 16);
    const Array a = at(left, dtype);
    const Array b = at(right, dtype);
    EXPECT_OK(a.Fill(1));
    EXPECT_OK(b.Fill(1));
    EXPECT_THAT(ArrayEqual(a, b), IsOkAndHolds(true)) << dtype;
    EXPECT_OK(Must(b.SliceAxis(0, Slice{2, 3})).Fill(0));
    EXPECT_THAT(ArrayEqual(a, b), IsOkAndHolds(false)) << dtype;
  }
  std::vector<unsigned char> with_sign(1 + 3 * 8);
  std::vector<unsigned char> without(1 + 3 * 8);
  const Array a = at(with_sign, kInt64);
  const Array b = at(without, kUInt64);
  EXPECT_THAT(ArrayEqual(a, b), IsOkAndHolds(true));
  EXPECT_OK(a.Fill(-1));
  EXPECT_OK(b.Fill(UINT64_MAX));
  EXPECT_THAT(ArrayEqual(a, b), IsOkAndHolds(false));
}

}  // namespace
}  // namespace devrt::testing
