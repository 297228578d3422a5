// SPDX-License-Identifier: Apache-2.0
//
// The device code of kernels that have other code for the host, with a host
// thread for each thread of a block: transposes by words, which are loaded with
// what lies around the elements, and reductions by shuffles.
#include <gtest/gtest.h>
#include <pthread.h>

#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "backends/gpu/adjacent_kernel.h"
#include "backends/gpu/columns_kernel.h"
#include "backends/gpu/pack.h"
#include "backends/gpu/rows_kernel.h"
#include "backends/gpu/turn_kernel.h"
#include "tests/gpu/device_threads.h"
#include "tests/gpu/tensors.h"

namespace devrt::gpu {
namespace {

struct Barrier {
  pthread_barrier_t barrier;
  explicit Barrier(unsigned threads) {
    pthread_barrier_init(&barrier, nullptr, threads);
  }
  ~Barrier() { pthread_barrier_destroy(&barrier); }
  void Wait() { pthread_barrier_wait(&barrier); }
};

struct Warp {
  Barrier barrier{kWarp};
  uint32_t words[2][kWarp];  // of exchanges in turns
};

thread_local uint32_t g_exchanges = 0;

// The threads of a block. They stay for all launches, because to start them
// takes longer than most of what they do.
class Threads {
 public:
  Threads() {
    for (uint32_t i = 0; i < kThreads; ++i) {
      threads_.emplace_back([this, i] {
        threadIdx.x = i;
        for (;;) {
          launch_.Wait();
          g_exchanges = 0;
          (*f_)();
          launch_.Wait();
        }
      });
    }
  }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

  // Calls f in all of them.
  void Run(const std::function<void()>& f) {
    f_ = &f;
    launch_.Wait();
    launch_.Wait();
  }

  Barrier block{kThreads};
  Warp warps[kThreads / kWarp];

