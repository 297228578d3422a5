// SPDX-License-Identifier: Apache-2.0
//
// Streams and events over mtia in its default configuration: the cost of
// devrt's own work, since the simulated device costs next to nothing.

#include <benchmark/benchmark.h>

#include <vector>

#include "bench/bench_support.h"
#include "bench/counted.h"
#include "devrt/devrt.h"

namespace {

using bench::Check;
using bench::Gpu;
using bench::Value;

// From the recycler and back: no native stream is made.
void StreamCreateDestroy(benchmark::State& state) {
  devrt::Device gpu = Gpu(0);
  for (auto _ : state) {
    devrt::Stream stream = Value(devrt::Stream::Create(gpu));
    benchmark::DoNotOptimize(stream);
  }
}
BENCHMARK(StreamCreateDestroy)->Apply(bench::Counted);

void EventCreateRecordDestroy(benchmark::State& state) {
  devrt::Device gpu = Gpu(0);
  devrt::Stream stream = Value(devrt::Stream::Create(gpu));
  for (auto _ : state) {
    devrt::Event event = Value(devrt::Event::Create(gpu));
    Check(event.Record(stream));
  }
  Check(stream.Synchronize());
}
BENCHMARK(EventCreateRecordDestroy)->Apply(bench::Counted);

void StreamQueryIdle(benchmark::State& state) {
  devrt::Stream stream = Value(devrt::Stream::Create(Gpu(0)));
  for (auto _ : state) {
    bool done = Value(stream.Query());
    benchmark::DoNotOptimize(done);
  }
}
BENCHMARK(StreamQueryIdle)->Apply(bench::Counted);

void StreamWaitsForStream(benchmark::State& state) {
  devrt::Stream a = Value(devrt::Stream::Create(Gpu(0)));
  devrt::Stream b = Value(devrt::Stream::Create(Gpu(0)));
  for (auto _ : state) {
    Check(b.Wait(a.ref()));
    Check(a.Wait(b.ref()));
  }
  Check(Gpu(0).Synchronize());
}
BENCHMARK(StreamWaitsForStream)->Apply(bench::Counted);

void EmptyLaunch(benchmark::State& state) {
  devrt::Stream stream = Value(devrt::Stream::Create(Gpu(0)));
  for (auto _ : state) {
    Check(devrt::Launch(stream, {}, [](const devrt::LaunchContext&) {}));
  }
  Check(stream.Synchronize());
}
BENCHMARK(EmptyLaunch)->Apply(bench::Counted);

// Growth: the same calls while N streams are alive.
void RecordAmongStreams(benchmark::State& state) {
  devrt::Device gpu = Gpu(0);
  std::vector<devrt::Stream> streams;
  for (int64_t i = 0; i < state.range(0); ++i) {
    streams.push_back(Value(devrt::Stream::Create(gpu)));
  }
  size_t i = 0;
  for (auto _ : state) {
    devrt::Event event = Value(devrt::Event::Create(gpu));
    Check(event.Record(streams[i % 10]));
    ++i;
  }
  Check(gpu.Synchronize());
}
BENCHMARK(RecordAmongStreams)
    ->Apply(bench::Counted)
    ->Arg(10)
    ->Arg(100)
    ->Arg(1000)
    ->Arg(10000);

void CreateAmongStreams(benchmark::State& state) {
  devrt::Device gpu = Gpu(0);
  std::vector<devrt::Stream> streams;
  for (int64_t i = 0; i < state.range(0); ++i) {
    streams.push_back(Value(devrt::Stream::Create(gpu)));
  }
  for (auto _ : state) {
    devrt::Stream stream = Value(devrt::Stream::Create(gpu));
    benchmark::DoNotOptimize(stream);
  }
}
BENCHMARK(CreateAmongStreams)
    ->Apply(bench::Counted)
    ->Arg(10)
    ->Arg(100)
    ->Arg(1000)
    ->Arg(10000);

}  // namespace
