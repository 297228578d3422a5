// SPDX-License-Identifier: Apache-2.0
//
// Elements that lie further apart than an int32_t can count.  The arrays have
// few elements and the memory between them is never touched, so the test is
// fast.

#include <cstdint>
#include <vector>

#include "tests/arrays/arrays_fixture.h"

namespace devrt::testing {
namespace {

using FarElements = ArraysTest;

constexpr int64_t kLast = (int64_t{1} << 31) + 7;

std::vector<int8_t> ValuesOf(const Array& x) {
  const Array host = Must(x.To(Place::Host()));
  const auto* const first = host.data_as<int8_t>();
  return {first, first + host.size()};
}

TEST_F(FarElements, OffsetsMayExceedInt32) {
  using Values = std::vector<int8_t>;
  Reset("memory=3GiB,poison=off");
  {
    const Array all = Must(Array::Empty({kLast + 1}, kInt8, dev()));
    const Array x = Must(all.SliceAxis(0, Slice{0, {}, kLast / 3}));
    ASSERT_EQ(x.shape(), DimSpan({4}));
    const Array back = Must(x.SliceAxis(0, Slice{{}, {}, -1}));
    EXPECT_EQ(back.data_as<char>() - all.data_as<char>(), kLast);

    const Array host =
        Must(Array::FromVector(Values{1, 2, 3, 4}, Place::Host()));
    EXPECT_OK(x.CopyFrom(host));
    EXPECT_EQ(ValuesOf(x), (Values{1, 2, 3, 4}));
    EXPECT_EQ(ValuesOf(back), (Values{4, 3, 2, 1}));
    EXPECT_EQ(ValuesOf(Must(back.Copy())), (Values{4, 3, 2, 1}));
    EXPECT_EQ(ValuesOf(Must(Add(Must(Add(x, x)), back))), (Values{6, 7, 8, 9}));
    EXPECT_EQ(Must(Must(Sum(back)).Item()).Value<int64_t>(), 10);
    EXPECT_OK(AddInto(back, x, 1));
    EXPECT_EQ(ValuesOf(x), (Values{5, 4, 3, 2}));
    EXPECT_OK(x.CopyFrom(back));
    EXPECT_EQ(ValuesOf(x), (Values{2, 3, 4, 5}));
    EXPECT_OK(Must(back.SliceAxis(0, Slice{0, 2})).Fill(7));
    EXPECT_EQ(ValuesOf(x), (Values{2, 3, 7, 7}));
    // By its place in the whole, which is C-contiguous.
    EXPECT_EQ(Must(Must(all.Index(0, -1)).Item()).Value<int64_t>(), 7);
    const Array rows = Must(all.Reshape({2, (kLast + 1) / 2}));
    EXPECT_EQ(
        Must(Must(Must(rows.Index(0, 1)).Index(0, -1)).Item()).Value<int64_t>(),
        7);
  }
  EXPECT_OK(dev().Synchronize());
  EXPECT_OK(EmptyCache(dev()));
}

}  // namespace
}  // namespace devrt::testing
