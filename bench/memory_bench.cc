// SPDX-License-Identifier: Apache-2.0
//
// The caching allocator: what a call costs that needs nothing from the driver,
// on mtia or where DEVRT_BENCH_DEVICE says.  bench/README.md has the bars.

#include <benchmark/benchmark.h>

#include <cstdint>

#include "bench/bench_support.h"
#include "bench/counted.h"
#include "devrt/memory/device_memory.h"
#include "tools/bench/sources.h"
#include "tools/bench/workloads.h"

namespace {

devrt::Stream NewStream() {
  return bench::Value(devrt::Stream::Create(bench::BenchDevice()));
}

void Pair(benchmark::State& state) {
  const devrt::Stream s = NewStream();
  bench::CachedMemory memory(s);
  {
    bench::AllocateFree pair(&memory, static_cast<uint64_t>(state.range(0)));
    for (auto _ : state) pair.RunOnce();
  }
  bench::Check(memory.error());
}
BENCHMARK(Pair)
    ->Apply(bench::Counted)
    ->Arg(512)
    ->Arg(300'000)
    ->Arg(1 << 20)
    ->Arg(4 << 20);

void Mixed64(benchmark::State& state) {
  const devrt::Stream s = NewStream();
  bench::CachedMemory memory(s);
  {
    bench::MixedSizes mixed(&memory);
    for (auto _ : state) mixed.RunOnce();
  }
  bench::Check(memory.error());
}
BENCHMARK(Mixed64)->Apply(bench::Counted);

void BesideLive(benchmark::State& state) {
  const devrt::Stream s = NewStream();
  bench::CachedMemory memory(s);
  {
    bench::BesideLiveBlocks beside(&memory, static_cast<size_t>(state.range(0)),
                                   state.range(1) != 0);
    for (auto _ : state) beside.RunOnce();
  }
  bench::Check(memory.error());
  bench::Check(s.Synchronize());
  bench::Check(devrt::EmptyCache(s.device()));
}
BENCHMARK(BesideLive)
    ->Apply(bench::Counted)
    ->ArgNames({"live", "random"})
    ->Args({1'000, 0})
    ->Args({1'000'000, 0})
    ->Args({1'000, 1})
    ->Args({1'000'000, 1});

// A use on another stream, that is over before the free: the event at its
// submission, and the block's way back.
void PairWithMark(benchmark::State& state) {
  const devrt::Stream s = NewStream();
  const devrt::Stream other = NewStream();
  bench::CachedMemory memory(s);
  for (auto _ : state) {
    void* x = memory.New(512);
    bench::Check(devrt::RecordStream(x, other));
    memory.Delete(x, 512);
  }
  bench::Check(memory.error());
}
BENCHMARK(PairWithMark)->Apply(bench::Counted);

// There and back: two passes, each with a wait for an event.
void BetweenStreams(benchmark::State& state) {
  const devrt::Stream a = NewStream();
  const devrt::Stream b = NewStream();
  bench::PassedBetweenStreams passed(a, b);
  for (auto _ : state) passed.RunOnce();
  bench::Check(passed.error());
  state.counters["other_blocks"] = static_cast<double>(passed.others());
  bench::Check(a.Synchronize());
  bench::Check(b.Synchronize());
}
BENCHMARK(BetweenStreams)->Apply(bench::Counted);

}  // namespace
