// SPDX-License-Identifier: Apache-2.0
#include "backends/gpu/reduce_kernel.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "backends/gpu/pack.h"
#include "backends/gpu/slot_leases.h"
#include "tests/gpu/reduce_fixture.h"
#include "tests/gpu/tensors.h"

namespace devrt::gpu {
namespace {

class IntegersTest : public ReduceTest {
 protected:
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
                      ColumnsSlot::kBytes);
            ASSERT_LE(args.groups, ColumnsSlot::kMostGroups);
          }
          Claim(kTicket);
        }
        Launch<T>(args, blocks);
        ASSERT_EQ(out, want) << rows << " x " << columns << ", axes " << axes;
      }
    }
  }
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
        Claim(kTicket);
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
      Claim(kTicket);
      Launch<float>(args, blocks, order);
      const bool in_columns = args.kind == ReduceKind::kColumns;
      EXPECT_EQ(in_columns ? TheColumnsSlot().owner : TheSlot().owner, 0u)
          << "it is free again";
      EXPECT_EQ(in_columns ? TheColumnsSlot().done : TheSlot().done, 0u);
      GiveSlotsTo(0);
    }
    const unsigned blocks =
        Pack(DEVRT_REDUCE_SUM, in, c.shape, c.axes, &alone, &args);
    GiveSlotsTo(kTicket + kSlots);
    Claim(kTicket);
    Launch<float>(args, blocks);
    EXPECT_EQ(TheSlot().owner, kTicket + kSlots) << "it stays the other's";
    EXPECT_EQ(TheColumnsSlot().owner, kTicket + kSlots);
    GiveSlotsTo(0);
    EXPECT_EQ(forwards, backwards);
    EXPECT_EQ(forwards, alone);
  }
}

