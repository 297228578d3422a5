// SPDX-License-Identifier: Apache-2.0

#include "arrays/core/geometry.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "devrt/arrays/array.h"
#include "tests/support/status_matchers.h"

namespace devrt::internal {
namespace {

using testing::IsOkAndHolds;
using testing::Must;

constexpr int64_t kHuge = INT64_MAX;

Array At(uintptr_t address, Dims shape, Dims strides, DType dtype = kInt8) {
  return Array(nullptr, reinterpret_cast<char*>(address), std::move(shape),
               std::move(strides), dtype);
}

TEST(GeometryTest, BytesAreCounted) {
  EXPECT_THAT(CountBytes({}, kFloat64), IsOkAndHolds(8u));
  EXPECT_THAT(CountBytes({2, 3}, kFloat32), IsOkAndHolds(24u));
  EXPECT_THAT(CountBytes({0}, kFloat32), IsOkAndHolds(0u));
  EXPECT_THAT(CountBytes({kHuge}, kInt8), IsOkAndHolds(uint64_t{kHuge}));
  EXPECT_THAT(CountBytes({int64_t{1} << 31, int64_t{1} << 31}, kInt8),
              IsOkAndHolds(uint64_t{1} << 62));
  EXPECT_THAT(CountBytes(Dims(32, 1), kInt8), IsOkAndHolds(1u));
}

TEST(GeometryTest, ImpossibleShapesAreRefused) {
  EXPECT_STATUS(CountBytes({2, -1}, kInt8), kInvalidArgument,
                "shape (2, -1) has the extent -1 at axis 1");
  EXPECT_STATUS(CountBytes({INT64_MIN}, kInt8), kInvalidArgument, "axis 0");
  EXPECT_STATUS(CountBytes({0, -1}, kInt8), kInvalidArgument, "axis 1");
  EXPECT_STATUS(CountBytes(Dims(33, 1), kInt8), kInvalidArgument,
                "a shape of 33 axes is too long: arrays have at most 32");
  EXPECT_STATUS(CountBytes({kHuge, 2}, kInt8), kInvalidArgument,
                "more than 2^63 - 1 bytes");
  EXPECT_STATUS(CountBytes({int64_t{1} << 62}, kInt16), kInvalidArgument,
                "of int16 is more than");
  EXPECT_STATUS(CountBytes({int64_t{1} << 32, int64_t{1} << 32}, kInt8),
                kInvalidArgument, "that much cannot be addressed");
  // The product wraps to 0, and to something small.
  EXPECT_STATUS(CountBytes(Dims(8, 256), kInt8), kInvalidArgument, "2^63");
  EXPECT_STATUS(CountBytes({(int64_t{1} << 62) + 1, 4}, kInt8),
                kInvalidArgument, "2^63");
  // Contiguous strides would not fit.
  EXPECT_STATUS(CountBytes({0, kHuge, 2}, kInt8), kInvalidArgument,
                "but for its extents of 0");
}

TEST(GeometryTest, SpansThatOverflowAreRefused) {
  const ByteSpan span = Must(SpanOf({3, 2}, {-8, 100}, 4));
  EXPECT_EQ(span.lo, -16);
  EXPECT_EQ(span.hi, 104);
  EXPECT_STATUS(SpanOf({3}, {kHuge}, 1), kInvalidArgument,
                "spans more than 2^63 - 1 bytes");
  EXPECT_STATUS(SpanOf({2}, {kHuge}, 8), kInvalidArgument, "spans more");
  EXPECT_STATUS(SpanOf({2}, {INT64_MIN}, 8), kInvalidArgument, "spans more");
  EXPECT_STATUS(SpanOf({2, 2}, {INT64_MIN / 2, kHuge / 2}, 8), kInvalidArgument,
                "spans more");
  EXPECT_STATUS(SpanOf({2, 2}, {INT64_MIN, INT64_MIN}, 8), kInvalidArgument,
                "spans more");
  EXPECT_OK(SpanOf({1, 2}, {kHuge, 8}, 8));
  // Without elements strides mean nothing.
  EXPECT_EQ(Must(SpanOf({3, 0}, {kHuge, kHuge}, 8)).hi, 0);
}

TEST(GeometryTest, FindsOverlapWithinAnArray) {
  EXPECT_FALSE(HasOverlap(At(64, {4, 3}, {3, 1})));
  EXPECT_TRUE(HasOverlap(At(64, {4, 3}, {0, 1})));
  EXPECT_FALSE(HasOverlap(At(64, {1, 3}, {0, 1})));
  EXPECT_TRUE(HasOverlap(At(64, {4}, {2}, kFloat32)));
  EXPECT_FALSE(HasOverlap(At(64, {4}, {-4}, kFloat32)));
  // Axes that do not nest, and yet no byte is shared.
  EXPECT_FALSE(HasOverlap(At(64, {2, 3}, {3, 2})));
  EXPECT_TRUE(HasOverlap(At(64, {3, 3}, {3, 2})) ||
              HasOverlap(At(64, {3, 4}, {3, 2})));
  // Too many to look at: not sure.
  EXPECT_TRUE(HasOverlap(At(64, {2, 5000}, {3, 2})));
  EXPECT_FALSE(HasOverlap(At(0, {0, 2}, {0, 0})));
}

TEST(GeometryTest, FindsOverlapOfTwoArraysInABlock) {
  const auto row = [](uintptr_t at) { return At(at, {8}, {4}, kFloat32); };
  EXPECT_TRUE(MayOverlap(row(64), row(64)));
  EXPECT_TRUE(MayOverlap(row(64), row(92)));
  EXPECT_FALSE(MayOverlap(row(64), row(96)));
  EXPECT_FALSE(MayOverlap(row(96), row(64)));
  // Neighbouring columns of an 8 x 8 block, and one that is off by a byte.
  const auto column = [](uintptr_t at) { return At(at, {8}, {32}, kFloat32); };
  EXPECT_FALSE(MayOverlap(column(64), column(68)));
  EXPECT_FALSE(MayOverlap(column(64), column(92)));
  EXPECT_TRUE(MayOverlap(column(64), column(67)));
  EXPECT_TRUE(MayOverlap(column(64), column(93)));
  // A row against itself backwards, and the even against the odd elements.
  EXPECT_TRUE(MayOverlap(row(64), At(92, {8}, {-4}, kFloat32)));
  EXPECT_FALSE(
      MayOverlap(At(64, {4}, {8}, kFloat32), At(92, {4}, {-8}, kFloat32)));
  // No elements, no overlap.
  EXPECT_FALSE(MayOverlap(row(64), At(64, {0}, {4}, kFloat32)));
  EXPECT_FALSE(MayOverlap(At(64, {8, 0}, {4, 4}), row(64)));
}

TEST(GeometryTest, SameViews) {
  const Array x = At(64, {4, 1}, {8, 8}, kInt32);
  EXPECT_TRUE(IsSameView(x, x));
  EXPECT_TRUE(IsSameView(x, At(64, {4, 1}, {8, -3}, kFloat32)));
  EXPECT_FALSE(IsSameView(x, At(64, {4, 1}, {8, 8}, kInt16)));
  EXPECT_FALSE(IsSameView(x, At(68, {4, 1}, {8, 8}, kInt32)));
  EXPECT_FALSE(IsSameView(x, At(64, {4, 1}, {4, 8}, kInt32)));
  EXPECT_FALSE(IsSameView(x, At(64, {4}, {8}, kInt32)));
}

TEST(GeometryTest, AxesCountFromBothEnds) {
  const Dims shape = {2, 3, 4};
  EXPECT_THAT(NormalAxis("f", -1, shape), IsOkAndHolds(2));
  EXPECT_THAT(NormalAxis("f", 0, {shape.data(), 1}), IsOkAndHolds(0));
  EXPECT_STATUS(
      NormalAxis("f", 3, shape), kInvalidArgument,
      "f: axis 3 does not exist: shape (2, 3, 4) has 3 axes (-3 to 2)");
  EXPECT_STATUS(NormalAxis("f", -4, shape), kInvalidArgument, "axis -4");
  EXPECT_STATUS(NormalAxis("f", INT32_MIN, shape), kInvalidArgument,
                "does not exist");
  EXPECT_STATUS(NormalAxis("f", 1, {shape.data(), 1}), kInvalidArgument,
                "shape (2,) has 1 axis (-1 to 0)");
  EXPECT_STATUS(NormalAxis("f", 0, {}), kInvalidArgument,
                "shape () has no axes");
}

TEST(ShapeTest, TextIsAPythonTuple) {
  EXPECT_EQ(ShapeText({}), "()");
  EXPECT_EQ(ShapeText({4}), "(4,)");
  EXPECT_EQ(ShapeText({2, -3}), "(2, -3)");
}

TEST(ShapeTest, ShapesBroadcastFromTheLastAxis) {
  EXPECT_THAT(BroadcastShapes({2, 1}, {3}), IsOkAndHolds(Dims{2, 3}));
  EXPECT_THAT(BroadcastShapes({3}, {2, 1}), IsOkAndHolds(Dims{2, 3}));
  EXPECT_THAT(BroadcastShapes({}, {2}), IsOkAndHolds(Dims{2}));
  EXPECT_THAT(BroadcastShapes({}, {}), IsOkAndHolds(Dims{}));
  EXPECT_THAT(BroadcastShapes({1}, {0}), IsOkAndHolds(Dims{0}));
  EXPECT_THAT(BroadcastShapes({0, 5}, {1, 1}), IsOkAndHolds(Dims{0, 5}));
  EXPECT_STATUS(BroadcastShapes({2, 3}, {2}), kInvalidArgument,
                "shapes (2, 3) and (2,) do not broadcast: at axis -1 the "
                "extents are 3 and 2");
  EXPECT_STATUS(BroadcastShapes({2}, {2, 3}), kInvalidArgument,
                "shapes (2,) and (2, 3) do not broadcast: at axis -1 the "
                "extents are 2 and 3");
  EXPECT_STATUS(BroadcastShapes({0}, {2}), kInvalidArgument, "0 and 2");
}

// Too large to look at each element: the strides decide, in any order of axes.
TEST(GeometryTest, LargeViewsOverlapByTheirStrides) {
  constexpr int64_t kRows = 1 << 20, kColumns = 1 << 10;
  const auto overlaps = [](Dims strides, bool turned = false) {
    Dims shape = {kRows, kColumns};
    if (turned) {
      std::swap(shape[0], shape[1]);
      std::swap(strides[0], strides[1]);
    }
    return HasOverlap(At(1 << 20, shape, strides));
  };
  for (const bool turned : {false, true}) {
    EXPECT_FALSE(overlaps({2 * kColumns, 2}, turned));
    EXPECT_FALSE(overlaps({2 * kColumns - 1, 2}, turned));
    EXPECT_TRUE(overlaps({2 * kColumns - 2, 2}, turned));
    EXPECT_TRUE(overlaps({2 * kColumns, 0}, turned));
    EXPECT_TRUE(overlaps({0, 1}, turned));
    EXPECT_FALSE(overlaps({-2 * kColumns, 2}, turned));
  }
}

}  // namespace
}  // namespace devrt::internal
