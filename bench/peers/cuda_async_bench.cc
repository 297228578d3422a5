// SPDX-License-Identifier: Apache-2.0
//
// The CUDA driver's stream-ordered allocator without devrt, in the program and
// run of async_alloc_bench.cc.  Skipped where DEVRT_BENCH_DEVICE is not CUDA's,
// and on drivers without it.

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

}  // namespace
