// SPDX-License-Identifier: Apache-2.0
//
// Pinned memory: what a cached allocation and its free cost, on mtia or where
// DEVRT_BENCH_DEVICE says.

#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstdlib>
#include <vector>

#include "devrt/devrt.h"

namespace {

devrt::Device BenchDevice() {
  const char* name = std::getenv("DEVRT_BENCH_DEVICE");
  return devrt::GetDevice(name != nullptr ? name : "mtia:0").value();
}

// One block at a time.
void PinnedAllocFree(benchmark::State& state) {
  const devrt::Device device = BenchDevice();
  const auto bytes = static_cast<uint64_t>(state.range(0));
  for (auto _ : state) {
    void* block = devrt::AllocatePinned(device, bytes).value();
    benchmark::DoNotOptimize(block);
    devrt::FreePinned(block).IgnoreError();
  }
}
BENCHMARK(PinnedAllocFree)->Arg(512)->Arg(65536)->Arg(3 << 20);

// 64 blocks of mixed sizes alive, the oldest freed.
void PinnedMixed(benchmark::State& state) {
  const devrt::Device device = BenchDevice();
  constexpr size_t kLive = 64;
  std::vector<void*> live(kLive, nullptr);
  uint64_t random = 1;
  size_t next = 0;
  for (auto _ : state) {
    random = random * 6364136223846793005 + 1442695040888963407;
    devrt::FreePinned(live[next]).IgnoreError();
    live[next] =
        devrt::AllocatePinned(device, 1 + (random >> 33) % 100'000).value();
    next = (next + 1) % kLive;
  }
  for (void* block : live) devrt::FreePinned(block).IgnoreError();
}
BENCHMARK(PinnedMixed);

}  // namespace
