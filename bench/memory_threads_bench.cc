// SPDX-License-Identifier: Apache-2.0
//
// The caching allocator on many threads, each on a stream of its own: what all
// of them get done beside what one does.  On mtia or where DEVRT_BENCH_DEVICE
// says.

#include <benchmark/benchmark.h>

#include <atomic>
#include <cstdint>

#include "bench/bench_support.h"
#include "tools/bench/sources.h"
#include "tools/bench/workloads.h"

namespace {

template <typename Body>
void Measure(benchmark::State& state, Body* body) {
  body->RunOnce();
  for (auto _ : state) body->RunOnce();
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()));
}

// What the machine itself gives to threads that share nothing: arithmetic, for
// which two threads of one core compete, and locked instructions, which mostly
// wait.
void OwnWorkThreads(benchmark::State& state) {
  uint64_t lanes[64] = {};
  for (auto _ : state) {
    for (uint64_t i = 0; i < 64; ++i) lanes[i] = lanes[i] * 5 + i;
    benchmark::DoNotOptimize(lanes);
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()));
}
BENCHMARK(OwnWorkThreads)->ThreadRange(1, 16)->UseRealTime();

void OwnLineThreads(benchmark::State& state) {
  alignas(64) std::atomic<uint64_t> own{0};
  for (auto _ : state) {
    for (int i = 0; i < 8; ++i) own.fetch_add(1);
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()));
}
BENCHMARK(OwnLineThreads)->ThreadRange(1, 16)->UseRealTime();

// All threads use blocks of one size.
void PairThreads(benchmark::State& state) {
  const devrt::Stream s =
      bench::Value(devrt::Stream::Create(bench::BenchDevice()));
  bench::CachedMemory memory(s);
  {
    bench::AllocateFree pair(&memory, 512);
    Measure(state, &pair);
  }
  bench::Check(memory.error());
}
BENCHMARK(PairThreads)->ThreadRange(1, 16)->UseRealTime();

// What is in use moves all the time, and with it the peak that all share.
void Mixed64Threads(benchmark::State& state) {
  const devrt::Stream s =
      bench::Value(devrt::Stream::Create(bench::BenchDevice()));
  bench::CachedMemory memory(s);
  {
    bench::MixedSizes mixed(&memory);
    Measure(state, &mixed);
  }
  bench::Check(memory.error());
}
BENCHMARK(Mixed64Threads)->ThreadRange(1, 16)->UseRealTime();

void PinnedPairThreads(benchmark::State& state) {
  bench::PinnedMemory memory(bench::BenchDevice());
  {
    bench::AllocateFree pair(&memory, 512);
    Measure(state, &pair);
  }
  bench::Check(memory.error());
}
BENCHMARK(PinnedPairThreads)->ThreadRange(1, 16)->UseRealTime();

}  // namespace
