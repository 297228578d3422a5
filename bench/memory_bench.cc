// SPDX-License-Identifier: Apache-2.0
//
// The caching allocator on the simulated device: what a call costs that needs
// nothing from the driver.  bench/README.md has the bars.

#include <benchmark/benchmark.h>

#include <cstdint>
#include <random>
#include <vector>

#include "bench/bench_support.h"
#include "devrt/memory/device_memory.h"

namespace {

// Room for a million blocks, of which the simulator fills each fresh segment.
void Start() {
  static const bool started = [] {
    bench::Check(
        bench::Value(devrt::Simulator::Get("mtia")).Reset("memory=1GiB"));
    return true;
  }();
  benchmark::DoNotOptimize(started);
}

void* New(devrt::StreamRef s, uint64_t bytes) {
  absl::StatusOr<void*> made = devrt::AllocateMemory(s, bytes);
  if (!made.ok()) bench::Check(made.status());
  return *made;
}

void Pair(benchmark::State& state) {
  Start();
  devrt::Stream s = bench::Value(devrt::Stream::Create(bench::Gpu(0)));
  const uint64_t bytes = static_cast<uint64_t>(state.range(0));
  void* kept = New(s, bytes);
  for (auto _ : state) {
    void* x = New(s, bytes);
    bench::Check(devrt::FreeMemory(x));
  }
  bench::Check(devrt::FreeMemory(kept));
}
BENCHMARK(Pair)->Arg(512)->Arg(300'000)->Arg(1 << 20)->Arg(4 << 20);

// One free and one allocation a step, of sizes to half a MiB, small ones more
// often; 64 places.
void Mixed64(benchmark::State& state) {
  Start();
  devrt::Stream s = bench::Value(devrt::Stream::Create(bench::Gpu(0)));
  std::mt19937 random(7);
  constexpr size_t kSteps = 4096;
  std::vector<uint32_t> sizes(kSteps), places(kSteps);
  for (uint32_t& size : sizes) {
    size = 1 + static_cast<uint32_t>(random() % (1u << (8 + random() % 12)));
  }
  for (uint32_t& place : places) place = random() % 64;
  std::vector<void*> live(64, nullptr);
  size_t step = 0;
  for (auto _ : state) {
    void*& x = live[places[step % kSteps]];
    bench::Check(devrt::FreeMemory(x));
    x = New(s, sizes[step * 7 % kSteps]);
    ++step;
  }
  for (void* x : live) bench::Check(devrt::FreeMemory(x));
}
BENCHMARK(Mixed64);

// 512 bytes beside so many live blocks of the stream.  `random`: one of them
// goes and comes back, else one more comes and goes.
void BesideLive(benchmark::State& state) {
  Start();
  devrt::Stream s = bench::Value(devrt::Stream::Create(bench::Gpu(0)));
  std::vector<void*> live(static_cast<size_t>(state.range(0)));
  const bool any = state.range(1) != 0;
  for (void*& x : live) x = New(s, 512);
  std::mt19937 random(9);
  for (auto _ : state) {
    if (any) {
      void*& x = live[random() % live.size()];
      bench::Check(devrt::FreeMemory(x));
      x = New(s, 512);
    } else {
      bench::Check(devrt::FreeMemory(New(s, 512)));
    }
  }
  for (void* x : live) bench::Check(devrt::FreeMemory(x));
  bench::Check(s.Synchronize());
  bench::Check(devrt::EmptyCache(bench::Gpu(0)));
}
BENCHMARK(BesideLive)
    ->ArgNames({"live", "random"})
    ->Args({1'000, 0})
    ->Args({1'000'000, 0})
    ->Args({1'000, 1})
    ->Args({1'000'000, 1});

// Each thread on a stream of its own; the same sizes everywhere.
void PairThreads(benchmark::State& state) {
  if (state.thread_index() == 0) Start();
  devrt::Stream s = bench::Value(devrt::Stream::Create(bench::Gpu(0)));
  bench::Check(devrt::FreeMemory(New(s, 512)));
  for (auto _ : state) bench::Check(devrt::FreeMemory(New(s, 512)));
}
BENCHMARK(PairThreads)->ThreadRange(1, 16)->UseRealTime();

// A use on another stream, that is over before the free: the event at its
// submission, and the block's way back.
void PairWithMark(benchmark::State& state) {
  Start();
  devrt::Stream s = bench::Value(devrt::Stream::Create(bench::Gpu(0)));
  devrt::Stream other = bench::Value(devrt::Stream::Create(bench::Gpu(0)));
  for (auto _ : state) {
    void* x = New(s, 512);
    bench::Check(devrt::RecordStream(x, other));
    bench::Check(devrt::FreeMemory(x));
  }
}
BENCHMARK(PairWithMark);

}  // namespace
