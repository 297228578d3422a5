// SPDX-License-Identifier: Apache-2.0
#include "backends/gpu/reduce_kernel.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <type_traits>
#include <utility>
#include <vector>

#include "backends/gpu/adjacent_kernel.h"
#include "backends/gpu/columns_kernel.h"
#include "backends/gpu/pack.h"
#include "backends/gpu/slot_leases.h"
#include "tests/gpu/tensors.h"

namespace devrt::gpu {
namespace {

constexpr uint32_t kTicket = 5;

// Runs of one kernel after the other; blocks in the given order.
class ReduceTest : public ::testing::Test {
 protected:
  template <typename T>
  void Launch(const ReduceArgs& args, unsigned blocks, bool backwards = false) {
    for (unsigned i = 0; i < blocks; ++i) {
      RunBlock<T>(args, Block{backwards ? blocks - 1 - i : i, blocks});
    }
  }
  template <typename T>
  void RunBlock(const ReduceArgs& args, const Block& block) {
    ++seen_[{args.kind, args.parts > 1}];
    if (args.kind == ReduceKind::kColumns) {
      const auto shared = std::make_unique<ColumnsShared<T>>();
      return ColumnsBlock<T>(args, block, slots_.get(), shared.get());
    }
    if (args.kind == ReduceKind::kGathered) {
      const auto shared = std::make_unique<Shared<PartialType<T>>>();
      return ReduceBlock<T>(args, block, slots_.get(), shared.get());
    }
    (void)WithFolding<T>(args.op, [&](const auto& folding) {
      using Operation = typename std::decay_t<decltype(folding)>::Operation;
      if (args.kind == ReduceKind::kAdjacent) {
        const auto shared = std::make_unique<AdjacentShared<T, Operation>>();
        AdjacentBlock<T, Operation>(args, block, slots_.get(), shared.get());
      } else {
        PerThread<typename Folding<T, Operation>::Few> shared[kShortRows];
        ShortBlock<T, Operation>(args, block, shared);
      }
      return 0;
    });
  }
  Slot& TheSlot() { return slots_[kTicket % kSlots]; }

  // Of a float tensor; `blocks` is what was launched.
  unsigned Pack(uint32_t op, const std::vector<float>& in,
                const std::vector<int64_t>& shape, uint32_t axes,
                std::vector<float>* out, ReduceArgs* args) {
    std::vector<int64_t> reduced = shape;
    int64_t results = 1;
    for (size_t k = 0; k < shape.size(); ++k) {
      if ((axes >> k & 1) != 0) reduced[k] = 1;
      results *= reduced[k];
    }
    out->assign(static_cast<size_t>(results), -1);
    const unsigned blocks =
        PackReduce(op, TensorOf(out->data(), DEVRT_FLOAT32, reduced),
                   TensorOf(in.data(), DEVRT_FLOAT32, shape), axes, args);
    args->ticket = kTicket;
    return blocks;
  }

  std::vector<float> Random(size_t count) {
    std::uniform_real_distribution<float> any(-1, 1);
    std::vector<float> values(count);
    for (float& value : values) value = any(random_);
    return values;
  }

