// SPDX-License-Identifier: Apache-2.0
//
// The short way to a launch against the general one, and what it leaves to it.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "backends/gpu/pack.h"
#include "backends/tensor/tensor.h"

namespace devrt::gpu {
namespace {

using Shape = std::vector<int64_t>;
using Path = FastApply::Path;

alignas(16) char g_memory[4][4096];

devrt_tensor_v0 Flat(int operand, uint32_t dtype, const Shape& shape,
                     int offset = 0) {
  return {g_memory[operand] + offset, shape.data(), nullptr,
          static_cast<uint32_t>(shape.size()), dtype};
}

unsigned Pack(uint32_t op, const devrt_tensor_v0& out,
              const std::vector<devrt_tensor_v0>& inputs, FastApply* fast) {
  return PackFlat(op, out, inputs.data(), static_cast<uint32_t>(inputs.size()),
                  fast);
}

// The launch of the general way; false if that refuses the call.
bool PackGeneral(uint32_t op, const devrt_tensor_v0& out,
                 const std::vector<devrt_tensor_v0>& inputs, FastApply* fast) {
  tensor::Tensor to, from[tensor::kMostInputs];
  std::string error;
  const auto count = static_cast<uint32_t>(inputs.size());
  if (!tensor::CopyElementwise(op, out, inputs.data(), count, &to, from,
                               &error)) {
    return false;
  }
  ApplyArgs args;
  uint32_t kernel = 0;
  (void)PackApply(op, to, {from, count}, fast, &args, &kernel);
  return true;
}

void ExpectSameRows(const RowsArgs& a, const RowsArgs& b, size_t operands) {
  EXPECT_EQ(a.op, b.op);
  EXPECT_EQ(a.out_dtype, b.out_dtype);
  EXPECT_EQ(a.units, b.units);
  EXPECT_EQ(a.is_packed, b.is_packed);
  EXPECT_EQ(a.is_same, b.is_same);
  EXPECT_EQ(a.axes, b.axes);
  for (size_t i = 0; i < operands; ++i) {
    EXPECT_EQ(a.data[i], b.data[i]);
    EXPECT_EQ(a.strides[0][i], b.strides[0][i]);
  }
}

constexpr uint32_t kOps[] = {
    DEVRT_OP_COPY,       DEVRT_OP_NEG,        DEVRT_OP_ABS,
    DEVRT_OP_ADD,        DEVRT_OP_SUB,        DEVRT_OP_MUL,
    DEVRT_OP_DIV,        DEVRT_OP_EQ,         DEVRT_OP_NE,
    DEVRT_OP_LT,         DEVRT_OP_LE,         DEVRT_OP_GT,
    DEVRT_OP_GE,         DEVRT_OP_WHERE,      DEVRT_OP_LOGICAL_NOT,
    DEVRT_OP_MAXIMUM,    DEVRT_OP_MINIMUM,    DEVRT_OP_LOGICAL_AND,
    DEVRT_OP_LOGICAL_OR, DEVRT_OP_WHERE + 1u, 4u};

// Calls each operation with every dtype of inputs and output, with one to three
// inputs, and so with most calls that are refused.
TEST(PackFlatTest, LaunchesWhatTheGeneralWayLaunches) {
  std::vector<uint32_t> dtypes(std::begin(kKernelDtypes),
                               std::end(kKernelDtypes));
  dtypes.insert(dtypes.end(), {DEVRT_FLOAT8_E5M2, DEVRT_DTYPE(3, 64)});
  const Shape shapes[] = {{7}, {16, 4}, {2, 1, 64}};
  int packed = 0, refused = 0;
  for (const uint32_t op : kOps) {
    for (const uint32_t from : dtypes) {
      for (const uint32_t to : dtypes) {
        for (int count = 1; count <= 3; ++count) {
          const Shape& shape = shapes[(from + to) % 3];
          std::vector<devrt_tensor_v0> inputs;
          for (int i = 1; i <= count; ++i) {
            const bool is_condition = op == DEVRT_OP_WHERE && i == 1;
            inputs.push_back(Flat(i, is_condition ? DEVRT_BOOL : from, shape));
          }
          const devrt_tensor_v0 out = Flat(0, to, shape, (from + op) % 2 * 8);
          FastApply flat, general;
          const unsigned blocks = Pack(op, out, inputs, &flat);
          const bool is_taken = PackGeneral(op, out, inputs, &general);
          SCOPED_TRACE(testing::Message() << op << " of " << from << " to "
                                          << to << ", " << count);
          if (blocks == 0) {
            // The general kernel is left to the general way.
            ++refused;
            EXPECT_TRUE(!is_taken || general.path == Path::kNone);
            continue;
          }
          ++packed;
          ASSERT_TRUE(is_taken);
          ASSERT_EQ(flat.path, general.path);
          EXPECT_EQ(blocks, general.blocks);
          EXPECT_EQ(flat.kernel, general.kernel);
          ExpectSameRows(flat.rows, general.rows, inputs.size() + 1);
          if (HasFailure()) return;
        }
      }
    }
  }
  EXPECT_GT(packed, 300);
  EXPECT_GT(refused, 300);
}

TEST(PackFlatTest, LeavesOtherLayoutsToTheGeneralWay) {
  const Shape shape = {4, 8};
  FastApply fast;
  const devrt_tensor_v0 out = Flat(0, DEVRT_FLOAT32, shape);
  const devrt_tensor_v0 good = Flat(1, DEVRT_FLOAT32, shape);
  ASSERT_NE(Pack(DEVRT_OP_ADD, out, {good, good}, &fast), 0u);
  const auto is_left = [&](const devrt_tensor_v0& input) {
    return Pack(DEVRT_OP_ADD, out, {good, input}, &fast) == 0;
  };
  devrt_tensor_v0 other = good;
  const Shape turned = {4, 16}, one = {0, 0}, rows = {32, 4};
  for (const Shape* strides : {&turned, &one}) {
    other.strides = strides->data();
    EXPECT_TRUE(is_left(other));
  }
  other.strides = rows.data();
  EXPECT_FALSE(is_left(other));  // these are those of C order
  other = good;
  other.data = nullptr;
  EXPECT_TRUE(is_left(other));
  other.data = reinterpret_cast<void*>(UINTPTR_MAX - 64);
  EXPECT_TRUE(is_left(other));
  other = good;
  other.shape = nullptr;
  EXPECT_TRUE(is_left(other));
  // As many elements, and another shape.
  const Shape line = {32}, long_shape = {8, 4};
  for (const Shape* of : {&line, &long_shape}) {
    EXPECT_TRUE(is_left(Flat(1, DEVRT_FLOAT32, *of)));
  }
}

// Tensors with equal strides are not looked at axis by axis.
TEST(PackFlatTest, TakesTensorsThatNameTheStridesOfCOrder) {
  const Shape shape = {4, 8}, strides = {32, 4}, bytes = {8, 1};
  devrt_tensor_v0 out = Flat(0, DEVRT_FLOAT32, shape);
  devrt_tensor_v0 input = Flat(1, DEVRT_FLOAT32, shape);
  out.strides = strides.data();
  input.strides = strides.data();
  FastApply with, without;
  const auto pack = [&](FastApply* fast) {
    return Pack(DEVRT_OP_ADD, out, {input, input}, fast);
  };
  ASSERT_NE(pack(&with), 0u);
  devrt_tensor_v0 condition = Flat(2, DEVRT_BOOL, shape);
  condition.strides = bytes.data();
  EXPECT_NE(Pack(DEVRT_OP_WHERE, out, {condition, input, input}, &without), 0u);
  input.strides = nullptr;
  ASSERT_NE(pack(&without), 0u);
  ExpectSameRows(with.rows, without.rows, 3);
  EXPECT_EQ(with.blocks, without.blocks);
  input.strides = strides.data();
  for (void* const data : {static_cast<void*>(nullptr),
                           reinterpret_cast<void*>(UINTPTR_MAX - 64)}) {
    input.data = data;
    EXPECT_EQ(pack(&with), 0u);
  }
  const Shape turned = {4, 16};
  input = Flat(1, DEVRT_FLOAT32, shape);
  input.strides = turned.data();
  EXPECT_EQ(pack(&with), 0u);
  out.strides = turned.data();
  EXPECT_EQ(pack(&with), 0u);
}

TEST(PackFlatTest, LeavesBadExtentsToTheGeneralWay) {
  FastApply fast;
  const Shape many(DEVRT_MAX_DIMS + 1, 1);
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  for (const Shape& shape :
       {Shape{0}, Shape{3, 0}, Shape{-1}, Shape{-2, -2}, Shape{kMost, 2},
        Shape{kMost / 2}, Shape{int64_t{1} << 40}, many}) {
    const devrt_tensor_v0 of = Flat(0, DEVRT_FLOAT32, shape);
    EXPECT_EQ(Pack(DEVRT_OP_ADD, of, {of, of}, &fast), 0u);
  }
  // An array without axes has one element.
  const Shape none;
  const devrt_tensor_v0 of = Flat(0, DEVRT_FLOAT32, none);
  EXPECT_EQ(Pack(DEVRT_OP_ADD, of, {of, of}, &fast), 1u);
}

}  // namespace
}  // namespace devrt::gpu
