// SPDX-License-Identifier: Apache-2.0
//
// c10's CUDACachingAllocator, the peer of memory_bench.cc and traces_bench.cc:
// the same rows, on streams of c10's pool.  It takes a PyTorch with CUDA.

#include <ATen/Context.h>
#include <benchmark/benchmark.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>

#include <cstdint>
#include <random>
#include <vector>

#include "bench/trace_file.h"

namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

constexpr double kMiB = 1 << 20;

c10::cuda::CUDAStream NewStream() {
  at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);
  return c10::cuda::getStreamFromPool(false, 0);
}

void C10Pair(benchmark::State& state) {
  const c10::cuda::CUDAStream stream = NewStream();
  const size_t bytes = static_cast<size_t>(state.range(0));
  void* kept = allocator::raw_alloc_with_stream(bytes, stream);
  for (auto _ : state) {
    allocator::raw_delete(allocator::raw_alloc_with_stream(bytes, stream));
  }
  allocator::raw_delete(kept);
}
BENCHMARK(C10Pair)->Arg(512)->Arg(300'000)->Arg(1 << 20)->Arg(4 << 20);

// One free and one allocation a step, as Mixed64.
void C10Mixed64(benchmark::State& state) {
  const c10::cuda::CUDAStream stream = NewStream();
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
    void*& block = live[places[step]];
    if (block != nullptr) allocator::raw_delete(block);
    block = allocator::raw_alloc_with_stream(sizes[step], stream);
    step = (step + 1) % kSteps;
  }
  for (void* block : live) {
    if (block != nullptr) allocator::raw_delete(block);
  }
}
BENCHMARK(C10Mixed64);

void Play(const bench::Trace& trace,
          const std::vector<c10::cuda::CUDAStream>& streams,
          std::vector<void*>* blocks) {
  for (const bench::TraceCall& call : trace.calls) {
    void*& block = (*blocks)[call.block];
    if (call.is_allocation) {
      block =
          allocator::raw_alloc_with_stream(call.bytes, streams[call.stream]);
    } else {
      allocator::raw_delete(block);
      block = nullptr;
    }
  }
  for (void*& block : *blocks) {
    if (block != nullptr) allocator::raw_delete(block);
    block = nullptr;
  }
}

void C10TraceOf(benchmark::State& state, const char* name) {
  const bench::Trace trace = bench::ReadTrace(bench::TracePath(name));
  std::vector<c10::cuda::CUDAStream> streams;
  for (uint32_t i = 0; i < trace.streams; ++i) streams.push_back(NewStream());
  std::vector<void*> blocks(trace.blocks, nullptr);
  allocator::emptyCache();
  allocator::resetPeakStats(0);
  Play(trace, streams, &blocks);  // fills the cache
  const auto cold = allocator::getDeviceStats(0);
  for (auto _ : state) Play(trace, streams, &blocks);
  state.SetItemsProcessed(state.iterations() *
                          static_cast<int64_t>(trace.calls.size()));
  // The first of each is the sum over both pools.
  state.counters["reserved_MiB"] =
      static_cast<double>(cold.reserved_bytes[0].peak) / kMiB;
  state.counters["allocated_MiB"] =
      static_cast<double>(cold.allocated_bytes[0].peak) / kMiB;
  state.counters["segments"] = static_cast<double>(cold.segment[0].peak);
}
BENCHMARK_CAPTURE(C10TraceOf, training, "training");
BENCHMARK_CAPTURE(C10TraceOf, inference, "inference");
BENCHMARK_CAPTURE(C10TraceOf, mixed, "mixed");

}  // namespace
