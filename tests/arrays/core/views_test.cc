// SPDX-License-Identifier: Apache-2.0
//
// Views by examples, and what they say when they refuse; views_property_test
// has the rest.

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "arrays/storage/storage.h"
#include "devrt/arrays/array.h"
#include "tests/support/status_matchers.h"

namespace devrt {
namespace {

using testing::Must;

char kept[1024];

Array Numbered(Dims shape) {
  Dims strides(shape.size());
  int64_t stride = 4;
  for (size_t k = shape.size(); k-- > 0; stride *= shape[k]) {
    strides[k] = stride;
  }
  internal::Storage::Borrowed borrowed;
  borrowed.base = kept;
  borrowed.bytes = sizeof kept;
  return Array(internal::Storage::Borrow(Place::Host(), std::move(borrowed)),
               kept, std::move(shape), std::move(strides), kInt32);
}

// The offset of the first element, in elements.
int64_t Begin(const Array& x) { return (x.data_as<char>() - kept) / 4; }

TEST(ViewsTest, PropertiesOfAnArray) {
  const Array x = Numbered({2, 3});
  EXPECT_EQ(x.shape(), DimSpan({2, 3}));
  EXPECT_EQ(x.strides(), DimSpan({12, 4}));
  EXPECT_EQ(x.ndim(), 2);
  EXPECT_EQ(x.size(), 6);
  EXPECT_EQ(x.nbytes(), 24u);
  EXPECT_EQ(x.item_size(), 4u);
  EXPECT_EQ(x.dtype(), kInt32);
  EXPECT_TRUE(x.IsContiguous());
  EXPECT_FALSE(x.IsFortranContiguous());
  EXPECT_TRUE(x.Transpose().IsFortranContiguous());
  EXPECT_EQ(Numbered({2, 0}).data(), nullptr);
  EXPECT_EQ(Numbered({}).size(), 1);
}

TEST(ViewsTest, SliceAxisGivesShapeStridesAndBegin) {
  const Array x = Numbered({4, 6});
  const Array odd = Must(x.SliceAxis(1, {1, std::nullopt, 2}));
  EXPECT_EQ(odd.shape(), DimSpan({4, 3}));
  EXPECT_EQ(odd.strides(), DimSpan({24, 8}));
  EXPECT_EQ(Begin(odd), 1);
  const Array backwards = Must(x.SliceAxis(-1, {{}, {}, -1}));
  EXPECT_EQ(backwards.strides(), DimSpan({24, -4}));
  EXPECT_EQ(Begin(backwards), 5);
  EXPECT_EQ(Must(x.SliceAxis(0, {-2, 100, 1})).shape(), DimSpan({2, 6}));
  EXPECT_EQ(Must(x.SliceAxis(0, {3, 1, 1})).size(), 0);
  EXPECT_EQ(Must(x.SliceAxis(0, {})).shape(), x.shape());
  EXPECT_STATUS(x.SliceAxis(1, {0, 1, 0}), kInvalidArgument,
                "a slice of axis 1 has a step of 0");
  EXPECT_STATUS(x.SliceAxis(2, {}), kInvalidArgument,
                "SliceAxis: axis 2 does not exist: shape (4, 6) has 2 "
                "axes (-2 to 1)");
  EXPECT_STATUS(Numbered({}).SliceAxis(0, {}), kInvalidArgument,
                "SliceAxis: axis 0 does not exist: shape () has no axes");
}

TEST(ViewsTest, IndexTakesNegativeIndicesAndChecksTheRange) {
  const Array x = Numbered({4, 6});
  const Array row = Must(x.Index(0, -1));
  EXPECT_EQ(row.shape(), DimSpan({6}));
  EXPECT_EQ(Begin(row), 18);
  const Array one = Must(row.Index(0, 2));
  EXPECT_EQ(one.ndim(), 0);
  EXPECT_EQ(Begin(one), 20);
  EXPECT_STATUS(x.Index(1, 6), kInvalidArgument,
                "Index: index 6 is out of range for axis 1 of shape (4, 6)");
  EXPECT_STATUS(x.Index(1, -7), kInvalidArgument, "index -7");
  EXPECT_STATUS(Numbered({0}).Index(0, 0), kInvalidArgument,
                "shape (0,), which has the extent 0");
  EXPECT_STATUS(one.Index(0, 0), kInvalidArgument, "does not exist");
}

TEST(ViewsTest, PermuteMovesAxesAndChecksThem) {
  const Array x = Numbered({2, 3, 4});
  EXPECT_EQ(Must(x.Permute({2, 0, 1})).shape(), DimSpan({4, 2, 3}));
  EXPECT_EQ(Must(x.Permute({2, 0, 1})).strides(), DimSpan({4, 48, 16}));
  EXPECT_EQ(Must(x.Permute({-1, -3, -2})).shape(), DimSpan({4, 2, 3}));
  EXPECT_EQ(x.Transpose().strides(), DimSpan({4, 16, 48}));
  EXPECT_OK(Numbered({}).Permute({}));
  EXPECT_STATUS(x.Permute({0, 1}), kInvalidArgument,
                "axes (0, 1) are no permutation of the 3 axes");
  EXPECT_STATUS(x.Permute({0, 1, -2}), kInvalidArgument, "name axis 1 twice");
  EXPECT_STATUS(x.Permute({0, 1, 3}), kInvalidArgument, "axis 3");
}

TEST(ViewsTest, ReshapeNeverCopies) {
  const Array x = Numbered({4, 6});
  EXPECT_EQ(Must(x.Reshape({2, -1, 3})).shape(), DimSpan({2, 4, 3}));
  EXPECT_EQ(Must(x.Reshape({24})).strides(), DimSpan({4}));
  const Array half = Must(x.SliceAxis(1, {0, 3, 1}));
  EXPECT_EQ(Must(half.Reshape({2, 2, 3, 1})).strides(),
            DimSpan({48, 24, 4, 4}));
  EXPECT_STATUS(half.Reshape({12}), kInvalidArgument,
                "shape (4, 3) with strides (24, 4) (bytes) cannot be seen as "
                "(12,) without a copy: reshape Contiguous() of it instead");
  EXPECT_STATUS(x.Reshape({5, 5}), kInvalidArgument,
                "shape (4, 6) of 24 elements cannot be reshaped to (5, 5) of "
                "25");
  EXPECT_STATUS(x.Reshape({-1, -1}), kInvalidArgument, "has -1 twice");
  EXPECT_STATUS(x.Reshape({-1, 7}), kInvalidArgument,
                "no extent for the -1 of shape (-1, 7)");
  EXPECT_STATUS(x.Reshape({-1, 0}), kInvalidArgument, "no extent for the -1");
  EXPECT_STATUS(x.Reshape({-24, -1}), kInvalidArgument, "no extent for the -1");
  EXPECT_STATUS(x.Reshape({-2, -12}), kInvalidArgument, "has the extent -2");
  EXPECT_STATUS(x.Reshape({INT64_MAX, 3, -1}), kInvalidArgument, "no extent");
  EXPECT_STATUS(x.Reshape({INT64_MAX, 3}), kInvalidArgument, "2^63");
  EXPECT_EQ(Must(Numbered({0, 3}).Reshape({5, -1})).shape(), DimSpan({5, 0}));
  EXPECT_EQ(Must(Numbered({}).Reshape({1, 1})).shape(), DimSpan({1, 1}));
}

TEST(ViewsTest, AxesOfExtentOne) {
  const Array x = Numbered({4, 6});
  const Array wide = Must(x.ExpandDims(1));
  EXPECT_EQ(wide.shape(), DimSpan({4, 1, 6}));
  EXPECT_EQ(wide.strides(), DimSpan({24, 24, 4}));
  EXPECT_EQ(Must(x.ExpandDims(2)).shape(), DimSpan({4, 6, 1}));
  EXPECT_EQ(Must(x.ExpandDims(-1)).shape(), DimSpan({4, 6, 1}));
  EXPECT_EQ(Must(x.ExpandDims(-3)).shape(), DimSpan({1, 4, 6}));
  EXPECT_STATUS(x.ExpandDims(3), kInvalidArgument,
                "axis 3 does not exist: shape (4, 6) with the new axis has 3 "
                "axes (-3 to 2)");
  EXPECT_STATUS(Numbered(Dims(32, 1)).ExpandDims(0), kInvalidArgument,
                "no axis can be added to 32");
  EXPECT_EQ(Must(wide.Squeeze(1)).shape(), x.shape());
  EXPECT_EQ(wide.Squeeze().shape(), x.shape());
  EXPECT_EQ(Numbered({1, 1}).Squeeze().ndim(), 0);
  EXPECT_STATUS(wide.Squeeze(0), kInvalidArgument,
                "axis 0 of shape (4, 1, 6) has the extent 4");
}

TEST(ViewsTest, BroadcastToGivesStridesOfZero) {
  const Array x = Numbered({4, 1});
  const Array wide = Must(x.BroadcastTo({2, 4, 3}));
  EXPECT_EQ(wide.strides(), DimSpan({0, 4, 0}));
  EXPECT_EQ(Must(x.BroadcastTo({4, 0})).size(), 0);
  EXPECT_STATUS(x.BroadcastTo({4}), kInvalidArgument,
                "shape (4, 1) does not broadcast to (4,)");
  EXPECT_STATUS(x.BroadcastTo({3, 1}), kInvalidArgument, "does not broadcast");
  EXPECT_STATUS(x.BroadcastTo({4, -1}), kInvalidArgument, "extent -1");
  EXPECT_STATUS(x.BroadcastTo({INT64_MAX, 4, 1}), kInvalidArgument, "2^63");
  EXPECT_STATUS(x.BroadcastTo(Dims(33, 4)), kInvalidArgument, "33 axes");
}

TEST(ViewsTest, OtherDTypes) {
  const Array x = Numbered({4});
  EXPECT_EQ(Must(x.ViewAs(kFloat32)).dtype(), kFloat32);
  EXPECT_EQ(Must(x.ViewAs(kFloat32)).data(), x.data());
  EXPECT_STATUS(x.ViewAs(kInt8), kInvalidArgument,
                "elements of int32 have 4 bytes and those of int8 1");
}

TEST(ViewsTest, OfReadOnlyArraysAreReadOnly) {
  const Array x = Numbered({4, 1});
  EXPECT_FALSE(x.read_only());
  const Array locked = x.AsReadOnly();
  EXPECT_TRUE(locked.read_only());
  EXPECT_FALSE(x.read_only());
  EXPECT_TRUE(Must(locked.Index(0, 1)).read_only());
  EXPECT_TRUE(Must(locked.SliceAxis(0, {})).read_only());
  EXPECT_TRUE(locked.Transpose().read_only());
  EXPECT_TRUE(Must(locked.Reshape({2, 2})).read_only());
  EXPECT_TRUE(Must(locked.ExpandDims(0)).read_only());
  EXPECT_TRUE(locked.Squeeze().read_only());
  EXPECT_TRUE(Must(locked.BroadcastTo({4, 4})).read_only());
  EXPECT_TRUE(Must(locked.ViewAs(kFloat32)).read_only());
}

// Strides of arrays without elements may be anything, and nothing overflows.
TEST(ViewsTest, OfNothingTakeAnyStrides) {
  const Array x(Numbered({}).storage(), kept, {3, 0, 4},
                {INT64_MAX, INT64_MIN, 7}, kInt8);
  EXPECT_EQ(x.data(), nullptr);
  EXPECT_EQ(Must(x.SliceAxis(0, {{}, {}, -2})).size(), 0);
  EXPECT_EQ(Must(x.Index(0, 2)).shape(), DimSpan({0, 4}));
  EXPECT_EQ(Must(x.Reshape({0})).shape(), DimSpan({0}));
  EXPECT_EQ(Must(x.ExpandDims(0)).ndim(), 4);
  EXPECT_TRUE(x.IsContiguous());
  EXPECT_TRUE(x.IsFortranContiguous());
}

}  // namespace
}  // namespace devrt
