// SPDX-License-Identifier: Apache-2.0
//
// c10's guards over its own fake device, which does nothing but keep the
// current device and streams in thread-local variables: the peer of
// guards_bench.cc, in the same program and run.

#include <benchmark/benchmark.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/FakeGuardImpl.h>
#include <c10/core/impl/InlineDeviceGuard.h>

namespace {

using Fake = c10::impl::FakeGuardImpl<c10::DeviceType::CUDA>;
C10_REGISTER_GUARD_IMPL(CUDA, Fake);

c10::Device Gpu(int index) {
  return c10::Device(c10::DeviceType::CUDA,
                     static_cast<c10::DeviceIndex>(index));
}

void C10DeviceGuardSame(benchmark::State& state) {
  Fake::setDeviceIndex(0);
  for (auto _ : state) {
    c10::DeviceGuard guard(Gpu(0));
    benchmark::ClobberMemory();
  }
}
BENCHMARK(C10DeviceGuardSame);

void C10DeviceGuardSwitch(benchmark::State& state) {
  Fake::setDeviceIndex(0);
  for (auto _ : state) {
    c10::DeviceGuard guard(Gpu(1));
    benchmark::ClobberMemory();
  }
}
BENCHMARK(C10DeviceGuardSwitch);

void C10InlineDeviceGuardSwitch(benchmark::State& state) {
  Fake::setDeviceIndex(0);
  for (auto _ : state) {
    c10::impl::InlineDeviceGuard<Fake> guard(Gpu(1));
    benchmark::ClobberMemory();
  }
}
BENCHMARK(C10InlineDeviceGuardSwitch);

void C10StreamGuard(benchmark::State& state) {
  Fake::setDeviceIndex(0);
  c10::Stream stream(c10::Stream::UNSAFE, Gpu(0), 7);
  for (auto _ : state) {
    c10::StreamGuard guard(stream);
    benchmark::ClobberMemory();
  }
}
BENCHMARK(C10StreamGuard);

void C10StreamGuardSwitch(benchmark::State& state) {
  Fake::setDeviceIndex(0);
  c10::Stream stream(c10::Stream::UNSAFE, Gpu(1), 7);
  for (auto _ : state) {
    c10::StreamGuard guard(stream);
    benchmark::ClobberMemory();
  }
}
BENCHMARK(C10StreamGuardSwitch);

}  // namespace
