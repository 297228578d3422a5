// SPDX-License-Identifier: Apache-2.0
//
// The kernels of devrt.reduce/0 for results that are adjacent.
#include "backends/gpu/columns_kernel.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "backends/gpu/pack.h"
#include "tests/gpu/reduce_fixture.h"
#include "tests/gpu/tensors.h"

namespace devrt::gpu {
namespace {

class ColumnsTest : public ReduceTest {
 protected:
  // Sums two matrices.
  void SumColumns(const std::vector<int8_t>& in, int64_t columns, int64_t rows,
                  int64_t gap, int64_t first, int64_t direction) {
    constexpr int64_t kMatrices = 2;
    const int64_t row = columns + gap, matrix = row * rows + 3;
    const int64_t top = first + (direction < 0 ? (rows - 1) * row : 0);
    std::vector<int64_t> out(static_cast<size_t>(kMatrices * columns), -1);
    std::vector<int64_t> want(out.size());
    for (int64_t i = 0; i < kMatrices * rows * columns; ++i) {
      const int64_t k = i / columns / rows, column = i % columns;
      want[static_cast<size_t>(k * columns + column)] += in[static_cast<size_t>(
          first + k * matrix + i / columns % rows * row + column)];
    }
    ReduceArgs args;
    const unsigned blocks = PackReduce(
        DEVRT_REDUCE_SUM,
        TensorOf(out.data(), DEVRT_INT64, {kMatrices, 1, columns}),
        TensorOf(in.data() + top, DEVRT_INT8, {kMatrices, rows, columns},
                 {matrix, direction * row, 1}),
        2, &args);
    args.ticket = kTicket;
    Claim(kTicket);
    ASSERT_EQ(args.kind == ReduceKind::kColumns, rows > 1);
    Launch<int8_t>(args, blocks);
    GiveSlotsTo(0);
    ASSERT_EQ(out, want) << columns << " x " << rows << " after " << first
                         << ", gap " << gap << ", direction " << direction;
  }
};

// The rows of a thread must begin alike within a pack, and a row of threads has
// a pack to spare where rows begin anywhere.
TEST_F(ColumnsTest, RowsOfAThreadBeginAlike) {
  alignas(16) static char in[16];  // is not read
  std::vector<int64_t> out(9'000);
  for (const int64_t columns : {2, 3, 63, 64, 1'000, 1'001, 8'999, 9'000}) {
    for (const int64_t rows : {3, 100, 100'000}) {
      for (const uint32_t dtype :
           {DEVRT_INT8, DEVRT_INT16, DEVRT_INT32, DEVRT_INT64}) {
        const int64_t item = tensor::DtypeSize(dtype);
        const auto pack =
            static_cast<uint64_t>(ColumnsPack(static_cast<size_t>(item)));
        ReduceArgs args;
        PackReduce(DEVRT_REDUCE_SUM,
                   TensorOf(out.data(), DEVRT_INT64, {1, columns}),
                   TensorOf(in, dtype, {rows, columns}), 1, &args);
        ASSERT_EQ(args.kind, ReduceKind::kColumns);
        const uint64_t of_threads = kThreads / args.lanes * pack;
        if (static_cast<uint64_t>(columns) % pack == 0) {
          EXPECT_EQ(args.group_columns, of_threads);
        } else {
          EXPECT_EQ(args.lanes % pack, 0u) << columns << " of " << item;
          EXPECT_EQ(args.group_columns, of_threads - pack);
        }
        EXPECT_GE(args.column_groups * args.group_columns,
                  static_cast<uint64_t>(columns));
      }
    }
  }
}

// Columns of rows that begin at every place in a pack, of matrices one behind
// the other, and from the last row to the first.
TEST_F(ColumnsTest, RowsBeginAnywhere) {
  std::vector<int8_t> in(1 << 18);
  for (int8_t& value : in) value = static_cast<int8_t>(random_());
  for (const int64_t columns : {2, 9, 63, 64, 300, 513}) {
    for (const int64_t rows : {1, 7, 64, 90}) {
      for (const int64_t gap : {0, 1, 7}) {
        for (const int64_t first : {0, 1, 15}) {
          for (const int64_t direction : {1, -1}) {
            SumColumns(in, columns, rows, gap, first, direction);
          }
        }
      }
    }
  }
}

// The slot's memory bounds the parts, not the number of blocks that the tuning
// asks for: partial sums of integers are 64 bits wide, those of floats 32.
TEST_F(ColumnsTest, PartsFitTheirMemory) {
  const int64_t rows = 1 << 20, columns = 64;
  alignas(16) static char in[16];  // is not read
  std::vector<int64_t> out(columns);
  ReduceTuning tuning;
  tuning.columns_blocks = 1 << 20;
  for (const auto& [dtype, partial] :
       {std::pair<uint32_t, uint64_t>{DEVRT_INT32, 8},
        {DEVRT_INT64, 8},
        {DEVRT_FLOAT32, 4},
        {DEVRT_FLOAT64, 8},
        {DEVRT_BFLOAT16, 4}}) {
    ReduceArgs args;
    PackReduce(DEVRT_REDUCE_SUM, TensorOf(out.data(), dtype, {1, columns}),
               TensorOf(in, dtype, {rows, columns}), 1, &args, tuning);
    ASSERT_EQ(args.kind, ReduceKind::kColumns);
    EXPECT_EQ(args.parts, ColumnsSlot::kBytes / (partial * columns))
        << std::hex << dtype;
  }
}

// Groups of columns have no parts where they keep a device busy.  Elsewhere few
// blocks do, but where they are too few parts there are twice as many.
TEST_F(ColumnsTest, FewBlocksOrEnoughParts) {
  alignas(16) static char in[16];  // is not read
  std::vector<float> out(20'000);
  struct Case {
    int64_t matrices, columns;
    uint32_t groups, parts;
  };
  for (const Case& c : {Case{1, 1'024, 16, 16},
                        {1, 4'096, 64, 4},
                        {1, 8'192, 256, 1},
                        {1, 8'191, 137, 1},
                        {1, 20'000, 313, 1},
                        {100, 64, 100, 5}}) {
    constexpr int64_t kRows = int64_t{1} << 16;
    ReduceArgs args;
    PackReduce(DEVRT_REDUCE_SUM,
               TensorOf(out.data(), DEVRT_FLOAT32, {c.matrices, 1, c.columns}),
               TensorOf(in, DEVRT_FLOAT32, {c.matrices, kRows, c.columns}), 2,
               &args);
    EXPECT_EQ(args.groups, c.groups) << c.columns;
    EXPECT_EQ(args.parts, c.parts) << c.columns;
  }
}

// 274 blocks of 256 bytes are ten more than fit an H200 at once.
TEST_F(ColumnsTest, NoFewBlocksAreLeftBehind) {
  alignas(16) static char in[16];  // is not read
  std::vector<double> out(8'191);
  ReduceArgs args;
  PackReduce(DEVRT_REDUCE_SUM, TensorOf(out.data(), DEVRT_FLOAT64, {1, 8'191}),
             TensorOf(in, DEVRT_FLOAT64, {4'096, 8'191}), 1, &args);
  EXPECT_EQ(args.groups, 133);
  EXPECT_EQ(args.parts, 1);
}

}  // namespace
}  // namespace devrt::gpu
