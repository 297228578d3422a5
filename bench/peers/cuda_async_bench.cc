// SPDX-License-Identifier: Apache-2.0
//
// The CUDA driver's stream-ordered allocator without devrt, and the waits that
// the way of a block to another stream and back needs, in the program and run
// of async_alloc_bench.cc.  Skipped where DEVRT_BENCH_DEVICE is not CUDA's; the
// allocator also on drivers that have none.

#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "bench/cuda_driver.h"
#include "tools/bench/workloads.h"

namespace {

class AsyncMemory {
 public:
  explicit AsyncMemory(CUstream stream) : stream_(stream) {}

  void* New(uint64_t bytes) {
    CUdeviceptr made = 0;
    const CUresult error = allocate_(&made, bytes, stream_);
    if (error != CUDA_SUCCESS) error_ = error;
    return reinterpret_cast<void*>(made);
  }
  void Delete(void* block, uint64_t) {
    if (block == nullptr) return;
    const CUresult error = free_(reinterpret_cast<CUdeviceptr>(block), stream_);
    if (error != CUDA_SUCCESS) error_ = error;
  }
  CUresult error() const { return error_; }

 private:
  CUstream stream_;
  decltype(&cuMemAllocAsync) allocate_ = DRIVER(cuMemAllocAsync);
  decltype(&cuMemFreeAsync) free_ = DRIVER(cuMemFreeAsync);
  CUresult error_ = CUDA_SUCCESS;
};

bool OnCuda() {
  const char* const device = std::getenv("DEVRT_BENCH_DEVICE");
  return device != nullptr && std::strncmp(device, "cuda", 4) == 0;
}

template <typename Measure>
void WithDriver(benchmark::State& state, const Measure& measure) {
  if (!OnCuda()) {
    state.SkipWithError("DEVRT_BENCH_DEVICE is not CUDA's");
    return;
  }
  if (DRIVER_IF_ANY(cuMemAllocAsync) == nullptr) {
    state.SkipWithError("the driver has no cuMemAllocAsync");
    return;
  }
  const CUstream stream = bench::RawStream();
  AsyncMemory memory(stream);
  measure(&memory);
  bench::Raw(DRIVER(cuStreamSynchronize)(stream));
  bench::Raw(DRIVER(cuStreamDestroy)(stream));
  if (memory.error() != CUDA_SUCCESS) {
    state.SkipWithError("the driver refused an allocation or a free");
  }
}

void RawAsyncPair(benchmark::State& state) {
  WithDriver(state, [&](AsyncMemory* memory) {
    bench::AllocateFree pair(memory, static_cast<uint64_t>(state.range(0)));
    for (auto _ : state) pair.RunOnce();
  });
}
BENCHMARK(RawAsyncPair)->Arg(512)->Arg(1 << 20)->UseRealTime();

void RawAsyncMixed64(benchmark::State& state) {
  WithDriver(state, [&](AsyncMemory* memory) {
    bench::MixedSizes mixed(memory);
    for (auto _ : state) mixed.RunOnce();
  });
}
BENCHMARK(RawAsyncMixed64)->UseRealTime();

// There and back, as BetweenStreams of memory_bench.cc: each stream waits for
// the other, which still waits itself.
void RawWaitsBetweenStreams(benchmark::State& state) {
  if (!OnCuda()) {
    state.SkipWithError("DEVRT_BENCH_DEVICE is not CUDA's");
    return;
  }
  const CUstream streams[] = {bench::RawStream(), bench::RawStream()};
  CUevent events[2];
  for (CUevent& event : events) {
    bench::Raw(DRIVER(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING));
  }
  const auto record = DRIVER(cuEventRecord);
  const auto wait = DRIVER(cuStreamWaitEvent);
  for (auto _ : state) {
    for (int from : {0, 1}) {
      record(events[from], streams[from]);
      wait(streams[1 - from], events[from], 0);
    }
  }
  for (int i : {0, 1}) {
    bench::Raw(DRIVER(cuStreamSynchronize)(streams[i]));
    bench::Raw(DRIVER(cuStreamDestroy)(streams[i]));
    bench::Raw(DRIVER(cuEventDestroy)(events[i]));
  }
}
BENCHMARK(RawWaitsBetweenStreams);

}  // namespace
