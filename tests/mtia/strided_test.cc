// SPDX-License-Identifier: Apache-2.0
//
// Descriptors and walks: the arithmetic of offsets at and beyond its limits.

#include "backends/mtia/kernels/strided.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "tests/mtia/random_tensor.h"
#include "tests/support/sanitizers.h"

namespace devrt::mtia {
namespace {

using tensor::kAllAxes;

constexpr int64_t kSignedGiB = int64_t{1} << 30;

TEST(CopyTensorTest, FillsInContiguousStrides) {
  const Tensor tensor = MakeTensor(kData, DEVRT_INT16, {2, 3, 4}, nullptr);
  EXPECT_EQ(Shape(tensor.strides.begin(), tensor.strides.end()),
            (Shape{24, 8, 2}));
  EXPECT_EQ(tensor.elements, 24);
  EXPECT_EQ(tensor.lo, 0);
  EXPECT_EQ(tensor.hi, 48);
}

TEST(CopyTensorTest, RangeCoversNegativeStridesAndTheLastElement) {
  const Shape strides = {-100, 8, 0};
  const Tensor tensor =
      MakeTensor(kData, DEVRT_COMPLEX128, {3, 4, 5}, &strides);
  EXPECT_EQ(tensor.lo, -200);
  EXPECT_EQ(tensor.hi, 24 + 16);
  EXPECT_EQ(tensor.elements, 60);
}

TEST(CopyTensorTest, ScalarTouchesOneElement) {
  const devrt_tensor_v0 in = {kData, nullptr, nullptr, 0, DEVRT_FLOAT64};
  Tensor tensor;
  std::string error;
  ASSERT_TRUE(CopyTensor(in, "in", &tensor, &error)) << error;
  EXPECT_EQ(tensor.elements, 1);
  EXPECT_EQ(tensor.lo, 0);
  EXPECT_EQ(tensor.hi, 8);
}

TEST(CopyTensorTest, EmptyTensorsTouchNothing) {
  const int64_t huge = std::numeric_limits<int64_t>::max();
  const Shape strides = {huge, huge, 1};
  const Tensor tensor =
      MakeTensor(nullptr, DEVRT_INT64, {huge, huge, 0}, &strides);
  EXPECT_EQ(tensor.elements, 0);
  EXPECT_EQ(tensor.lo, 0);
  EXPECT_EQ(tensor.hi, 0);
  MakeTensor(nullptr, DEVRT_INT64, {huge, huge, 0}, nullptr);
}

TEST(CopyTensorTest, DoesNotKeepTheCallersArrays) {
  int64_t shape[] = {4};
  int64_t strides[] = {8};
  const devrt_tensor_v0 in = {kData, shape, strides, 1, DEVRT_INT32};
  Tensor tensor;
  std::string error;
  ASSERT_TRUE(CopyTensor(in, "in", &tensor, &error)) << error;
  shape[0] = strides[0] = 99;
  EXPECT_EQ(Shape(tensor.shape.begin(), tensor.shape.end()), Shape{4});
  EXPECT_EQ(Shape(tensor.strides.begin(), tensor.strides.end()), Shape{8});
}

TEST(CursorTest, MergesContiguousAxes) {
  const Tensor tensor = MakeTensor(kData, DEVRT_INT32, {5, 1, 6, 7}, nullptr);
  const Cursor cursor(tensor, OrderAxes(tensor, kAllAxes));
  EXPECT_EQ(cursor.run(), 210);
  EXPECT_EQ(cursor.stride(), 4);
  EXPECT_TRUE(cursor.IsContiguous(4));
}

TEST(CursorTest, WalksTransposedAxesInMemoryOrder) {
  const Shape strides = {4, 20};
  const Tensor tensor = MakeTensor(kData, DEVRT_INT32, {5, 6}, &strides);
  const Cursor cursor(tensor, OrderAxes(tensor, kAllAxes));
  EXPECT_TRUE(cursor.IsContiguous(4));
}

TEST(CursorTest, CountsMoreThan2To31Elements) {
  const Shape strides = {10 * kSignedGiB, 1};
  const Tensor tensor =
      MakeTensor(kData, DEVRT_UINT8, {3, 5 * kSignedGiB}, &strides);
  Cursor cursor(tensor, OrderAxes(tensor, kAllAxes));
  EXPECT_EQ(cursor.elements(), 15 * kSignedGiB);
  cursor.Step(3 * kSignedGiB);
  EXPECT_EQ(cursor.offset(), 3 * kSignedGiB);
  EXPECT_EQ(cursor.run(), 2 * kSignedGiB);
  cursor.Step(2 * kSignedGiB);
  EXPECT_EQ(cursor.offset(), 10 * kSignedGiB);
  cursor.Step(5 * kSignedGiB);
  cursor.Step(5 * kSignedGiB - 1);
  EXPECT_EQ(cursor.offset(), 25 * kSignedGiB - 1);
  cursor.Step(1);
  EXPECT_EQ(cursor.offset(), 0) << "not at the start again";
}

TEST(CursorTest, ReturnsToTheStartWhereExtentTimesStrideOverflows) {
  // The last offset is 2^62, one stride further is not an int64_t.
  const Shape strides = {int64_t{1} << 62, 1};
  const Tensor tensor = MakeTensor(kData, DEVRT_UINT8, {2, 3}, &strides);
  Cursor cursor(tensor, OrderAxes(tensor, kAllAxes));
  cursor.Step(3);
  EXPECT_EQ(cursor.offset(), int64_t{1} << 62);
  cursor.Step(3);
  EXPECT_EQ(cursor.offset(), 0);
}

TEST(CursorTest, HandlesAllDimensions) {
  const Tensor tensor = MakeTensor(kData, DEVRT_UINT8, Shape(32, 2), nullptr);
  // In an order in which no two axes are one.
  Axes axes;
  for (uint32_t k = 0; k < 32; k += 2) axes.push_back(k);
  for (uint32_t k = 1; k < 32; k += 2) axes.push_back(k);
  Cursor cursor(tensor, axes);
  EXPECT_EQ(cursor.elements(), 4 * kSignedGiB);
  cursor.Step(2);
  EXPECT_EQ(cursor.offset(), 4) << "axis 29 follows axis 31";
}

// Memory that is reserved but, except for the pages in use, not there.
class SparseMemory {
 public:
  explicit SparseMemory(size_t size)
      : size_(size),
        address_(mmap(nullptr, size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {}
  SparseMemory(const SparseMemory&) = delete;
  SparseMemory& operator=(const SparseMemory&) = delete;
  ~SparseMemory() {
    if (valid()) munmap(address_, size_);
  }

  bool valid() const { return address_ != MAP_FAILED; }
  std::byte* data() const { return static_cast<std::byte*>(address_); }

 private:
  size_t size_;
  void* address_;
};

TEST(FarApartTest, OffsetsBeyond2To32) {
  const SparseMemory memory(static_cast<size_t>(9 * kSignedGiB));
  if (!memory.valid()) GTEST_SKIP() << "no 9 GiB of address space";
  const Shape shape = {3, 2};
  const Shape strides = {4 * kSignedGiB + 3, -5};
  const Tensor out = MakeTensor(kData, DEVRT_INT32, shape, &strides);
  std::byte* const origin = memory.data() + 5;
  const int32_t value = 40;
  RunFill(out, origin, &value);
  RunElementwise(DEVRT_OP_ADD, out, origin, {out, out}, {origin, origin});
  for (int64_t offset : {int64_t{0}, strides[0], 2 * strides[0] - 5}) {
    int32_t got = 0;
    std::memcpy(&got, origin + offset, sizeof got);
    EXPECT_EQ(got, 80) << offset;
  }
  int32_t sum = 0;
  const Tensor total = MakeTensor(kData, DEVRT_INT32, {1, 1}, nullptr);
  RunReduce(DEVRT_REDUCE_SUM, total, reinterpret_cast<std::byte*>(&sum), out,
            origin, 3);
  EXPECT_EQ(sum, 480);
}

TEST(FarApartTest, SumOfMoreThan2To31Elements) {
  if (DEVRT_TEST_ASAN || DEVRT_TEST_TSAN)
    GTEST_SKIP() << "takes a minute with sanitizers";
  const int64_t count = 2 * kSignedGiB + 1024;
  const Shape broadcast = {0};
  const Tensor in = MakeTensor(kData, DEVRT_FLOAT32, {count}, &broadcast);
  const Tensor out = MakeTensor(kData, DEVRT_FLOAT32, {1}, nullptr);
  const float one = 1;
  float sum = 0;
  RunReduce(DEVRT_REDUCE_SUM, out, reinterpret_cast<std::byte*>(&sum), in,
            reinterpret_cast<const std::byte*>(&one), 1);
  EXPECT_EQ(sum, static_cast<float>(count));
}

}  // namespace
}  // namespace devrt::mtia