  // Exact sums, over shapes that lead to each way of sharing the work.
  template <typename T>
  void SumIntegers(uint32_t dtype) {
    for (const auto& [rows, columns] :
         std::vector<std::pair<int64_t, int64_t>>{{1, 40'000},
                                                  {3, 5'000},
                                                  {700, 17},
                                                  {5'000, 40},
                                                  {40'000, 3},
                                                  {70'000, 2},
                                                  {2, 70'000},
                                                  {33, 4'096},
                                                  {300, 2'000},
                                                  {31, 1},
                                                  {1, 31}}) {
      std::vector<T> in(static_cast<size_t>(rows * columns));
      for (T& value : in) value = static_cast<T>(random_());
      for (const uint32_t axes : {1u, 2u, 3u}) {
        const int64_t out_rows = (axes & 1) != 0 ? 1 : rows;
        const int64_t out_columns = (axes & 2) != 0 ? 1 : columns;
        std::vector<int64_t> want(static_cast<size_t>(out_rows * out_columns));
        std::vector<int64_t> out(want.size(), -1);
        for (size_t i = 0; i < in.size(); ++i) {
          const auto row = static_cast<int64_t>(i) / columns % out_rows;
          const auto column = static_cast<int64_t>(i) % columns % out_columns;
          want[static_cast<size_t>(row * out_columns + column)] += in[i];
        }
        ReduceArgs args;
        const unsigned blocks = PackReduce(
            DEVRT_REDUCE_SUM,
            TensorOf(out.data(), DEVRT_INT64, {out_rows, out_columns}),
            TensorOf(in.data(), dtype, {rows, columns}), axes, &args);
        args.ticket = kTicket;
        if (args.parts > 1) {
          if (args.kind == ReduceKind::kAdjacent) {
            ASSERT_LE(args.parts * args.kept.elements, Slot::kMost);
            ASSERT_LE(args.kept.elements, Slot::kMostGroups);
          } else if (args.kind == ReduceKind::kGathered) {
            ASSERT_LE(args.parts * args.kept.elements, Slot::kMost);
            ASSERT_LE(args.parts * kThreads / args.lanes, Slot::kMostOfGroup);
          } else {
            ASSERT_LE(args.parts * args.kept.elements * sizeof(int64_t),
                      Slot::kMost * Slot::kBytes);
            ASSERT_LE(args.parts * args.columns_pack * kThreads / args.lanes *
                          sizeof(int64_t),
                      kColumnsPartBytes);
            ASSERT_LE(args.groups, Slot::kMostGroups);
          }
          ClaimSlot(slots_.get(), kTicket);
        }
        Launch<T>(args, blocks);
        ASSERT_EQ(out, want) << rows << " x " << columns << ", axes " << axes;
      }
    }
  }

  std::mt19937 random_{20261122};
  std::unique_ptr<Slot[]> slots_{new Slot[kSlots + kLeasedSlots]()};
  std::map<std::pair<ReduceKind, bool>, int> seen_;  // and whether in parts
};

// ANY and ALL of a lane, a few and none of whose elements are true.
TEST_F(ReduceTest, TruthsOfEveryKind) {
  for (const size_t count : {size_t{3}, size_t{64}, size_t{5'000}}) {
    for (const size_t odd : {size_t{0}, count / 2, count - 1, count}) {
      for (const uint32_t op : {DEVRT_REDUCE_ANY, DEVRT_REDUCE_ALL}) {
        const bool is_any = op == DEVRT_REDUCE_ANY;
        std::vector<float> in(count, is_any ? 0.f : 0.5f);
        if (odd < count) in[odd] = is_any ? 0.5f : 0.f;
        uint8_t out = 7;
        ReduceArgs args;
        const unsigned blocks = PackReduce(
            op, TensorOf(&out, DEVRT_BOOL, {1}),
            TensorOf(in.data(), DEVRT_FLOAT32, {static_cast<int64_t>(count)}),
            1, &args);
        args.ticket = kTicket;
        ClaimSlot(slots_.get(), kTicket);
        Launch<float>(args, blocks);
        TheSlot().owner = 0;
        EXPECT_EQ(out, (odd < count) == is_any ? 1 : 0)
            << "op " << op << ", " << count << " elements, odd " << odd;
      }
    }
  }
}

// A result must not depend on which block is last, nor on who has the slot.
TEST_F(ReduceTest, ResultDoesNotDependOnTheOrderOfParts) {
  struct Case {
    std::vector<int64_t> shape;
    uint32_t axes;
  };
  for (const Case& c :
       {Case{{300'001}, 1}, Case{{3, 70'000}, 2}, Case{{9'000, 33}, 1}}) {
    size_t count = 1;
    for (const int64_t extent : c.shape) count *= static_cast<size_t>(extent);
    const std::vector<float> in = Random(count);
    std::vector<float> forwards, backwards, alone;
    ReduceArgs args;
    for (const bool order : {false, true}) {
      std::vector<float>* const out = order ? &backwards : &forwards;
      const unsigned blocks =
          Pack(DEVRT_REDUCE_SUM, in, c.shape, c.axes, out, &args);
      ASSERT_GT(args.parts, 1u) << count;
      ClaimSlot(slots_.get(), kTicket);
      Launch<float>(args, blocks, order);
      EXPECT_EQ(TheSlot().owner, 0u) << "it is free again";
      EXPECT_EQ(TheSlot().done, 0u);
    }
    const unsigned blocks =
        Pack(DEVRT_REDUCE_SUM, in, c.shape, c.axes, &alone, &args);
    TheSlot().owner = kTicket + kSlots;  // of a call that still runs
    ClaimSlot(slots_.get(), kTicket);
    Launch<float>(args, blocks);
    EXPECT_EQ(TheSlot().owner, kTicket + kSlots) << "it stays the other's";
    TheSlot().owner = 0;
    EXPECT_EQ(forwards, backwards);
    EXPECT_EQ(forwards, alone);
  }
}

TEST_F(ReduceTest, TwoCallsInPartsDoNotMeet) {
  const std::vector<float> in = Random(200'000), other = Random(200'000);
  std::vector<float> want, other_want, out, other_out;
  ReduceArgs args, other_args;
  unsigned blocks = Pack(DEVRT_REDUCE_MAX, in, {200'000}, 1, &want, &args);
  ClaimSlot(slots_.get(), kTicket);
  Launch<float>(args, blocks);
  blocks = Pack(DEVRT_REDUCE_MAX, other, {200'000}, 1, &other_want, &args);
  ClaimSlot(slots_.get(), kTicket);
  Launch<float>(args, blocks);

  Pack(DEVRT_REDUCE_MAX, in, {200'000}, 1, &out, &args);
  Pack(DEVRT_REDUCE_MAX, other, {200'000}, 1, &other_out, &other_args);
  other_args.ticket = kTicket + kSlots;  // the same slot
  ClaimSlot(slots_.get(), args.ticket);
  ClaimSlot(slots_.get(), other_args.ticket);
  for (unsigned i = 0; i < blocks; ++i) {  // in turns
    RunBlock<float>(args, Block{i, blocks});
    RunBlock<float>(other_args, Block{i, blocks});
  }
  EXPECT_EQ(out, want);
  EXPECT_EQ(other_out, other_want);
  EXPECT_EQ(TheSlot().owner, 0u);
}

// A stream's own slot needs no claim, gives the same bits as a claimed one, and
// is ready for the next call.
TEST_F(ReduceTest, ALeasedSlotNeedsNoClaim) {
  const std::vector<float> in = Random(3 * 70'000);
  std::vector<float> want, out;
  ReduceArgs args;
  unsigned blocks = Pack(DEVRT_REDUCE_SUM, in, {3, 70'000}, 2, &want, &args);
  ASSERT_EQ(args.kind, ReduceKind::kAdjacent);
  ASSERT_GT(args.parts, 1u);
  ClaimSlot(slots_.get(), kTicket);
  Launch<float>(args, blocks);
  for (const bool order : {false, true}) {
    blocks = Pack(DEVRT_REDUCE_SUM, in, {3, 70'000}, 2, &out, &args);
    args.lease = kLeasedSlots;
    Launch<float>(args, blocks, order);
    EXPECT_EQ(out, want);
  }
  EXPECT_EQ(TheSlot().owner, 0u);
}

TEST(SlotLeasesTest, EachStreamHasASlotOfItsOwnWhileThereAreSome) {
  SlotLeases leases;
  std::set<uint32_t> seen;
  SlotLease streams[kLeasedSlots + 1];
  for (uint32_t i = 0; i < kLeasedSlots; ++i) {
    const uint32_t number = streams[i].Get(&leases);
    EXPECT_TRUE(number >= 1 && number <= kLeasedSlots) << number;
    EXPECT_EQ(streams[i].Get(&leases), number);
    EXPECT_TRUE(seen.insert(number).second) << number;
  }
  SlotLease& last = streams[kLeasedSlots];
  EXPECT_EQ(last.Get(&leases), 0u);
  EXPECT_FALSE(last.IsTaken());
  last.End(&leases);
  const uint32_t number = streams[5].Get(&leases);
  streams[5].End(&leases);
  SlotLease next;
  EXPECT_EQ(next.Get(&leases), number);
}

// The columns kernel loads several elements at once where every row begins at a
// multiple of them, and one by one elsewhere.
TEST_F(ReduceTest, UnalignedRowsAreReadByElement) {
  const std::vector<float> in(9 * 100);
  std::vector<float> out(8);
  for (const int64_t row : {8, 9}) {
    ReduceArgs args;
    PackReduce(DEVRT_REDUCE_SUM, TensorOf(out.data(), DEVRT_FLOAT32, {1, 8}),
               TensorOf(in.data(), DEVRT_FLOAT32, {100, 8}, {row * 4, 4}), 1,
               &args);
    EXPECT_EQ(args.columns_pack, row == 8 ? kColumnsPack<float> : 1);
  }
}

TEST_F(ReduceTest, IntegersAreExactInEveryShape) {
  SumIntegers<int32_t>(DEVRT_INT32);
  SumIntegers<int8_t>(DEVRT_INT8);
  for (const auto& way : {std::pair{ReduceKind::kColumns, false},
                          {ReduceKind::kColumns, true},
                          {ReduceKind::kAdjacent, false},
                          {ReduceKind::kAdjacent, true},
                          {ReduceKind::kShort, false}}) {
    EXPECT_GT(seen_[way], 0) << static_cast<int>(way.first) << way.second;
  }
}

// Rows of every length from every place in a pack: what lies outside of whole
// packs counts once, and what lies around the row does not.
TEST_F(ReduceTest, RowsBeginAndEndAnywhere) {
  std::vector<int8_t> in(1 << 17);
  for (int8_t& value : in) value = static_cast<int8_t>(random_());
  for (const int64_t columns : {32, 47, 63, 64, 500, 513, 600, 4'099}) {
    for (const int64_t gap : {0, 1, 7}) {
      for (const int64_t first : {0, 1, 15}) {
        constexpr int64_t kRows = 19;
        std::vector<int64_t> out(kRows, -1), want(kRows);
        for (int64_t i = 0; i < kRows * columns; ++i) {
          const int64_t row = i / columns;
          want[static_cast<size_t>(row)] +=
              in[static_cast<size_t>(first + i + row * gap)];
        }
        ReduceArgs args;
        const unsigned blocks = PackReduce(
            DEVRT_REDUCE_SUM, TensorOf(out.data(), DEVRT_INT64, {kRows, 1}),
            TensorOf(in.data() + first, DEVRT_INT8, {kRows, columns},
                     {columns + gap, 1}),
            2, &args);
        ASSERT_EQ(args.kind,
                  columns <= 512 ? ReduceKind::kShort : ReduceKind::kAdjacent);
        Launch<int8_t>(args, blocks);
        ASSERT_EQ(out, want) << columns << " after " << first << ", " << gap;
      }
    }
  }
}

// The adjacent kernel counts packs in 32 bits.  Results that share one row of
// 2^36 bytes are too many for parts.
TEST_F(ReduceTest, RowsOfTooManyPacksAreGathered) {
  alignas(16) static char in[16];  // is not read
  std::vector<int64_t> out(600);
  for (const int64_t bytes : {int64_t{1} << 34, int64_t{1} << 36}) {
    ReduceArgs args;
    PackReduce(DEVRT_REDUCE_SUM, TensorOf(out.data(), DEVRT_INT64, {600, 1}),
               TensorOf(in, DEVRT_INT8, {600, bytes}, {0, 1}), 2, &args);
    EXPECT_EQ(args.kind, bytes == int64_t{1} << 34 ? ReduceKind::kAdjacent
                                                   : ReduceKind::kGathered);
  }
}

// The slot's memory and a block's bound the parts, not the number of blocks
// that the tuning asks for: partial sums of integers are 64 bits wide, those of
// floats 32.
TEST_F(ReduceTest, PartsOfColumnsFitTheirMemory) {
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
    ASSERT_NE(args.columns_pack, 0u);
    const uint64_t of_slot = Slot::kMost * Slot::kBytes / (partial * columns);
    const uint64_t of_block = kColumnsPartBytes / (partial * args.columns_pack *
                                                   kThreads / args.lanes);
    EXPECT_EQ(args.parts, std::min(of_slot, of_block)) << std::hex << dtype;
  }
}

// Few blocks keep a device busy, but where they are too few parts there are
// twice as many.
TEST_F(ReduceTest, ColumnsHaveFewBlocksOrEnoughParts) {
  alignas(16) static char in[16];  // is not read
  std::vector<float> out(4096);
  for (const auto& [columns, parts] :
       {std::pair<int64_t, uint32_t>{1'024, 8}, {2'048, 4}, {3'200, 5}}) {
    ReduceArgs args;
    PackReduce(
        DEVRT_REDUCE_SUM, TensorOf(out.data(), DEVRT_FLOAT32, {1, columns}),
        TensorOf(in, DEVRT_FLOAT32, {int64_t{1} << 20, columns}), 1, &args);
    EXPECT_EQ(args.parts, parts) << columns;
  }
}

// One lane that takes all elements, which a sum in their order would lose.
TEST_F(ReduceTest, ALaneAloneIsAccurate) {
  const std::vector<float> in(1 << 21, 0.1f);
  std::vector<float> out;
  ReduceArgs args;
  Pack(DEVRT_REDUCE_SUM, in, {static_cast<int64_t>(in.size())}, 1, &out, &args);
  args.lanes = 1;
  args.parts = 1;
  args.part_elements = in.size();
  for (const ReduceKind kind : {ReduceKind::kGathered, ReduceKind::kAdjacent}) {
    args.kind = kind;
    Launch<float>(args, 1);
    const double exact = static_cast<double>(in.size()) * double{0.1f};
    EXPECT_NEAR(out[0], exact, 1e-6 * exact);
  }
}

}  // namespace
}  // namespace devrt::gpu
