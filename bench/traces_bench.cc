// SPDX-License-Identifier: Apache-2.0
//
// The traces on the caching allocator: time a call, and how much was reserved
// for what was in use.  DEVRT_BENCH_DEVICE names the device (mtia:0).

#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "bench/bench_support.h"
#include "bench/trace_file.h"
#include "devrt/memory/device_memory.h"
#include "devrt/memory/statistics.h"

namespace {

devrt::Device TheDevice() {
  const char* name = std::getenv("DEVRT_BENCH_DEVICE");
  if (name != nullptr) return bench::Value(devrt::GetDevice(name));
  static const bool started = [] {
    bench::Check(
        bench::Value(devrt::Simulator::Get("mtia")).Reset("memory=4GiB"));
    return true;
  }();
  benchmark::DoNotOptimize(started);
  return bench::Gpu(0);
}

void Play(const bench::Trace& trace, const std::vector<devrt::Stream>& streams,
          std::vector<void*>* blocks) {
  for (const bench::TraceCall& call : trace.calls) {
    void*& block = (*blocks)[call.block];
    if (call.is_allocation) {
      block =
          bench::Value(devrt::AllocateMemory(streams[call.stream], call.bytes));
    } else {
      bench::Check(devrt::FreeMemory(block));
      block = nullptr;
    }
  }
  for (void*& block : *blocks) {
    bench::Check(devrt::FreeMemory(block));
    block = nullptr;
  }
}

void TraceOf(benchmark::State& state, const char* name) {
  const devrt::Device device = TheDevice();
  const bench::Trace trace = bench::ReadTrace(bench::TracePath(name));
  std::vector<devrt::Stream> streams;
  for (uint32_t i = 0; i < trace.streams; ++i) {
    streams.push_back(bench::Value(devrt::Stream::Create(device)));
  }
  std::vector<void*> blocks(trace.blocks, nullptr);
  bench::Check(devrt::EmptyCache(device));
  devrt::ResetPeakMemoryStatistics(device);
  Play(trace, streams, &blocks);  // fills the cache
  const devrt::MemoryStatistics cold = devrt::GetMemoryStatistics(device);
  for (auto _ : state) Play(trace, streams, &blocks);
  constexpr double kMiB = 1 << 20;
  state.SetItemsProcessed(state.iterations() *
                          static_cast<int64_t>(trace.calls.size()));
  state.counters["reserved_MiB"] =
      static_cast<double>(cold.reserved_bytes.all.peak) / kMiB;
  state.counters["allocated_MiB"] =
      static_cast<double>(cold.allocated_bytes.all.peak) / kMiB;
  state.counters["segments"] = static_cast<double>(cold.segment.all.peak);
  for (const devrt::Stream& stream : streams) {
    bench::Check(stream.Synchronize());
  }
  bench::Check(devrt::EmptyCache(device));
}
BENCHMARK_CAPTURE(TraceOf, training, "training");
BENCHMARK_CAPTURE(TraceOf, inference, "inference");
BENCHMARK_CAPTURE(TraceOf, mixed, "mixed");

}  // namespace
