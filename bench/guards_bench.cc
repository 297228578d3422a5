// SPDX-License-Identifier: Apache-2.0
//
// Guards and current streams over mtia.  Peer: peers/c10_bench.cc, linked into
// the same program where c10 is installed.

#include <benchmark/benchmark.h>

#include <vector>

#include "bench/bench_support.h"
#include "bench/counted.h"
#include "devrt/devrt.h"
#include "runtime/registry/records.h"

namespace {

using bench::Check;
using bench::Gpu;
using bench::Value;

void DeviceGuardSame(benchmark::State& state) {
  devrt::Device gpu = Gpu(0);
  Check(devrt::SetCurrentDevice(gpu));
  for (auto _ : state) {
    devrt::DeviceGuard guard(gpu);
    benchmark::ClobberMemory();
  }
}
BENCHMARK(DeviceGuardSame)->Apply(bench::Counted);

void DeviceGuardSwitch(benchmark::State& state) {
  Check(devrt::SetCurrentDevice(Gpu(0)));
  devrt::Device gpu = Gpu(1);
  for (auto _ : state) {
    devrt::DeviceGuard guard(gpu);
    benchmark::ClobberMemory();
  }
}
BENCHMARK(DeviceGuardSwitch)->Apply(bench::Counted);

void StreamGuardSame(benchmark::State& state) {
  Check(devrt::SetCurrentDevice(Gpu(0)));
  devrt::Stream stream = Value(devrt::Stream::Create(Gpu(0)));
  for (auto _ : state) {
    devrt::StreamGuard guard(stream);
    benchmark::ClobberMemory();
  }
}
BENCHMARK(StreamGuardSame)->Apply(bench::Counted);

void StreamGuardSwitch(benchmark::State& state) {
  Check(devrt::SetCurrentDevice(Gpu(0)));
  devrt::Stream stream = Value(devrt::Stream::Create(Gpu(1)));
  for (auto _ : state) {
    devrt::StreamGuard guard(stream);
    benchmark::ClobberMemory();
  }
}
BENCHMARK(StreamGuardSwitch)->Apply(bench::Counted);

void CurrentStream(benchmark::State& state) {
  devrt::Device gpu = Gpu(0);
  for (auto _ : state) {
    devrt::StreamRef stream = devrt::CurrentStream(gpu);
    benchmark::DoNotOptimize(stream);
  }
}
BENCHMARK(CurrentStream)->Apply(bench::Counted);

// One call through a plugin's table, and nothing else.
void TableCall(benchmark::State& state) {
  const devrt::internal::DeviceRecord* record = Gpu(0).record();
  const devrt_ops_v0* ops = record->ops;
  void* self = record->self;
  uint32_t device = 0;
  for (auto _ : state) {
    devrt_status status = ops->context_current(self, &device);
    benchmark::DoNotOptimize(status);
  }
}
BENCHMARK(TableCall)->Apply(bench::Counted);

// Growth: the same guard with N devices (DEVRT_MTIA=devices=64).
void DeviceGuardOfMany(benchmark::State& state) {
  const int count = static_cast<int>(state.range(0));
  std::vector<devrt::Device> all = Value(devrt::Devices("mtia"));
  if (static_cast<size_t>(count) > all.size()) {
    state.SkipWithError("run with DEVRT_MTIA=devices=64");
    return;
  }
  size_t i = 0;
  for (auto _ : state) {
    devrt::DeviceGuard guard(all[i]);
    benchmark::ClobberMemory();
    if (++i == static_cast<size_t>(count)) i = 0;
  }
}
BENCHMARK(DeviceGuardOfMany)->Apply(bench::Counted)->Arg(1)->Arg(8)->Arg(64);

void CurrentStreamOfMany(benchmark::State& state) {
  const int count = static_cast<int>(state.range(0));
  std::vector<devrt::Device> all = Value(devrt::Devices("mtia"));
  if (static_cast<size_t>(count) > all.size()) {
    state.SkipWithError("run with DEVRT_MTIA=devices=64");
    return;
  }
  size_t i = 0;
  for (auto _ : state) {
    devrt::StreamRef stream = devrt::CurrentStream(all[i]);
    benchmark::DoNotOptimize(stream);
    if (++i == static_cast<size_t>(count)) i = 0;
  }
}
BENCHMARK(CurrentStreamOfMany)->Apply(bench::Counted)->Arg(1)->Arg(8)->Arg(64);

}  // namespace
