// SPDX-License-Identifier: Apache-2.0
//
// What a layer costs a call: none, a pass-through one from the helper, one that
// has other slots only (the host's relay goes past it), and the layers that
// DEVRT_LAYERS names, by default none:
//
//   DEVRT_LAYERS=trace DEVRT_TRACE=/tmp/ring build/bench/layers_bench
//       --benchmark_filter=Chosen

#include <benchmark/benchmark.h>

#include <vector>

#include "bench/bench_support.h"
#include "bench/counted.h"
#include "bench/training_step.h"
#include "devrt/backends/abi/devrt_layer_helper.h"
#include "devrt/devrt.h"
#include "runtime/registry/records.h"

namespace {

using bench::Gpu;

class PassThrough {
 public:
  explicit PassThrough(const devrt_next_v0*) {}
  template <typename Call, typename... Args>
  devrt_status On(Call call, Args... args) noexcept {
    return call(args...);
  }
};

// The cheapest call there is, through `self` and `ops`.
void Time(benchmark::State& state, const devrt_ops_v0* ops, void* self) {
  uint32_t device = 0;
  for (auto _ : state) {
    devrt_status status = ops->context_current(self, &device);
    benchmark::DoNotOptimize(status);
  }
}

void ChosenLayers(benchmark::State& state) {
  const auto* const record = Gpu(0).record();
  Time(state, record->ops, record->self);
}
BENCHMARK(ChosenLayers)->Apply(bench::Counted);

// An operation and its share of a wait for it: what a layer does about both.
void ChosenLayersOperation(benchmark::State& state) {
  constexpr uint64_t kBytes = 64;
  const devrt::Device gpu = Gpu(0);
  devrt::Stream stream = bench::Value(devrt::Stream::Create(gpu));
  void* const memory = bench::Value(devrt::Allocate(gpu, kBytes));
  int64_t i = 0;
  for (auto _ : state) {
    bench::Check(devrt::FillAsync(stream, memory, 0, kBytes));
    if (++i % state.range(0) == 0) bench::Check(stream.Synchronize());
  }
  bench::Check(stream.Synchronize());
  bench::Check(devrt::Free(gpu, memory));
}
// Operations to a wait.
BENCHMARK(ChosenLayersOperation)
    ->Apply(bench::Counted)
    ->Arg(16)
    ->Arg(512)
    ->Arg(4096);

// A wait, a launch with accesses, and a record, on streams that take turns.
void ChosenLayersStep(benchmark::State& state) {
  constexpr uint64_t kBytes = 64;
  constexpr size_t kStepsToAWait = 512;
  const devrt::Device gpu = Gpu(0);
  std::vector<devrt::Stream> streams;
  std::vector<devrt::Event> events;
  std::vector<void*> blocks;
  for (int64_t i = 0; i < state.range(0); ++i) {
    streams.push_back(bench::Value(devrt::Stream::Create(gpu)));
    events.push_back(bench::Value(devrt::Event::Create(gpu)));
    blocks.push_back(bench::Value(devrt::Allocate(gpu, kBytes)));
  }
  size_t last = 0;
  size_t steps = 0;
  for (auto _ : state) {
    const size_t next = last + 1 == streams.size() ? 0 : last + 1;
    bench::Check(streams[next].Wait(events[last]));
    bench::Check(devrt::Launch(
        streams[next],
        {devrt::Read(blocks[last], kBytes), devrt::Write(blocks[next], kBytes)},
        [](const devrt::LaunchContext&) {}));
    bench::Check(events[next].Record(streams[next]));
    last = next;
    if (++steps % kStepsToAWait == 0) bench::Check(gpu.Synchronize());
  }
  bench::Check(gpu.Synchronize());
  for (void* const block : blocks) bench::Check(devrt::Free(gpu, block));
}
// Streams.
BENCHMARK(ChosenLayersStep)->Apply(bench::Counted)->Arg(16)->Arg(64);

void ChosenLayersTrainingStep(benchmark::State& state) {
  bench::TrainingStep(state, Gpu(0), [](const devrt::LaunchContext&) {});
}
BENCHMARK(ChosenLayersTrainingStep)->Apply(bench::Counted);

template <int kLayers>
void PassThroughLayers(benchmark::State& state) {
  const auto* const record = Gpu(0).record();
  devrt_layer_v0 layer = {};
  devrt::layer::internal::Open<PassThrough>(nullptr, &layer);
  const devrt_ops_v0* ops = record->ops;
  void* self = record->self;
  for (int i = 0; i < kLayers; ++i) {
    auto* const next = new devrt_next_v0{};
    next->self = self;
    next->ops = ops;
    devrt_backend_v0 front = {};
    layer.attach(layer.layer, next, &front);
    self = front.self;
    ops = front.ops;
  }
  Time(state, ops, self);
}
BENCHMARK(PassThroughLayers<0>)->Apply(bench::Counted);
BENCHMARK(PassThroughLayers<1>)->Apply(bench::Counted);
BENCHMARK(PassThroughLayers<4>)->Apply(bench::Counted);

}  // namespace
