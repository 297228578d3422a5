// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
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
};

TEST_F(Equality, Values) {
  Expect(true, Of<float>({1, 2, 3}), Of<float>({1, 2, 3}));
  Expect(false, Of<float>({1, 2, 3}), Of<float>({1, 2, 4}));
  Expect(true, Of<int16_t>({1, -2}), Of<double>({1, -2}));
  Expect(true, Of<float>({0.0f}), Of<float>({-0.0f}));
}

TEST_F(Equality, NaNIsUnequalToAll) {
  const Array nan = Of<double>({1, std::nan("")});
  Expect(false, nan, nan);
}

TEST_F(Equality, Shapes) {
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

}  // namespace
}  // namespace devrt::testing
