// SPDX-License-Identifier: Apache-2.0
//
// Stream-ordered memory: devrt's caching allocator beside the driver's own
// allocator, through devrt, and beside a call to the driver for each.  On mtia
// or where DEVRT_BENCH_DEVICE says; rows that the backend cannot have are
// skipped.  On CUDA peers/cuda_async_bench.cc adds the driver without devrt.

#include <benchmark/benchmark.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "bench/bench_support.h"
#include "bench/counted.h"
#include "devrt/memory/resources.h"
#include "tools/bench/sources.h"
#include "tools/bench/workloads.h"

namespace {

template <typename Memory, typename Body>
void Measure(benchmark::State& state, Memory* memory, Body* body) {
  for (auto _ : state) {
    body->RunOnce();
    if (!memory->error().ok()) {
      state.SkipWithError(std::string(memory->error().message()).c_str());
      return;
    }
  }
}

void CachedPair(benchmark::State& state) {
  const devrt::Stream s =
      bench::Value(devrt::Stream::Create(bench::BenchDevice()));
  bench::CachedMemory memory(s);
  bench::AllocateFree pair(&memory, static_cast<uint64_t>(state.range(0)));
  Measure(state, &memory, &pair);
}
BENCHMARK(CachedPair)
    ->Apply(bench::Counted)
    ->Arg(512)
    ->Arg(1 << 20)
    ->UseRealTime();

void CachedMixed64(benchmark::State& state) {
  const devrt::Stream s =
      bench::Value(devrt::Stream::Create(bench::BenchDevice()));
  bench::CachedMemory memory(s);
  bench::MixedSizes mixed(&memory);
  Measure(state, &memory, &mixed);
}
BENCHMARK(CachedMixed64)->Apply(bench::Counted)->UseRealTime();

// The resource of the driver's stream-ordered calls, or null with the reason.
std::shared_ptr<devrt::MemoryResource> DriverMemory(benchmark::State& state,
                                                    devrt::Device device) {
  auto made = devrt::DriverResource(device);
  if (made.ok()) return *std::move(made);
  state.SkipWithError(std::string(made.status().message()).c_str());
  return nullptr;
}

void DriverPair(benchmark::State& state) {
  const devrt::Stream s =
      bench::Value(devrt::Stream::Create(bench::BenchDevice()));
  auto resource = DriverMemory(state, s.device());
  if (resource == nullptr) return;
  bench::ResourceMemory memory(std::move(resource), s);
  bench::AllocateFree pair(&memory, static_cast<uint64_t>(state.range(0)));
  Measure(state, &memory, &pair);
}
BENCHMARK(DriverPair)
    ->Apply(bench::Counted)
    ->Arg(512)
    ->Arg(1 << 20)
    ->UseRealTime();

void DriverMixed64(benchmark::State& state) {
  const devrt::Stream s =
      bench::Value(devrt::Stream::Create(bench::BenchDevice()));
  auto resource = DriverMemory(state, s.device());
  if (resource == nullptr) return;
  bench::ResourceMemory memory(std::move(resource), s);
  bench::MixedSizes mixed(&memory);
  Measure(state, &memory, &mixed);
}
BENCHMARK(DriverMixed64)->Apply(bench::Counted)->UseRealTime();

// Each call goes to the driver, and each free waits for the stream.
void RawPair(benchmark::State& state) {
  const devrt::Stream s =
      bench::Value(devrt::Stream::Create(bench::BenchDevice()));
  bench::ResourceMemory memory(devrt::RawResource(s.device()), s);
  bench::AllocateFree pair(&memory, static_cast<uint64_t>(state.range(0)));
  Measure(state, &memory, &pair);
}
BENCHMARK(RawPair)
    ->Apply(bench::Counted)
    ->Arg(512)
    ->Arg(1 << 20)
    ->UseRealTime();

}  // namespace
