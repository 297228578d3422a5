// SPDX-License-Identifier: Apache-2.0
//
// What an operation on arrays costs the host on a GPU.
// scripts/instruction-counts runs it over the fakes of tests/fakes, whose calls
// cost the same each time: what changes is devrt's own.
//
//   DEVRT_BENCH_DEVICE   a device of cuda
#include <benchmark/benchmark.h>

#include <cstdint>
#include <optional>

#include "bench/bench_support.h"
#include "bench/counted.h"
#include "devrt/devrt.h"

namespace bench {
namespace {

using devrt::Array;

// So many launches fit a queue without a wait.
constexpr int64_t kInARow = 800;
// The backend makes its events with the first ones.
constexpr int64_t kFirst = 1200;

struct Operands {
  devrt::Device device = BenchDevice();
  devrt::Stream stream = Value(devrt::Stream::Create(device));
  devrt::StreamGuard guard{stream};
  Array a = Value(Array::Zeros({1024}, devrt::kFloat32, device));
  Array b = Value(Array::Zeros({1024}, devrt::kFloat32, device));
  Array out = Value(Array::Zeros({1024}, devrt::kFloat32, device));
};

// Outside of the benchmarks' functions, since the fake's kernels run on the
// thread that waits for them, and these instructions shall not be counted.
std::optional<Operands> g_operands;
void Begin(const benchmark::State&) {
  g_operands.emplace();
  for (int64_t i = 0; i < kFirst; ++i) {
    Check(devrt::AddInto(g_operands->out, g_operands->a, g_operands->b));
  }
  Check(g_operands->stream.Synchronize());
}
void End(const benchmark::State&) {
  Check(g_operands->stream.Synchronize());
  g_operands.reset();
}

template <typename Call>
void Measure(benchmark::State& state, const Call& call) {
  int64_t launched = 0;
  for (auto _ : state) {
    call();
    if (++launched % kInARow != 0) continue;
    state.PauseTiming();
    Check(g_operands->stream.Synchronize());
    state.ResumeTiming();
  }
}

void AddInto(benchmark::State& state) {
  const Operands& on = *g_operands;
  Measure(state, [&] { Check(devrt::AddInto(on.out, on.a, on.b)); });
}
BENCHMARK(AddInto)->Apply(Counted)->Setup(Begin)->Teardown(End);

void AddNew(benchmark::State& state) {
  const Operands& on = *g_operands;
  Measure(state, [&] { Value(devrt::Add(on.a, on.b)); });
}
BENCHMARK(AddNew)->Apply(Counted)->Setup(Begin)->Teardown(End);

}  // namespace
}  // namespace bench
