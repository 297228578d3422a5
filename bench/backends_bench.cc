// SPDX-License-Identifier: Apache-2.0
//
// Guards, streams and events on every GPU backend of this machine, in one
// process: a row NAME/BACKEND each.  What differs between two backends is what
// their plugins and drivers cost, since all else is the same.
#include <benchmark/benchmark.h>

#include <string>

#include "bench/bench_support.h"
#include "devrt/devrt.h"

namespace {

using bench::Check;
using bench::Value;

devrt::Device First(const devrt::Backend& backend) {
  return Value(devrt::GetDevice(backend.name(), 0));
}

void CurrentDevice(benchmark::State& state, devrt::Backend backend) {
  const devrt::DeviceGuard guard(First(backend));
  for (auto _ : state) {
    auto device = devrt::CurrentDevice(backend);
    benchmark::DoNotOptimize(device);
  }
}

void DeviceGuardSame(benchmark::State& state, devrt::Backend backend) {
  const devrt::Device gpu = First(backend);
  const devrt::DeviceGuard outer(gpu);
  for (auto _ : state) {
    devrt::DeviceGuard guard(gpu);
    benchmark::DoNotOptimize(guard);
  }
}

void DeviceGuardSwitch(benchmark::State& state, devrt::Backend backend) {
  if (backend.device_count() < 2) {
    state.SkipWithError("one device");
    return;
  }
  const devrt::DeviceGuard outer(First(backend));
  const devrt::Device gpu = Value(devrt::GetDevice(backend.name(), 1));
  // The first entry makes the context; with it a single iteration would do.
  { const devrt::DeviceGuard first(gpu); }
  for (auto _ : state) {
    devrt::DeviceGuard guard(gpu);
    benchmark::DoNotOptimize(guard);
  }
}

void CurrentStream(benchmark::State& state, devrt::Backend backend) {
  const devrt::Device gpu = First(backend);
  for (auto _ : state) {
    devrt::StreamRef stream = devrt::CurrentStream(gpu);
    benchmark::DoNotOptimize(stream);
  }
}

void StreamGuard(benchmark::State& state, devrt::Backend backend) {
  const devrt::DeviceGuard outer(First(backend));
  const devrt::Stream stream = Value(devrt::Stream::Create(First(backend)));
  for (auto _ : state) {
    devrt::StreamGuard guard(stream);
    benchmark::DoNotOptimize(guard);
  }
}

void StreamCreateDestroy(benchmark::State& state, devrt::Backend backend) {
  const devrt::Device gpu = First(backend);
  for (auto _ : state) {
    devrt::Stream stream = Value(devrt::Stream::Create(gpu));
    benchmark::DoNotOptimize(stream);
  }
}

void EventCreateRecordDestroy(benchmark::State& state, devrt::Backend backend) {
  const devrt::Device gpu = First(backend);
  const devrt::Stream stream = Value(devrt::Stream::Create(gpu));
  for (auto _ : state) {
    devrt::Event event = Value(devrt::Event::Create(gpu));
    Check(event.Record(stream));
  }
  Check(stream.Synchronize());
}

void EventRecord(benchmark::State& state, devrt::Backend backend) {
  const devrt::Device gpu = First(backend);
  const devrt::Stream stream = Value(devrt::Stream::Create(gpu));
  devrt::Event event = Value(devrt::Event::Create(gpu));
  for (auto _ : state) Check(event.Record(stream));
  Check(stream.Synchronize());
}

void StreamWaitsForStream(benchmark::State& state, devrt::Backend backend) {
  const devrt::Stream a = Value(devrt::Stream::Create(First(backend)));
  devrt::Stream b = Value(devrt::Stream::Create(First(backend)));
  for (auto _ : state) Check(b.Wait(a.ref()));
  Check(b.Synchronize());
}

void StreamQuery(benchmark::State& state, devrt::Backend backend) {
  const devrt::Stream stream = Value(devrt::Stream::Create(First(backend)));
  for (auto _ : state) {
    bool done = Value(stream.Query());
    benchmark::DoNotOptimize(done);
  }
}

void Fill(benchmark::State& state, devrt::Backend backend) {
  constexpr uint64_t kBytes = 4096;
  const devrt::Device gpu = First(backend);
  const devrt::Stream stream = Value(devrt::Stream::Create(gpu));
  void* const memory = Value(devrt::Allocate(gpu, kBytes));
  for (auto _ : state) {
    Check(devrt::FillAsync(stream, memory, 1, kBytes));
    Check(stream.Synchronize());
  }
  Check(devrt::Free(gpu, memory));
}

using Body = void (*)(benchmark::State& state, devrt::Backend backend);

void Register(const std::string& name, Body body) {
  for (const char* const on : {"cuda", "hip"}) {
    const absl::StatusOr<devrt::Device> device = devrt::GetDevice(on, 0);
    if (!device.ok()) continue;
    const devrt::Backend backend = device->backend();
    benchmark::RegisterBenchmark(
        (name + "/" + on).c_str(),
        [=](benchmark::State& state) { body(state, backend); });
  }
}

}  // namespace

int main(int argc, char** argv) {
  Register("CurrentDevice", &CurrentDevice);
  Register("DeviceGuardSame", &DeviceGuardSame);
  Register("DeviceGuardSwitch", &DeviceGuardSwitch);
  Register("CurrentStream", &CurrentStream);
  Register("StreamGuard", &StreamGuard);
  Register("StreamCreateDestroy", &StreamCreateDestroy);
  Register("EventCreateRecordDestroy", &EventCreateRecordDestroy);
  Register("EventRecord", &EventRecord);
  Register("StreamWaitsForStream", &StreamWaitsForStream);
  Register("StreamQuery", &StreamQuery);
  Register("Fill", &Fill);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