 private:
  Barrier launch_{kThreads + 1};
  const std::function<void()>* f_ = nullptr;
  std::vector<std::thread> threads_;
};

Threads& TheThreads() {
  static auto* const threads = new Threads;  // they end with the process
  return *threads;
}

// Runs f(block) for each block in turn.
void Launch(unsigned blocks, const std::function<void(const Block&)>& f) {
  TheThreads().Run([&] {
    for (unsigned k = 0; k < blocks; ++k) {
      f(Block{k, blocks});
      __syncthreads();
    }
  });
}

// Waiting takes most of the test's time, so blocks have their shared memory by
// turns: the kernel itself waits for all threads once.
template <typename TheTile>
void RunTiles(const FastApply& fast) {
  const auto shared = std::make_unique<typename TheTile::Shared[]>(2);
  TheThreads().Run([&] {
    for (unsigned k = 0; k < fast.blocks; ++k) {
      TheTile::Run(fast.tiles, Block{k, fast.blocks}, &shared[k % 2]);
    }
  });
}

void RunTiles(const FastApply& fast) {
  uint32_t kernel = 0;
#define DEVRT_KERNEL_TILE(name, type, side) \
  if (kernel++ == fast.kernel) RunTiles<Tile<type, side>>(fast);
#define DEVRT_KERNEL_TURN(name, type, x, y, rows) \
  if (kernel++ == fast.kernel) RunTiles<Turn<type, x, y, TurnRows::rows>>(fast);
#include "backends/gpu/kernel_tiles.inc"
#undef DEVRT_KERNEL_TURN
#undef DEVRT_KERNEL_TILE
}

// A matrix whose rows have `gap` elements between them, `first` elements behind
// a word.
struct Place {
  int64_t first, gap;
};

// Returns where in memory that has 32 bytes more its first multiple of 32 is.
uint8_t* AlignedIn(std::vector<uint8_t>* bytes) {
  const auto at = reinterpret_cast<uintptr_t>(bytes->data());
  return bytes->data() + (32 - at % 32);
}

// Copies the transpose of a matrix, and returns the kernel's name.
std::string Transpose(uint32_t dtype, int64_t rows, int64_t columns,
                      const Place& from, const Place& to) {
  const auto item = static_cast<int64_t>(tensor::DtypeSize(dtype));
  const int64_t in_row = columns + from.gap, out_row = rows + to.gap;
  constexpr int64_t kAround = 64;
  std::vector<uint8_t> in(
      static_cast<size_t>((rows * in_row + from.first) * item + 2 * kAround));
  std::vector<uint8_t> out(
      static_cast<size_t>((columns * out_row + to.first) * item + 2 * kAround),
      0xee);
  std::iota(in.begin(), in.end(), uint8_t{1});
  std::vector<uint8_t> want = out;
  uint8_t* const in_first = AlignedIn(&in) + from.first * item;
  uint8_t* const out_first = AlignedIn(&out) + to.first * item;
  const int64_t out_begin = out_first - out.data();
  for (int64_t i = 0; i < rows * columns; ++i) {
    const int64_t row = i / columns, column = i % columns;
    std::memcpy(
        &want[static_cast<size_t>(out_begin + (column * out_row + row) * item)],
        in_first + (row * in_row + column) * item, static_cast<size_t>(item));
  }
  FastApply fast;
  ApplyArgs args;
  uint32_t kernel = 0;
  const Inputs inputs = {
      TensorOf(in_first, dtype, {columns, rows}, {item, in_row * item})};
  (void)PackApply(
      DEVRT_OP_COPY,
      TensorOf(out_first, dtype, {columns, rows}, {out_row * item, item}),
      inputs, &fast, &args, &kernel);
  EXPECT_EQ(fast.path, FastApply::Path::kTiles);
  RunTiles(fast);
  EXPECT_EQ(out, want) << rows << " x " << columns << " of " << item
                       << " bytes from " << from.first << " + " << from.gap
                       << " to " << to.first << " + " << to.gap;
  return kTileKernels[fast.kernel].name;
}

TEST(TransposeTest, RowsBeginAndEndAnywhere) {
  std::set<std::string> seen;
  for (const uint32_t dtype :
       {DEVRT_UINT8, DEVRT_UINT16, DEVRT_FLOAT32, DEVRT_FLOAT64}) {
    for (const auto& [rows, columns] : {std::pair{256, 128},
                                        {352, 65},
                                        {255, 131},
                                        {9, 300},
                                        {261, 10},
                                        {252, 9},
                                        {253, 9},
                                        {254, 9},
                                        {126, 8},
                                        {127, 8},
                                        {507, 9}}) {
      for (const auto& [from, to] : {std::pair<Place, Place>{{0, 0}, {0, 0}},
                                     {{1, 0}, {1, 3}},
                                     {{3, 1}, {2, 1}},
                                     {{3, 1}, {0, 3}},
                                     {{0, 2}, {0, 2}}}) {
        seen.insert(Transpose(dtype, rows, columns, from, to));
      }
    }
  }
  EXPECT_EQ(seen, (std::set<std::string>{"1", "1_any", "2", "2_any", "4",
                                         "4_any", "8", "8_any"}));
}

// Copies the rows of two matrices; both operands' rows begin anywhere.
void CopyWindow(uint32_t dtype, int64_t columns, const Place& from,
                const Place& to) {
  constexpr int64_t kMatrices = 2, kRows = 3, kAround = 16;
  const auto item = static_cast<int64_t>(tensor::DtypeSize(dtype));
  const auto strides_of = [&](const Place& place) {
    const int64_t row = (columns + place.gap) * item;
    return std::vector<int64_t>{row * kRows + item, row, item};
  };
  const std::vector<int64_t> in_strides = strides_of(from);
  const std::vector<int64_t> out_strides = strides_of(to);
  const auto bytes_of = [&](const std::vector<int64_t>& strides) {
    return static_cast<size_t>(kMatrices * strides[0] + 4 * kAround);
  };
  std::vector<uint8_t> in(bytes_of(in_strides));
  std::vector<uint8_t> out(bytes_of(out_strides), 0xee);
  std::iota(in.begin(), in.end(), uint8_t{1});
  const int64_t in_first = kAround + from.first * item;
  const int64_t out_first = kAround + to.first * item;
  std::vector<uint8_t> want = out;
  for (int64_t i = 0; i < kMatrices * kRows; ++i) {
    const int64_t matrix = i / kRows, row = i % kRows;
    std::memcpy(&want[static_cast<size_t>(out_first + matrix * out_strides[0] +
                                          row * out_strides[1])],
                &in[static_cast<size_t>(in_first + matrix * in_strides[0] +
                                        row * in_strides[1])],
                static_cast<size_t>(columns * item));
  }
  FastApply fast;
  ApplyArgs args;
  uint32_t kernel = 0;
  const std::vector<int64_t> shape = {kMatrices, kRows, columns};
  const Inputs inputs = {
      TensorOf(in.data() + in_first, dtype, shape, in_strides)};
  (void)PackApply(DEVRT_OP_COPY,
                  TensorOf(out.data() + out_first, dtype, shape, out_strides),
                  inputs, &fast, &args, &kernel);
  EXPECT_EQ(fast.path, FastApply::Path::kShift);
  for (unsigned i = 0; i < fast.blocks; ++i) {
    for (uint32_t t = 0; t < kThreads; ++t) ShiftThread(fast.rows, i, t);
  }
  EXPECT_EQ(out, want) << columns << " of " << item << " bytes from "
                       << from.first << " + " << from.gap << " to " << to.first
                       << " + " << to.gap;
}

TEST(WindowTest, RowsBeginAndEndAnywhere) {
  for (const uint32_t dtype : {DEVRT_UINT8, DEVRT_UINT16, DEVRT_FLOAT32}) {
    for (const int64_t columns : {1024, 1031, 8191, 8193}) {
      for (const auto& [from, to] : {std::pair<Place, Place>{{1, 0}, {0, 3}},
                                     {{1, 64}, {0, 0}},
                                     {{3, 1}, {1, 1}},
                                     {{0, 7}, {7, 5}}}) {
        CopyWindow(dtype, columns, from, to);
      }
    }
  }
}

// Small integers, whose sums are exact in floats.
template <typename T>
std::vector<T> Numbers(int64_t count) {
  std::vector<T> numbers(static_cast<size_t>(count));
  for (size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = static_cast<T>(i * 7 % 13) - 5;
  }
  return numbers;
}

enum class Slots { kClaimed, kLeased, kOfAnother };

// Sums rows and compares.  Returns the arguments of the launch.
template <typename T>
ReduceArgs SumRows(uint32_t dtype, int64_t rows, int64_t columns,
                   Slots kind = Slots::kClaimed) {
  constexpr uint32_t kTicket = 5;
  const std::vector<T> in = Numbers<T>(rows * columns);
  std::vector<T> out(static_cast<size_t>(rows), -1), want(out.size());
  for (size_t i = 0; i < in.size(); ++i) {
    want[i / static_cast<size_t>(columns)] += in[i];
  }
  ReduceTuning tuning;
  tuning.adjacent_float_blocks = 3;  // few, for a quick test
  ReduceArgs args;
  const unsigned blocks =
      PackReduce(DEVRT_REDUCE_SUM, TensorOf(out.data(), dtype, {rows, 1}),
                 TensorOf(in.data(), dtype, {rows, columns}), 2, &args, tuning);
  args.ticket = kTicket;
  if (kind == Slots::kLeased) args.lease = 1;
  const std::unique_ptr<Slot[]> slots(new Slot[kSlots + kLeasedSlots]());
  slots[kTicket].owner = kind == Slots::kOfAnother ? kTicket + kSlots : kTicket;
  const auto shared = std::make_unique<AdjacentShared<T, tensor::Add>>();
  Launch(blocks, [&](const Block& block) {
    if (args.kind == ReduceKind::kShort) {
      ShortBlock<T, tensor::Add>(args, block, nullptr);
    } else {
      AdjacentBlock<T, tensor::Add>(args, block, slots.get(), shared.get());
    }
  });
  EXPECT_EQ(out, want) << rows << " x " << columns;
  return args;
}

TEST(AdjacentTest, LanesOfEveryNumber) {
  std::set<uint32_t> lanes;
  for (const int64_t columns : {129, 300, 601, 1'100, 2'050, 4'099, 8'193}) {
    lanes.insert(SumRows<float>(DEVRT_FLOAT32, 5, columns).lanes);
  }
  EXPECT_EQ(lanes, (std::set<uint32_t>{4, 8, 16, 32, 64, 128, 256}));
  EXPECT_EQ(SumRows<double>(DEVRT_FLOAT64, 3, 4'097).lanes, kThreads);
}

TEST(AdjacentTest, PartsInEverySlot) {
  for (const Slots kind :
       {Slots::kClaimed, Slots::kLeased, Slots::kOfAnother}) {
    const ReduceArgs args = SumRows<float>(DEVRT_FLOAT32, 1, 20'003, kind);
    EXPECT_EQ(args.kind, ReduceKind::kAdjacent);
    EXPECT_GT(args.parts, 1u);
  }
}

// Whole packs are loaded, with what lies around a row.
TEST(ColumnsTest, PartsInEverySlot) {
  constexpr uint32_t kTicket = 5;
  constexpr int64_t kRows = 20'000, kColumns = 3, kRow = kColumns + 2;
  const std::vector<float> in = Numbers<float>(kRows * kRow + 8);
  std::vector<float> want(kColumns);
  for (int64_t i = 0; i < kRows * kColumns; ++i) {
    want[static_cast<size_t>(i % kColumns)] +=
        in[static_cast<size_t>(4 + i / kColumns * kRow + i % kColumns)];
  }
  for (const Slots kind :
       {Slots::kClaimed, Slots::kLeased, Slots::kOfAnother}) {
    std::vector<float> out(kColumns, -1);
    ReduceArgs args;
    const unsigned blocks = PackReduce(
        DEVRT_REDUCE_SUM, TensorOf(out.data(), DEVRT_FLOAT32, {1, kColumns}),
        TensorOf(in.data() + 4, DEVRT_FLOAT32, {kRows, kColumns},
                 {kRow * 4, 4}),
        1, &args);
    ASSERT_EQ(args.kind, ReduceKind::kColumns);
    ASSERT_GT(args.parts, 1u);
    args.ticket = kTicket;
    if (kind == Slots::kLeased) args.lease = ColumnsSlot::kLeased;
    const std::unique_ptr<ColumnsSlot[]> slots(
        new ColumnsSlot[ColumnsSlot::kCount + ColumnsSlot::kLeased]());
    slots[kTicket].owner = kind == Slots::kOfAnother ? kTicket + 8 : kTicket;
    const auto shared = std::make_unique<ColumnsShared<float>>();
    Launch(blocks, [&](const Block& block) {
      ColumnsBlock<float>(args, block, slots.get(), shared.get());
    });
    EXPECT_EQ(out, want);
  }
}

TEST(ShortTest, LanesOfEveryNumber) {
  std::set<uint32_t> lanes;
  for (const int64_t columns : {9, 13, 30, 64, 126}) {
    const ReduceArgs args = SumRows<float>(DEVRT_FLOAT32, 67, columns);
    EXPECT_EQ(args.kind, ReduceKind::kShort);
    lanes.insert(args.lanes);
  }
  EXPECT_EQ(lanes, (std::set<uint32_t>{2, 4, 8, 16, 32}));
}

}  // namespace

void __syncthreads() { TheThreads().block.Wait(); }

uint32_t ExchangeInWarp(uint32_t word, uint32_t lane) {
  Warp* const warp = &TheThreads().warps[threadIdx.x / kWarp];
  uint32_t* const words = warp->words[g_exchanges++ % 2];
  words[threadIdx.x % kWarp] = word;
  warp->barrier.Wait();
  return words[lane];
}

}  // namespace devrt::gpu
