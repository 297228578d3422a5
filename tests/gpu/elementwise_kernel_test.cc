// SPDX-License-Identifier: Apache-2.0
#include "backends/gpu/elementwise_kernel.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "backends/gpu/pack.h"
#include "tests/gpu/tensors.h"

namespace devrt::gpu {
namespace {

template <typename Args, typename F>
void RunGrid(const Args& args, unsigned blocks, F body) {
  for (unsigned i = 0; i < blocks; ++i) body(args, Block{i, blocks});
}

// Every address modulo 16, every length around some chunks.
TEST(FillTest, SetsItsBytesAndNoOthers) {
  for (const uint32_t dtype : {DEVRT_UINT8, DEVRT_UINT16, DEVRT_UINT32,
                               DEVRT_UINT64, DEVRT_COMPLEX128}) {
    const auto item = static_cast<int64_t>(tensor::DtypeSize(dtype));
    for (int64_t offset = 0; offset < 16; ++offset) {
      for (int64_t count = 1; count < 40; ++count) {
        alignas(16) uint8_t memory[800];
        uint8_t value[16], want[sizeof memory];
        std::memset(memory, 0xee, sizeof memory);
        std::memset(want, 0xee, sizeof want);
        for (int i = 0; i < 16; ++i) value[i] = static_cast<uint8_t>(i + 1);
        for (int64_t i = 0; i < count * item; ++i) {
          want[64 + offset + i] = value[i % item];
        }
        FillArgs args;
        const unsigned blocks = PackFill(
            TensorOf(memory + 64 + offset, dtype, {count}), value, &args);
        ASSERT_EQ(args.is_contiguous, 1u);
        RunGrid(args, blocks, &FillBlock);
        ASSERT_EQ(std::memcmp(memory, want, sizeof memory), 0)
            << "item " << item << ", offset " << offset << ", " << count;
      }
    }
  }
}

// A grid has a largest size; its blocks then process more than one tile.
TEST(GridTest, BlocksGoOnWhereTheGridEnds) {
  const int64_t count = 5 * kThreads * 4 + 3;
  std::vector<int32_t> a, b, out(static_cast<size_t>(count), -1);
  for (int32_t i = 0; i < count; ++i) {
    a.push_back(3 * i);
    b.push_back(i * i);
  }
  const auto sum = [&](const std::vector<int64_t>& strides) {
    ApplyArgs args;
    uint32_t kernel = 0;
    EXPECT_GT(
        PackApply(DEVRT_OP_ADD, TensorOf(out.data(), DEVRT_INT32, {count}),
                  Inputs{TensorOf(a.data(), DEVRT_INT32, {count}, strides),
                         TensorOf(b.data(), DEVRT_INT32, {count})},
                  &args, &kernel),
        2u);
    EXPECT_EQ(kernel, DEVRT_INT32);
    RunGrid(args, 2, &ApplyBlock<int32_t>);
  };
  sum({});
  for (size_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], a[i] + b[i]) << i;
  sum({0});
  for (size_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], a[0] + b[i]) << i;

  ApplyArgs args;
  uint32_t kernel = 1;
  std::vector<double> wide(out.size());
  EXPECT_GT(
      PackApply(DEVRT_OP_COPY, TensorOf(wide.data(), DEVRT_FLOAT64, {count}),
                Inputs{TensorOf(b.data(), DEVRT_INT32, {count})}, &args,
                &kernel),
      2u);
  EXPECT_EQ(kernel, 0u);
  RunGrid(args, 2, &ConvertBlock);
  for (size_t i = 0; i < wide.size(); ++i) ASSERT_EQ(wide[i], b[i]) << i;

  FillArgs fill;
  const int32_t value = 77;
  EXPECT_GT(PackFill(TensorOf(out.data(), DEVRT_INT32, {count / 2}, {8}),
                     &value, &fill),
            2u);
  RunGrid(fill, 2, &FillBlock);
  for (size_t i = 0; i < out.size(); ++i) {
    const bool is_set = i % 2 == 0 && i / 2 < out.size() / 2;
    ASSERT_EQ(out[i], is_set ? 77 : a[0] + b[i]) << i;
  }
}

TEST(PackTest, TakesPacksWhereAllOperandsAreAlignedToThem) {
  alignas(16) float a[64] = {}, b[64] = {}, out[64] = {};
  const auto is_packed = [&](const float* from, const float* to,
                             const std::vector<int64_t>& shape,
                             const std::vector<int64_t>& strides) {
    ApplyArgs args;
    uint32_t kernel = 0;
    PackApply(DEVRT_OP_MUL, TensorOf(to, DEVRT_FLOAT32, shape),
              Inputs{TensorOf(from, DEVRT_FLOAT32, shape, strides),
                     TensorOf(b, DEVRT_FLOAT32, shape)},
              &args, &kernel);
    return args.is_packed != 0;
  };
  EXPECT_TRUE(is_packed(a, out, {60}, {}));
  EXPECT_TRUE(is_packed(a, out, {4, 15}, {}));
  EXPECT_TRUE(is_packed(a + 1, out, {60}, {0})) << "one element for all";
  EXPECT_FALSE(is_packed(a + 1, out, {60}, {}));
  EXPECT_FALSE(is_packed(a, out + 1, {60}, {}));
  EXPECT_FALSE(is_packed(a, out, {30}, {8}));
  EXPECT_FALSE(is_packed(a, out, {4, 15}, {0, 4}));
  EXPECT_TRUE(is_packed(a, out, {1, 60, 1}, {99, 4, 99})) << "one axis";
}

}  // namespace
}  // namespace devrt::gpu
