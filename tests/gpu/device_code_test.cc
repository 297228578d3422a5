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
#include "backends/gpu/pack.h"
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

Barrier* g_block = nullptr;
Warp* g_warps = nullptr;
thread_local uint32_t g_exchanges = 0;

// Runs f(block) for each block in turn, in all threads of one.
void Launch(unsigned blocks, const std::function<void(const Block&)>& f) {
  Barrier block(kThreads);
  Warp warps[kThreads / kWarp];
  g_block = &block;
  g_warps = warps;
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&f, blocks, i] {
      threadIdx.x = i;
      for (unsigned k = 0; k < blocks; ++k) {
        f(Block{k, blocks});
        __syncthreads();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

template <typename TheTile>
void RunTiles(const FastApply& fast) {
  const auto shared = std::make_unique<typename TheTile::Shared>();
  Launch(fast.blocks, [&](const Block& block) {
    TheTile::Run(fast.tiles, block, shared.get());
  });
}

void RunTiles(const FastApply& fast) {
  uint32_t kernel = 0;
#define DEVRT_KERNEL_TILE(name, type, group, side) \
  if (kernel++ == fast.kernel) RunTiles<Tile<type, group, side>>(fast);
#define DEVRT_KERNEL_TURN(name, type, x, y, is_whole) \
  if (kernel++ == fast.kernel) RunTiles<Turn<type, x, y, is_whole>>(fast);
#include "backends/gpu/kernel_tiles.inc"
#undef DEVRT_KERNEL_TURN
#undef DEVRT_KERNEL_TILE
}

// A matrix whose rows have `gap` elements between them, `first` elements behind
// a word.
struct Place {
  int64_t first, gap;
};

// Copies the transpose of a matrix, and returns the kernel's name.
std::string Transpose(uint32_t dtype, int64_t rows, int64_t columns,
                      const Place& from, const Place& to) {
  const auto item = static_cast<int64_t>(tensor::DtypeSize(dtype));
  const int64_t in_row = columns + from.gap, out_row = rows + to.gap;
  constexpr int64_t kAround = 16;
  std::vector<uint8_t> in(
      static_cast<size_t>((rows * in_row + from.first) * item + 2 * kAround));
  std::vector<uint8_t> out(
      static_cast<size_t>((columns * out_row + to.first) * item + 2 * kAround),
      0xee);
  std::iota(in.begin(), in.end(), uint8_t{1});
  std::vector<uint8_t> want = out;
  for (int64_t i = 0; i < rows * columns; ++i) {
    const int64_t row = i / columns, column = i % columns;
    std::memcpy(&want[static_cast<size_t>(
                    kAround + (to.first + column * out_row + row) * item)],
                &in[static_cast<size_t>(
                    kAround + (from.first + row * in_row + column) * item)],
                static_cast<size_t>(item));
  }
  FastApply fast;
  ApplyArgs args;
  uint32_t kernel = 0;
  const auto tensor_at = [&](std::vector<uint8_t>& bytes, int64_t first,
                             const std::vector<int64_t>& strides) {
    return TensorOf(bytes.data() + kAround + first * item, dtype,
                    {columns, rows}, strides);
  };
  const Inputs inputs = {tensor_at(in, from.first, {item, in_row * item})};
  (void)PackApply(DEVRT_OP_COPY,
                  tensor_at(out, to.first, {out_row * item, item}), inputs,
                  &fast, &args, &kernel);
  EXPECT_EQ(fast.path, FastApply::Path::kTiles);
  RunTiles(fast);
  EXPECT_EQ(out, want) << rows << " x " << columns << " of " << item
                       << " bytes from " << from.first << " + " << from.gap
                       << " to " << to.first << " + " << to.gap;
  return kTileKernels[fast.kernel].name;
}

TEST(TransposeTest, RowsBeginAndEndAnywhere) {
  std::set<std::string> seen;
  for (const uint32_t dtype : {DEVRT_UINT8, DEVRT_UINT16}) {
    for (const auto& [rows, columns] : {std::pair{256, 128},
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
                                     {{0, 2}, {0, 2}}}) {
        seen.insert(Transpose(dtype, rows, columns, from, to));
      }
    }
  }
  EXPECT_EQ(seen, (std::set<std::string>{"1", "1_across", "2_across", "2x2"}));
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

void __syncthreads() { g_block->Wait(); }

uint32_t ExchangeInWarp(uint32_t word, uint32_t lane) {
  Warp* const warp = &g_warps[threadIdx.x / kWarp];
  uint32_t* const words = warp->words[g_exchanges++ % 2];
  words[threadIdx.x % kWarp] = word;
  warp->barrier.Wait();
  return words[lane];
}

}  // namespace devrt::gpu
