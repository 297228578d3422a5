// SPDX-License-Identifier: Apache-2.0
//
// Arrays to other libraries and back, on mtia or where DEVRT_BENCH_DEVICE says:
// devrt's own cost, since nothing is pending and no stream has to wait.

#include <benchmark/benchmark.h>

#include <cstdint>

#include "bench/bench_support.h"
#include "bench/counted.h"
#include "devrt/devrt.h"

namespace {

using bench::BenchDevice;
using bench::Value;
using devrt::Array;
using devrt::Place;

Array NewArray(const Place& place) {
  return Value(Array::Empty({64, 64}, devrt::kFloat32, place));
}

// Out to a consumer on the same stream, and back into devrt.
void DlpackRoundTrip(benchmark::State& state) {
  const Array x = NewArray(Place(BenchDevice()));
  for (auto _ : state) {
    Array back = Value(devrt::FromDLPack(Value(devrt::ToDLPack(x))));
    benchmark::DoNotOptimize(back);
  }
}
BENCHMARK(DlpackRoundTrip)->Apply(bench::Counted);

void DlpackRoundTripOfHostMemory(benchmark::State& state) {
  const Array x = NewArray(Place::Host());
  for (auto _ : state) {
    Array back = Value(devrt::FromDLPack(Value(devrt::ToDLPack(x))));
    benchmark::DoNotOptimize(back);
  }
}
BENCHMARK(DlpackRoundTripOfHostMemory)->Apply(bench::Counted);

// What a consumer costs: the exchange API's export and the deleter.
void ExportNoSyncAndDelete(benchmark::State& state) {
  const Array x = NewArray(Place(BenchDevice()));
  for (auto _ : state) {
    DLManagedTensorVersioned* t = Value(devrt::ExportNoSync(x));
    t->deleter(t);
  }
}
BENCHMARK(ExportNoSyncAndDelete)->Apply(bench::Counted);

void BorrowNoSync(benchmark::State& state) {
  const Array x = NewArray(Place(BenchDevice()));
  int64_t strides[2];
  DLTensor t;
  for (auto _ : state) {
    bench::Check(devrt::BorrowNoSync(x, strides, &t));
    benchmark::DoNotOptimize(t);
  }
}
BENCHMARK(BorrowNoSync)->Apply(bench::Counted);

// Another library's tensor: the address is looked up, the owner kept.
void ImportOf(benchmark::State& state, const Place& place) {
  const Array x = NewArray(place);
  DLManagedTensorVersioned* const own = Value(devrt::ToDLPack(x));
  DLManagedTensorVersioned foreign = *own;
  foreign.deleter = nullptr;
  for (auto _ : state) {
    Array y = Value(devrt::FromDLPack(&foreign));
    benchmark::DoNotOptimize(y);
  }
  own->deleter(own);
}
void DlpackImport(benchmark::State& state) { ImportOf(state, BenchDevice()); }
BENCHMARK(DlpackImport)->Apply(bench::Counted);
void DlpackImportOfHostMemory(benchmark::State& state) {
  ImportOf(state, Place::Host());
}
BENCHMARK(DlpackImportOfHostMemory)->Apply(bench::Counted);

void CaiImport(benchmark::State& state) {
  const Array x = NewArray(Place(BenchDevice()));
  devrt::CudaArrayInterface cai;
  cai.shape = {64, 64};
  cai.typestr = "<f4";
  cai.data = reinterpret_cast<uintptr_t>(x.data());
  for (auto _ : state) {
    Array y = Value(devrt::FromCudaArrayInterface(cai, nullptr));
    benchmark::DoNotOptimize(y);
  }
}
BENCHMARK(CaiImport)->Apply(bench::Counted);

}  // namespace
