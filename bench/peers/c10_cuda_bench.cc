// SPDX-License-Identifier: Apache-2.0
//
// PyTorch's C++ over CUDA, the peer of cuda_bench.cc: run one behind the other.
// It takes a PyTorch with CUDA; scripts/gpu-check builds it with one from PyPI.
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <benchmark/benchmark.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

namespace {

c10::Device Gpu(int index) {
  at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);
  return c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(index));
}

void C10CudaGuardSame(benchmark::State& state) {
  const c10::cuda::CUDAGuard outer(Gpu(0));
  for (auto _ : state) c10::cuda::CUDAGuard guard(0);
}
BENCHMARK(C10CudaGuardSame);

void C10DeviceGuardSame(benchmark::State& state) {
  const c10::cuda::CUDAGuard outer(Gpu(0));
  for (auto _ : state) c10::DeviceGuard guard(Gpu(0));
}
BENCHMARK(C10DeviceGuardSame);

void C10CudaGuardSwitch(benchmark::State& state) {
  if (c10::cuda::device_count() < 2) {
    state.SkipWithError("one device");
    return;
  }
  const c10::cuda::CUDAGuard outer(Gpu(0));
  for (auto _ : state) c10::cuda::CUDAGuard guard(1);
}
BENCHMARK(C10CudaGuardSwitch);

void C10CurrentStream(benchmark::State& state) {
  Gpu(0);
  for (auto _ : state) {
    auto stream = c10::cuda::getCurrentCUDAStream();
    benchmark::DoNotOptimize(stream);
  }
}
BENCHMARK(C10CurrentStream);

void C10StreamGuard(benchmark::State& state) {
  Gpu(0);
  const auto stream = c10::cuda::getStreamFromPool();
  for (auto _ : state) c10::cuda::CUDAStreamGuard guard(stream);
}
BENCHMARK(C10StreamGuard);

void C10StreamFromPool(benchmark::State& state) {
  Gpu(0);
  for (auto _ : state) {
    auto stream = c10::cuda::getStreamFromPool();
    benchmark::DoNotOptimize(stream);
  }
}
BENCHMARK(C10StreamFromPool);

void AtEventCreateRecordDestroy(benchmark::State& state) {
  Gpu(0);
  const auto stream = c10::cuda::getStreamFromPool();
  for (auto _ : state) {
    at::cuda::CUDAEvent event;
    event.record(stream);
  }
  stream.synchronize();
}
BENCHMARK(AtEventCreateRecordDestroy);

void C10EventCreateRecordDestroy(benchmark::State& state) {
  Gpu(0);
  const auto stream = c10::cuda::getStreamFromPool();
  for (auto _ : state) {
    c10::Event event(c10::kCUDA);
    event.record(stream.unwrap());
  }
  stream.synchronize();
}
BENCHMARK(C10EventCreateRecordDestroy);

void AtStreamWaitsForStream(benchmark::State& state) {
  Gpu(0);
  const auto a = c10::cuda::getStreamFromPool();
  const auto b = c10::cuda::getStreamFromPool();
  for (auto _ : state) {
    at::cuda::CUDAEvent event;
    event.record(a);
    event.block(b);
  }
  b.synchronize();
}
BENCHMARK(AtStreamWaitsForStream);

void C10StreamQuery(benchmark::State& state) {
  Gpu(0);
  const auto stream = c10::cuda::getStreamFromPool();
  for (auto _ : state) benchmark::DoNotOptimize(stream.query());
}
BENCHMARK(C10StreamQuery);

}  // namespace
