// SPDX-License-Identifier: Apache-2.0
//
// devrt over CUDA beside the raw driver calls that a program would make
// instead, on device 0 and, where there is one, device 1.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "bench/bench_support.h"
#include "bench/cuda_driver.h"
#include "bench/training_step.h"
#include "devrt/devrt.h"

namespace {

using bench::Check;
using bench::Context;
using bench::Raw;
using bench::RawStream;
using bench::Value;

devrt::Device Gpu(int index = 0) {
  return Value(devrt::GetDevice("cuda", index));
}

void RawCurrentContext(benchmark::State& state) {
  const auto current = DRIVER(cuCtxGetCurrent);
  Raw(DRIVER(cuCtxSetCurrent)(Context(0)));
  CUcontext context;
  for (auto _ : state) {
    current(&context);
    benchmark::DoNotOptimize(context);
  }
}
BENCHMARK(RawCurrentContext);

void DevrtCurrentDevice(benchmark::State& state) {
  devrt::DeviceGuard guard(Gpu());
  const devrt::Backend cuda = Gpu().backend();
  for (auto _ : state) {
    auto device = devrt::CurrentDevice(cuda);
    benchmark::DoNotOptimize(device);
  }
}
BENCHMARK(DevrtCurrentDevice);

void RawEnterSame(benchmark::State& state) {
  const auto set = DRIVER(cuCtxSetCurrent);
  const CUcontext context = Context(0);
  for (auto _ : state) set(context);
}
BENCHMARK(RawEnterSame);

void DevrtDeviceGuardSame(benchmark::State& state) {
  const devrt::Device gpu = Gpu();
  devrt::DeviceGuard outer(gpu);
  for (auto _ : state) {
    devrt::DeviceGuard guard(gpu);
    benchmark::DoNotOptimize(guard);
  }
}
BENCHMARK(DevrtDeviceGuardSame);

bool HasTwo(benchmark::State& state) {
  if (Gpu().backend().device_count() > 1) return true;
  state.SkipWithError("one device");
  return false;
}

void RawSwitchAndBack(benchmark::State& state) {
  if (!HasTwo(state)) return;
  const auto set = DRIVER(cuCtxSetCurrent);
  const CUcontext first = Context(0), second = Context(1);
  for (auto _ : state) {
    set(second);
    set(first);
  }
}
BENCHMARK(RawSwitchAndBack);

void DevrtDeviceGuardSwitch(benchmark::State& state) {
  if (!HasTwo(state)) return;
  const devrt::Device gpu = Gpu(1);
  devrt::DeviceGuard outer(Gpu(0));
  for (auto _ : state) {
    devrt::DeviceGuard guard(gpu);
    benchmark::DoNotOptimize(guard);
  }
}
BENCHMARK(DevrtDeviceGuardSwitch);

void DevrtCurrentStream(benchmark::State& state) {
  const devrt::Device gpu = Gpu();
  for (auto _ : state) {
    devrt::StreamRef stream = devrt::CurrentStream(gpu);
    benchmark::DoNotOptimize(stream);
  }
}
BENCHMARK(DevrtCurrentStream);

void DevrtStreamGuard(benchmark::State& state) {
  devrt::DeviceGuard outer(Gpu());
  devrt::Stream stream = Value(devrt::Stream::Create(Gpu()));
  for (auto _ : state) {
    devrt::StreamGuard guard(stream);
    benchmark::DoNotOptimize(guard);
  }
}
BENCHMARK(DevrtStreamGuard);

void RawStreamCreateDestroy(benchmark::State& state) {
  Raw(DRIVER(cuCtxSetCurrent)(Context(0)));
  const auto create = DRIVER(cuStreamCreate);
  const auto destroy = DRIVER(cuStreamDestroy);
  for (auto _ : state) {
    CUstream stream;
    create(&stream, CU_STREAM_NON_BLOCKING);
    destroy(stream);
  }
}
BENCHMARK(RawStreamCreateDestroy);

void DevrtStreamCreateDestroy(benchmark::State& state) {
  const devrt::Device gpu = Gpu();
  for (auto _ : state) {
    devrt::Stream stream = Value(devrt::Stream::Create(gpu));
    benchmark::DoNotOptimize(stream);
  }
}
BENCHMARK(DevrtStreamCreateDestroy);

void RawEventCreateRecordDestroy(benchmark::State& state) {
  const CUstream stream = RawStream();
  const auto create = DRIVER(cuEventCreate);
  const auto record = DRIVER(cuEventRecord);
  const auto destroy = DRIVER(cuEventDestroy);
  for (auto _ : state) {
    CUevent event;
    create(&event, CU_EVENT_DISABLE_TIMING);
    record(event, stream);
    destroy(event);
  }
}
BENCHMARK(RawEventCreateRecordDestroy);

void RawEventRecord(benchmark::State& state) {
  const CUstream stream = RawStream();
  CUevent event;
  Raw(DRIVER(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING));
  const auto record = DRIVER(cuEventRecord);
  for (auto _ : state) record(event, stream);
}
BENCHMARK(RawEventRecord);

void DevrtEventCreateRecordDestroy(benchmark::State& state) {
  const devrt::Device gpu = Gpu();
  devrt::Stream stream = Value(devrt::Stream::Create(gpu));
  for (auto _ : state) {
    devrt::Event event = Value(devrt::Event::Create(gpu));
    Check(event.Record(stream));
  }
  Check(stream.Synchronize());
}
BENCHMARK(DevrtEventCreateRecordDestroy);

void RawStreamWaitsForStream(benchmark::State& state) {
  const CUstream a = RawStream(), b = RawStream();
  CUevent event;
  Raw(DRIVER(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING));
  const auto record = DRIVER(cuEventRecord);
  const auto wait = DRIVER(cuStreamWaitEvent);
  for (auto _ : state) {
    record(event, a);
    wait(b, event, 0);
  }
}
BENCHMARK(RawStreamWaitsForStream);

void DevrtStreamWaitsForStream(benchmark::State& state) {
  devrt::Stream a = Value(devrt::Stream::Create(Gpu()));
  devrt::Stream b = Value(devrt::Stream::Create(Gpu()));
  for (auto _ : state) Check(b.Wait(a.ref()));
  Check(b.Synchronize());
}
BENCHMARK(DevrtStreamWaitsForStream);

void RawStreamQuery(benchmark::State& state) {
  const CUstream stream = RawStream();
  const auto query = DRIVER(cuStreamQuery);
  for (auto _ : state) benchmark::DoNotOptimize(query(stream));
}
BENCHMARK(RawStreamQuery);

// What a poll of the allocator calls: a query of an event that is complete, and
// of one that is not, and what keeps other libraries' captures valid.
void RawEventQuery(benchmark::State& state) {
  const CUstream stream = RawStream();
  CUevent event;
  Raw(DRIVER(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING));
  Raw(DRIVER(cuEventRecord)(event, stream));
  Raw(DRIVER(cuStreamSynchronize)(stream));
  const auto query = DRIVER(cuEventQuery);
  for (auto _ : state) benchmark::DoNotOptimize(query(event));
}
BENCHMARK(RawEventQuery);

void RawEventRecordAndQuery(benchmark::State& state) {
  const CUstream stream = RawStream();
  CUevent event;
  Raw(DRIVER(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING));
  const auto record = DRIVER(cuEventRecord);
  const auto query = DRIVER(cuEventQuery);
  for (auto _ : state) {
    record(event, stream);
    benchmark::DoNotOptimize(query(event));
  }
}
BENCHMARK(RawEventRecordAndQuery);

void RawExchangeCaptureMode(benchmark::State& state) {
  const CUstream stream = RawStream();
  benchmark::DoNotOptimize(stream);
  const auto exchange = DRIVER(cuThreadExchangeStreamCaptureMode);
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  for (auto _ : state) benchmark::DoNotOptimize(exchange(&mode));
}
BENCHMARK(RawExchangeCaptureMode);

void RawStreamIsCapturing(benchmark::State& state) {
  const CUstream stream = RawStream();
  const auto ask = DRIVER(cuStreamIsCapturing);
  CUstreamCaptureStatus status;
  for (auto _ : state) benchmark::DoNotOptimize(ask(stream, &status));
}
BENCHMARK(RawStreamIsCapturing);

void DevrtStreamQuery(benchmark::State& state) {
  devrt::Stream stream = Value(devrt::Stream::Create(Gpu()));
  for (auto _ : state) {
    bool done = Value(stream.Query());
    benchmark::DoNotOptimize(done);
  }
}
BENCHMARK(DevrtStreamQuery);

// ---- Launches

// An own kernel that does nothing, as any driver of CUDA 12 or later takes it.
CUfunction EmptyKernel() {
  static const char kPtx[] =
      ".version 8.0\n.target sm_70\n.address_size 64\n"
      ".visible .entry empty() { ret; }\n";
  Raw(DRIVER(cuCtxSetCurrent)(Context(0)));
  CUmodule module;
  Raw(DRIVER(cuModuleLoadData)(&module, kPtx));
  CUfunction kernel;
  Raw(DRIVER(cuModuleGetFunction)(&kernel, module, "empty"));
  return kernel;
}

void RawLaunch(benchmark::State& state) {
  const CUfunction kernel = EmptyKernel();
  const CUstream stream = RawStream();
  const auto launch = DRIVER(cuLaunchKernel);
  for (auto _ : state) {
    launch(kernel, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr);
  }
  Raw(DRIVER(cuStreamSynchronize)(stream));
}
BENCHMARK(RawLaunch)->UseRealTime();

void DevrtLaunch(benchmark::State& state) {
  const CUfunction kernel = EmptyKernel();
  const devrt::Device gpu = Gpu();
  devrt::DeviceGuard outer(gpu);
  devrt::Stream stream = Value(devrt::Stream::Create(gpu));
  const auto launch = DRIVER(cuLaunchKernel);
  for (auto _ : state) {
    Check(devrt::Launch(stream, {}, [&](const devrt::LaunchContext& context) {
      launch(kernel, 1, 1, 1, 1, 1, 1, 0,
             static_cast<CUstream>(context.native_stream()), nullptr, nullptr);
    }));
  }
  Check(stream.Synchronize());
}
BENCHMARK(DevrtLaunch)->UseRealTime();

// What a layer adds to the calls of a training step:
//
//   DEVRT_LAYERS=validate build/bench/cuda_bench
//       --benchmark_filter=DevrtTrainingStep
void DevrtTrainingStep(benchmark::State& state) {
  const CUfunction kernel = EmptyKernel();
  const auto launch = DRIVER(cuLaunchKernel);
  bench::TrainingStep(state, Gpu(), [&](const devrt::LaunchContext& context) {
    launch(kernel, 1, 1, 1, 1, 1, 1, 0,
           static_cast<CUstream>(context.native_stream()), nullptr, nullptr);
  });
}
BENCHMARK(DevrtTrainingStep)->UseRealTime();

// ---- Growth: what a call costs with so many streams alive

void RawRecordAmongStreams(benchmark::State& state) {
  std::vector<CUstream> streams;
  for (int64_t i = 0; i < state.range(0); ++i) streams.push_back(RawStream());
  CUevent event;
  Raw(DRIVER(cuEventCreate)(&event, CU_EVENT_DISABLE_TIMING));
  const auto record = DRIVER(cuEventRecord);
  for (auto _ : state) record(event, streams.back());
  Raw(DRIVER(cuStreamSynchronize)(streams.back()));
  const auto destroy = DRIVER(cuStreamDestroy);
  for (const CUstream stream : streams) Raw(destroy(stream));
}
BENCHMARK(RawRecordAmongStreams)->Arg(10)->Arg(10000);

void DevrtRecordAmongStreams(benchmark::State& state) {
  const devrt::Device gpu = Gpu();
  std::vector<devrt::Stream> streams;
  for (int64_t i = 0; i < state.range(0); ++i) {
    streams.push_back(Value(devrt::Stream::Create(gpu)));
  }
  devrt::Event event = Value(devrt::Event::Create(gpu));
  for (auto _ : state) Check(event.Record(streams.back()));
  Check(gpu.Synchronize());
}
BENCHMARK(DevrtRecordAmongStreams)->Arg(10)->Arg(10000);

void DevrtStreamGuardAmongStreams(benchmark::State& state) {
  const devrt::Device gpu = Gpu();
  devrt::DeviceGuard outer(gpu);
  std::vector<devrt::Stream> streams;
  for (int64_t i = 0; i < state.range(0); ++i) {
    streams.push_back(Value(devrt::Stream::Create(gpu)));
  }
  for (auto _ : state) {
    devrt::StreamGuard guard(streams.back());
    benchmark::DoNotOptimize(guard);
  }
}
BENCHMARK(DevrtStreamGuardAmongStreams)->Arg(10)->Arg(10000);

// On the last of so many devices that are in use.
void DevrtDeviceGuardAmongDevices(benchmark::State& state) {
  const auto devices = static_cast<int>(state.range(0));
  if (devices > 1 && !HasTwo(state)) return;
  for (int i = 0; i < devices; ++i) Check(Gpu(i).Synchronize());
  const devrt::Device gpu = Gpu(devices - 1);
  devrt::DeviceGuard outer(gpu);
  for (auto _ : state) {
    devrt::DeviceGuard guard(gpu);
    auto current = devrt::CurrentDevice(gpu.backend());
    benchmark::DoNotOptimize(current);
  }
}
BENCHMARK(DevrtDeviceGuardAmongDevices)->Arg(1)->Arg(2);

// ---- Copies: the cost of the call at 4 KiB, the bandwidth at 1 GiB.

struct Blocks {
  void* device = nullptr;
  void* host = nullptr;
  uint64_t size;
  explicit Blocks(uint64_t bytes) : size(bytes) {
    device = Value(devrt::Allocate(Gpu(), bytes));
    host = Value(devrt::AllocateHost(Gpu(), bytes));
  }
  ~Blocks() {
    Check(devrt::Free(Gpu(), device));
    Check(devrt::FreeHost(host));
  }
};

void RawCopyToDevice(benchmark::State& state) {
  const Blocks blocks(static_cast<uint64_t>(state.range(0)));
  const CUstream stream = RawStream();
  const auto copy = DRIVER(cuMemcpyHtoDAsync);
  const auto sync = DRIVER(cuStreamSynchronize);
  for (auto _ : state) {
    copy(reinterpret_cast<CUdeviceptr>(blocks.device), blocks.host, blocks.size,
         stream);
    if (blocks.size > 65536) sync(stream);
  }
  sync(stream);
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(RawCopyToDevice)->Arg(4096)->Arg(1 << 30)->UseRealTime();

void DevrtCopyToDevice(benchmark::State& state) {
  const Blocks blocks(static_cast<uint64_t>(state.range(0)));
  devrt::Stream stream = Value(devrt::Stream::Create(Gpu()));
  for (auto _ : state) {
    Check(devrt::CopyAsync(stream, blocks.device, blocks.host, blocks.size));
    if (blocks.size > 65536) Check(stream.Synchronize());
  }
  Check(stream.Synchronize());
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(DevrtCopyToDevice)->Arg(4096)->Arg(1 << 30)->UseRealTime();

void RawCopyToHost(benchmark::State& state) {
  const Blocks blocks(static_cast<uint64_t>(state.range(0)));
  const CUstream stream = RawStream();
  const auto copy = DRIVER(cuMemcpyDtoHAsync);
  const auto sync = DRIVER(cuStreamSynchronize);
  for (auto _ : state) {
    copy(blocks.host, reinterpret_cast<CUdeviceptr>(blocks.device), blocks.size,
         stream);
    if (blocks.size > 65536) sync(stream);
  }
  sync(stream);
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(RawCopyToHost)->Arg(4096)->Arg(1 << 30)->UseRealTime();

void DevrtCopyToHost(benchmark::State& state) {
  const Blocks blocks(static_cast<uint64_t>(state.range(0)));
  devrt::Stream stream = Value(devrt::Stream::Create(Gpu()));
  for (auto _ : state) {
    Check(devrt::CopyAsync(stream, blocks.host, blocks.device, blocks.size));
    if (blocks.size > 65536) Check(stream.Synchronize());
  }
  Check(stream.Synchronize());
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(DevrtCopyToHost)->Arg(4096)->Arg(1 << 30)->UseRealTime();

struct PeerBlocks {
  void* from = nullptr;
  void* to = nullptr;
  explicit PeerBlocks(uint64_t bytes) {
    from = Value(devrt::Allocate(Gpu(0), bytes));
    to = Value(devrt::Allocate(Gpu(1), bytes));
  }
  ~PeerBlocks() {
    Check(devrt::Free(Gpu(0), from));
    Check(devrt::Free(Gpu(1), to));
  }
};

void RawCopyToPeer(benchmark::State& state) {
  if (!HasTwo(state)) return;
  const auto size = static_cast<uint64_t>(state.range(0));
  const PeerBlocks blocks(size);
  const CUcontext first = Context(0), second = Context(1);
  const CUstream stream = RawStream();
  DRIVER(cuCtxEnablePeerAccess)(second, 0);  // may be on already
  const auto copy = DRIVER(cuMemcpyPeerAsync);
  const auto sync = DRIVER(cuStreamSynchronize);
  for (auto _ : state) {
    copy(reinterpret_cast<CUdeviceptr>(blocks.to), second,
         reinterpret_cast<CUdeviceptr>(blocks.from), first, size, stream);
    if (size > 65536) sync(stream);
  }
  sync(stream);
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(RawCopyToPeer)->Arg(4096)->Arg(1 << 30)->UseRealTime();

void DevrtCopyToPeer(benchmark::State& state) {
  if (!HasTwo(state)) return;
  const auto size = static_cast<uint64_t>(state.range(0));
  const PeerBlocks blocks(size);
  devrt::Stream stream = Value(devrt::Stream::Create(Gpu(0)));
  for (auto _ : state) {
    Check(devrt::CopyAsync(stream, blocks.to, blocks.from, size));
    if (size > 65536) Check(stream.Synchronize());
  }
  Check(stream.Synchronize());
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(DevrtCopyToPeer)->Arg(4096)->Arg(1 << 30)->UseRealTime();

}  // namespace
