// SPDX-License-Identifier: Apache-2.0
//
// c10's CUDACachingAllocator and ATen's CachingHostAllocator, the peers of
// memory_bench.cc, memory_threads_bench.cc, pinned_bench.cc and
// traces_bench.cc: the same rows, on streams of c10's pool.  It takes a PyTorch
// with CUDA; scripts/gpu-check builds it with one from PyPI.

#include <ATen/Context.h>
#include <ATen/core/CachingHostAllocator.h>
#include <benchmark/benchmark.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>

#include <cstdint>
#include <vector>

#include "bench/trace_file.h"
#include "tools/bench/workloads.h"

namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

constexpr double kMiB = 1 << 20;

c10::cuda::CUDAStream NewStream() {
  at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);
  return c10::cuda::getStreamFromPool(false, 0);
}

// It throws where there is no room, which ends the program.
class C10Memory {
 public:
  C10Memory() : stream_(NewStream()) {}

  void* New(uint64_t bytes) {
    return allocator::raw_alloc_with_stream(bytes, stream_.stream());
  }
  void Delete(void* block, uint64_t) {
    if (block != nullptr) allocator::raw_delete(block);
  }

 private:
  c10::cuda::CUDAStream stream_;
};

// A block is its context, which is what its free takes.
class C10PinnedMemory {
 public:
  C10PinnedMemory() {
    at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);
    host_ = at::getHostAllocator(at::kCUDA);
  }

  void* New(uint64_t bytes) {
    at::DataPtr made = host_->allocate(bytes);
    free_ = made.get_deleter();
    return made.release_context();
  }
  void Delete(void* block, uint64_t) {
    if (block != nullptr) free_(block);
  }

 private:
  at::Allocator* host_;
  at::DeleterFnPtr free_ = nullptr;
};

void C10Pair(benchmark::State& state) {
  C10Memory memory;
  bench::AllocateFree pair(&memory, static_cast<uint64_t>(state.range(0)));
  for (auto _ : state) pair.RunOnce();
}
BENCHMARK(C10Pair)->Arg(512)->Arg(300'000)->Arg(1 << 20)->Arg(4 << 20);

void C10Mixed64(benchmark::State& state) {
  C10Memory memory;
  bench::MixedSizes mixed(&memory);
  for (auto _ : state) mixed.RunOnce();
}
BENCHMARK(C10Mixed64);

void C10BesideLive(benchmark::State& state) {
  {
    C10Memory memory;
    bench::BesideLiveBlocks beside(&memory, static_cast<size_t>(state.range(0)),
                                   state.range(1) != 0);
    for (auto _ : state) beside.RunOnce();
  }
  allocator::emptyCache();
}
BENCHMARK(C10BesideLive)
    ->ArgNames({"live", "random"})
    ->Args({1'000, 0})
    ->Args({1'000'000, 0})
    ->Args({1'000, 1})
    ->Args({1'000'000, 1});

void C10PinnedPair(benchmark::State& state) {
  C10PinnedMemory memory;
  bench::AllocateFree pair(&memory, static_cast<uint64_t>(state.range(0)));
  for (auto _ : state) pair.RunOnce();
}
BENCHMARK(C10PinnedPair)->Arg(512)->Arg(65536)->Arg(3 << 20);

void C10PinnedMixed64(benchmark::State& state) {
  C10PinnedMemory memory;
  bench::MixedSizes mixed(&memory);
  for (auto _ : state) mixed.RunOnce();
}
BENCHMARK(C10PinnedMixed64);

template <typename Body>
void Measure(benchmark::State& state, Body* body) {
  body->RunOnce();
  for (auto _ : state) body->RunOnce();
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()));
}

void C10PairThreads(benchmark::State& state) {
  C10Memory memory;
  bench::AllocateFree pair(&memory, 512);
  Measure(state, &pair);
}
BENCHMARK(C10PairThreads)->ThreadRange(1, 16)->UseRealTime();

void C10Mixed64Threads(benchmark::State& state) {
  C10Memory memory;
  bench::MixedSizes mixed(&memory);
  Measure(state, &mixed);
}
BENCHMARK(C10Mixed64Threads)->ThreadRange(1, 16)->UseRealTime();

void C10PinnedPairThreads(benchmark::State& state) {
  C10PinnedMemory memory;
  bench::AllocateFree pair(&memory, 512);
  Measure(state, &pair);
}
BENCHMARK(C10PinnedPairThreads)->ThreadRange(1, 16)->UseRealTime();

void C10TraceOf(benchmark::State& state, const char* name) {
  const bench::Trace trace = bench::ReadTrace(bench::TracePath(name));
  std::vector<C10Memory> memories(trace.streams);
  bench::TracePlayer player(&memories, trace.calls.data(), trace.calls.size(),
                            trace.blocks);
  allocator::emptyCache();
  allocator::resetPeakStats(0);
  player.RunOnce();  // fills the cache
  const auto cold = allocator::getDeviceStats(0);
  for (auto _ : state) player.RunOnce();
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations()) *
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
