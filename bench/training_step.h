// SPDX-License-Identifier: Apache-2.0
//
// TrainingStep: the calls of a training step whose kernels do nothing, to
// measure what a layer adds to calls.
//
//   bench::TrainingStep(state, device, [](const devrt::LaunchContext&) {});
//
// 64 launches on one stream, each of which reads the output before it and a
// weight and writes its own output.  An output is a block of the caching
// allocator, which is freed once the next launch has read it.  After every
// eighth launch a second stream waits for the first one and launches once, on
// the weight.  At the end the first stream waits for the second one.

#ifndef DEVRT_BENCH_TRAINING_STEP_H_
#define DEVRT_BENCH_TRAINING_STEP_H_

#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "bench/bench_support.h"
#include "devrt/devrt.h"
#include "devrt/memory/device_memory.h"

namespace bench {

// `kernel` is the function of each devrt::Launch.  An item is a launch.
template <typename Kernel>
void TrainingStep(benchmark::State& state, devrt::Device device,
                  const Kernel& kernel) {
  constexpr int kLaunches = 64;
  constexpr int kLaunchesToAReduction = 8;
  constexpr int kStepsToAWait = 8;
  constexpr uint64_t kBytes = 1 << 12;
  const devrt::DeviceGuard outer(device);
  devrt::Stream compute = Value(devrt::Stream::Create(device));
  devrt::Stream reduction = Value(devrt::Stream::Create(device));
  devrt::Event event = Value(devrt::Event::Create(device));
  std::vector<void*> weights;
  for (int i = 0; i < kLaunches; ++i) {
    weights.push_back(Value(devrt::Allocate(device, kBytes)));
  }
  int64_t steps = 0;
  for (auto _ : state) {
    void* input = Value(devrt::AllocateMemory(compute, kBytes));
    for (int i = 0; i < kLaunches; ++i) {
      void* const output = Value(devrt::AllocateMemory(compute, kBytes));
      Check(devrt::Launch(
          compute,
          {devrt::Read(input, kBytes), devrt::Read(weights[i], kBytes),
           devrt::Write(output, kBytes)},
          kernel));
      Check(devrt::FreeMemory(input));
      input = output;
      if ((i + 1) % kLaunchesToAReduction != 0) continue;
      Check(event.Record(compute));
      Check(reduction.Wait(event));
      Check(devrt::Launch(reduction, {devrt::ReadWrite(weights[i], kBytes)},
                          kernel));
    }
    Check(devrt::FreeMemory(input));
    Check(event.Record(reduction));
    Check(compute.Wait(event));
    if (++steps % kStepsToAWait == 0) Check(compute.Synchronize());
  }
  Check(device.Synchronize());
  state.SetItemsProcessed(state.iterations() *
                          (kLaunches + kLaunches / kLaunchesToAReduction));
  for (void* const weight : weights) Check(devrt::Free(device, weight));
}

}  // namespace bench

#endif  // DEVRT_BENCH_TRAINING_STEP_H_
