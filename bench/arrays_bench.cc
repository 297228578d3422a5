// SPDX-License-Identifier: Apache-2.0
//
// The host's side of arrays: views, new arrays from a warm cache, and what an
// operation costs whoever calls it.

#include <benchmark/benchmark.h>

#include "bench/bench_support.h"
#include "bench/counted.h"
#include "devrt/devrt.h"

namespace {

using bench::BenchDevice;
using bench::Value;
using devrt::Array;

Array Matrix() {
  return Value(Array::Empty({64, 32}, devrt::kFloat32, BenchDevice()));
}

void ViewSlice(benchmark::State& state) {
  const Array x = Matrix();
  for (auto _ : state) {
    Array view = Value(x.SliceAxis(0, {8, 40, 2}));
    benchmark::DoNotOptimize(view);
  }
}
BENCHMARK(ViewSlice)->Apply(bench::Counted);

void ViewIndex(benchmark::State& state) {
  const Array x = Matrix();
  for (auto _ : state) {
    Array view = Value(x.Index(0, 7));
    benchmark::DoNotOptimize(view);
  }
}
BENCHMARK(ViewIndex)->Apply(bench::Counted);

void ViewTranspose(benchmark::State& state) {
  const Array x = Matrix();
  for (auto _ : state) {
    Array view = x.Transpose();
    benchmark::DoNotOptimize(view);
  }
}
BENCHMARK(ViewTranspose)->Apply(bench::Counted);

void ViewReshape(benchmark::State& state) {
  const Array x = Matrix();
  for (auto _ : state) {
    Array view = Value(x.Reshape({2, 1024}));
    benchmark::DoNotOptimize(view);
  }
}
BENCHMARK(ViewReshape)->Apply(bench::Counted);

// Of columns of a matrix: its strides have to be found.
void ViewReshapeStrided(benchmark::State& state) {
  const Array x = Value(Matrix().SliceAxis(1, {0, 16, 1}));
  for (auto _ : state) {
    Array view = Value(x.Reshape({8, 8, 16}));
    benchmark::DoNotOptimize(view);
  }
}
BENCHMARK(ViewReshapeStrided)->Apply(bench::Counted);

void ViewBroadcast(benchmark::State& state) {
  const Array x = Matrix();
  for (auto _ : state) {
    Array view = Value(x.BroadcastTo({8, 64, 32}));
    benchmark::DoNotOptimize(view);
  }
}
BENCHMARK(ViewBroadcast)->Apply(bench::Counted);

void EmptyCached(benchmark::State& state) {
  const devrt::Place place = BenchDevice();
  const int64_t shape[] = {64, 32};
  for (auto _ : state) {
    Array x = Value(Array::Empty(shape, devrt::kFloat32, place));
    benchmark::DoNotOptimize(x);
  }
}
BENCHMARK(EmptyCached)->Apply(bench::Counted);

void EmptyOnTheCurrentDevice(benchmark::State& state) {
  BenchDevice();
  const int64_t shape[] = {64, 32};
  for (auto _ : state) {
    Array x = Value(Array::Empty(shape, devrt::kFloat32));
    benchmark::DoNotOptimize(x);
  }
}
BENCHMARK(EmptyOnTheCurrentDevice)->Apply(bench::Counted);

void OverMemoryOfTheHost(benchmark::State& state) {
  float values[16] = {};
  BenchDevice();
  const int64_t shape[] = {16};
  for (auto _ : state) {
    Array x = Value(Array::FromPointer(values, shape, devrt::kFloat32));
    benchmark::DoNotOptimize(x);
  }
}
BENCHMARK(OverMemoryOfTheHost)->Apply(bench::Counted);

// Of operands that the same stream used last, into memory of its own.  With a
// simulated device the time is the device's: count the instructions of Apply.
void AddOnOneStream(benchmark::State& state) {
  const devrt::Place place = BenchDevice();
  const int64_t shape[] = {8};
  const Array a = Value(Array::Zeros(shape, devrt::kFloat32, place));
  const Array b = Value(Array::Zeros(shape, devrt::kFloat32, place));
  for (auto _ : state) {
    Array sum = Value(devrt::Add(a, b));
    benchmark::DoNotOptimize(sum);
  }
}
BENCHMARK(AddOnOneStream)->Apply(bench::Counted);

}  // namespace