TEST_F(ReduceTest, TwoCallsInPartsDoNotMeet) {
  const std::vector<float> in = Random(200'000), other = Random(200'000);
  std::vector<float> want, other_want, out, other_out;
  ReduceArgs args, other_args;
  unsigned blocks = Pack(DEVRT_REDUCE_MAX, in, {200'000}, 1, &want, &args);
  Claim(kTicket);
  Launch<float>(args, blocks);
  blocks = Pack(DEVRT_REDUCE_MAX, other, {200'000}, 1, &other_want, &args);
  Claim(kTicket);
  Launch<float>(args, blocks);

  Pack(DEVRT_REDUCE_MAX, in, {200'000}, 1, &out, &args);
  Pack(DEVRT_REDUCE_MAX, other, {200'000}, 1, &other_out, &other_args);
  other_args.ticket = kTicket + kSlots;  // the same slot
  Claim(args.ticket);
  Claim(other_args.ticket);
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
  for (const uint32_t axes : {2u, 1u}) {
    const std::vector<int64_t> shape = axes == 2
                                           ? std::vector<int64_t>{3, 70'000}
                                           : std::vector<int64_t>{70'000, 3};
    std::vector<float> want, out;
    ReduceArgs args;
    unsigned blocks = Pack(DEVRT_REDUCE_SUM, in, shape, axes, &want, &args);
    ASSERT_EQ(args.kind,
              axes == 2 ? ReduceKind::kAdjacent : ReduceKind::kColumns);
    ASSERT_GT(args.parts, 1u);
    Claim(kTicket);
    Launch<float>(args, blocks);
    GiveSlotsTo(0);
    for (const bool order : {false, true}) {
      blocks = Pack(DEVRT_REDUCE_SUM, in, shape, axes, &out, &args);
      args.lease = LeasesOf(args.kind);
      Launch<float>(args, blocks, order);
      EXPECT_EQ(out, want);
    }
    EXPECT_EQ(TheSlot().owner, 0u);
    EXPECT_EQ(TheColumnsSlot().owner, 0u);
  }
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

TEST_F(IntegersTest, AreExactInEveryShape) {
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

// What lies around a row of a few elements is left out of every operation: here
// it is what would change the result.
TEST_F(ReduceTest, ShortRowsLeaveOutWhatIsAround) {
  struct Case {
    uint32_t op, dtype;
    int16_t inside, around;
  };
  for (const Case& c : {Case{DEVRT_REDUCE_SUM, DEVRT_INT64, 3, 7},
                        {DEVRT_REDUCE_PROD, DEVRT_INT64, 1, 7},
                        {DEVRT_REDUCE_MIN, DEVRT_INT64, 3, -7},
                        {DEVRT_REDUCE_MAX, DEVRT_INT64, -3, 7},
                        {DEVRT_REDUCE_ANY, DEVRT_BOOL, 0, 7},
                        {DEVRT_REDUCE_ALL, DEVRT_BOOL, 3, 0}}) {
    for (const int64_t columns : {17, 33, 63, 250}) {
      constexpr int64_t kRows = 9;
      const int64_t row = columns + 3;
      std::vector<int16_t> in(static_cast<size_t>(kRows * row + 16), c.around);
      for (int64_t i = 0; i < kRows * columns; ++i) {
        in[static_cast<size_t>(5 + i / columns * row + i % columns)] = c.inside;
      }
      std::vector<int64_t> out(kRows, -1);
      const bool is_same = c.op == DEVRT_REDUCE_MIN || c.op == DEVRT_REDUCE_MAX;
      ReduceArgs args;
      const unsigned blocks = PackReduce(
          c.op,
          TensorOf(out.data(), is_same ? uint32_t{DEVRT_INT16} : c.dtype,
                   {kRows, 1}, {8, 8}),
          TensorOf(in.data() + 5, DEVRT_INT16, {kRows, columns}, {row * 2, 2}),
          2, &args);
      ASSERT_EQ(args.kind, ReduceKind::kShort);
      Launch<int16_t>(args, blocks);
      int64_t want = c.inside;
      if (c.op == DEVRT_REDUCE_SUM) want *= columns;
      if (c.dtype == DEVRT_BOOL) want = c.inside != 0 ? 1 : 0;
      for (const int64_t& result : out) {
        const int64_t got = c.dtype == DEVRT_BOOL
                                ? reinterpret_cast<const uint8_t&>(result)
                            : is_same ? reinterpret_cast<const int16_t&>(result)
                                      : result;
        EXPECT_EQ(got, want) << "op " << c.op << ", " << columns;
      }
    }
  }
}

// Rows of every length from every place in a pack: what lies outside of whole
// packs counts once, and what lies around the row does not.
class RowsTest : public ReduceTest {
 protected:
  template <typename T, typename Sum>
  void SumRows(uint32_t dtype, uint32_t sum_dtype) {
    constexpr int64_t kRows = 19, kItem = sizeof(T), kPack = 16 / kItem;
    std::vector<T> in(1 << 17);
    // Exact in float, also the sums.
    for (T& value : in) value = static_cast<T>(static_cast<int8_t>(random_()));
    for (const int64_t columns :
         {32 / kItem, 44 / kItem, int64_t{47}, 60 / kItem, int64_t{63},
          int64_t{64}, 500 / kItem, 520 / kItem, int64_t{4'099}}) {
      if (columns * kItem < 32) continue;
      for (const int64_t gap : {0, 1, 7}) {
        for (const int64_t first : {int64_t{0}, int64_t{1}, kPack - 1}) {
          std::vector<Sum> out(kRows, -1), want(kRows);
          for (int64_t i = 0; i < kRows * columns; ++i) {
            const int64_t row = i / columns;
            want[static_cast<size_t>(row)] += static_cast<Sum>(
                in[static_cast<size_t>(first + i + row * gap)]);
          }
          ReduceArgs args;
          const unsigned blocks = PackReduce(
              DEVRT_REDUCE_SUM, TensorOf(out.data(), sum_dtype, {kRows, 1}),
              TensorOf(in.data() + first, dtype, {kRows, columns},
                       {(columns + gap) * kItem, kItem}),
              2, &args);
          ASSERT_EQ(args.kind, columns * kItem <= 512 ? ReduceKind::kShort
                                                      : ReduceKind::kAdjacent);
          Launch<T>(args, blocks);
          ASSERT_EQ(out, want) << columns << " after " << first << ", " << gap;
        }
      }
    }
  }
};
TEST_F(RowsTest, OfInt8) { SumRows<int8_t, int64_t>(DEVRT_INT8, DEVRT_INT64); }
TEST_F(RowsTest, OfInt32) {
  SumRows<int32_t, int64_t>(DEVRT_INT32, DEVRT_INT64);
}
TEST_F(RowsTest, OfFloat32) {
  SumRows<float, float>(DEVRT_FLOAT32, DEVRT_FLOAT32);
}
TEST_F(RowsTest, OfFloat64) {
  SumRows<double, double>(DEVRT_FLOAT64, DEVRT_FLOAT64);
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
