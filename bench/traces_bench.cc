// SPDX-License-Identifier: Apache-2.0
//
// The traces on the caching allocator: time a call, and how much was reserved
// for what was in use.  DEVRT_BENCH_DEVICE names the device (mtia:0).

#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "bench/bench_support.h"
#include "bench/trace_file.h"
#include "devrt/memory/device_memory.h"
#include "devrt/memory/statistics.h"
#include "tools/bench/sources.h"
#include "tools/bench/workloads.h"

namespace {

void TraceOf(benchmark::State& state, const char* name) {
  const devrt::Device device = bench::BenchDevice();
  const bench::Trace trace = bench::ReadTrace(bench::TracePath(name));
  std::vector<devrt::Stream> streams;
  std::vector<bench::CachedMemory> memories;
  for (uint32_t i = 0; i < trace.streams; ++i) {
    streams.push_back(bench::Value(devrt::Stream::Create(device)));
    memories.emplace_back(streams.back());
  }
  bench::TracePlayer player(&memories, trace.calls.data(), trace.calls.size(),
                            trace.blocks);
  bench::Check(devrt::EmptyCache(device));
  devrt::ResetPeakMemoryStatistics(device);
  player.RunOnce();  // fills the cache
  const devrt::MemoryStatistics cold = devrt::GetMemoryStatistics(device);
  for (auto _ : state) player.RunOnce();
  constexpr double kMiB = 1 << 20;
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()) *
                          static_cast<int64_t>(trace.calls.size()));
  state.counters["reserved_MiB"] =
      static_cast<double>(cold.reserved_bytes.all.peak) / kMiB;
  state.counters["allocated_MiB"] =
      static_cast<double>(cold.allocated_bytes.all.peak) / kMiB;
  state.counters["segments"] = static_cast<double>(cold.segment.all.peak);
  for (const bench::CachedMemory& memory : memories) {
    bench::Check(memory.error());
  }
  for (const devrt::Stream& stream : streams) {
    bench::Check(stream.Synchronize());
  }
  bench::Check(devrt::EmptyCache(device));
}
BENCHMARK_CAPTURE(TraceOf, training, "training");
BENCHMARK_CAPTURE(TraceOf, inference, "inference");
BENCHMARK_CAPTURE(TraceOf, mixed, "mixed");

}  // namespace
