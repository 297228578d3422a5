// SPDX-License-Identifier: Apache-2.0
//
// Pinned memory: what a cached allocation and its free cost, on mtia or where
// DEVRT_BENCH_DEVICE says.

#include <benchmark/benchmark.h>

#include <cstdint>

#include "bench/bench_support.h"
#include "bench/counted.h"
#include "tools/bench/sources.h"
#include "tools/bench/workloads.h"

namespace {

void PinnedPair(benchmark::State& state) {
  bench::PinnedMemory memory(bench::BenchDevice());
  {
    bench::AllocateFree pair(&memory, static_cast<uint64_t>(state.range(0)));
    for (auto _ : state) pair.RunOnce();
  }
  bench::Check(memory.error());
}
BENCHMARK(PinnedPair)
    ->Apply(bench::Counted)
    ->Arg(512)
    ->Arg(65536)
    ->Arg(3 << 20);

void PinnedMixed64(benchmark::State& state) {
  bench::PinnedMemory memory(bench::BenchDevice());
  {
    bench::MixedSizes mixed(&memory);
    for (auto _ : state) mixed.RunOnce();
  }
  bench::Check(memory.error());
}
BENCHMARK(PinnedMixed64)->Apply(bench::Counted);

}  // namespace
