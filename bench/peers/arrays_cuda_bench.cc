// SPDX-License-Identifier: Apache-2.0
//
// The CUDA driver without devrt, in the program and run of arrays_gpu_bench.cc
// and timed the same way.  Skipped where DEVRT_BENCH_DEVICE is not CUDA's.

#include <benchmark/benchmark.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "backends/gpu/fast_args.h"
#include "bench/arrays_support.h"
#include "bench/cuda_driver.h"

namespace {

using bench::NewArray;
using bench::OnStream;
using bench::Raw;
using bench::Value;
using devrt::Array;

bool OnCuda(benchmark::State& state) {
  const char* const device = std::getenv("DEVRT_BENCH_DEVICE");
  if (device != nullptr && std::strncmp(device, "cuda", 4) == 0) return true;
  state.SkipWithError("DEVRT_BENCH_DEVICE is not CUDA's");
  return false;
}

// The stream that devrt times; its context is made current.
CUstream NativeOf(const OnStream& on) {
  Raw(DRIVER(cuCtxSetCurrent)(bench::Context(on.device.index())));
  return static_cast<CUstream>(Value(on.stream.Native()));
}
CUdeviceptr Pointer(const Array& x) {
  return reinterpret_cast<CUdeviceptr>(x.data());
}

void RawDeviceCopy(benchmark::State& state) {
  if (!OnCuda(state)) return;
  const OnStream on;
  const auto copy = DRIVER(cuMemcpyDtoDAsync);
  const CUstream stream = NativeOf(on);
  const Array from = NewArray({bench::ArrayBytes()}, devrt::kUInt8, on.device);
  const Array to = NewArray({bench::ArrayBytes()}, devrt::kUInt8, on.device);
  on.TimeDevice(state, 2 * static_cast<double>(to.nbytes()), [&] {
    Raw(copy(Pointer(to), Pointer(from), to.nbytes(), stream));
  });
}
DEVICE_ROW(RawDeviceCopy);

void RawPeerCopy(benchmark::State& state) {
  if (!OnCuda(state) || !bench::PeerArrays::HasTwo(state)) return;
  const OnStream on;
  const bench::PeerArrays arrays;
  const auto copy = DRIVER(cuMemcpyPeerAsync);
  const CUstream stream = NativeOf(on);
  const CUcontext first = bench::Context(on.device.index());
  const CUcontext second = bench::Context(arrays.second.index());
  const auto bytes = arrays.to.nbytes();
  on.TimeDevice(
      state, static_cast<double>(bytes),
      [&] {
        Raw(copy(Pointer(arrays.to), second, Pointer(arrays.from), first, bytes,
                 stream));
      },
      4);
}
DEVICE_ROW(RawPeerCopy);

// Launches an empty kernel with these parameters, in PTX, and the values behind
// `arguments`.
void LaunchEmpty(benchmark::State& state, const std::string& parameters,
                 void** arguments) {
  if (!OnCuda(state)) return;
  const std::string ptx =
      ".version 8.0\n.target sm_70\n.address_size 64\n"
      ".visible .entry empty(" +
      parameters + ") { ret; }\n";
  const OnStream on;
  const CUstream stream = NativeOf(on);
  CUmodule module = nullptr;
  CUfunction empty = nullptr;
  if (DRIVER(cuModuleLoadData)(&module, ptx.c_str()) != CUDA_SUCCESS) {
    state.SkipWithError("the driver cannot load the kernel");
    return;
  }
  Raw(DRIVER(cuModuleGetFunction)(&empty, module, "empty"));
  const auto launch = DRIVER(cuLaunchKernel);
  on.TimeHost(state, [&] {
    Raw(launch(empty, 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr));
  });
  Raw(DRIVER(cuModuleUnload)(module));
}
void RawEmptyLaunch(benchmark::State& state) {
  LaunchEmpty(state, "", nullptr);
}
HOST_ROW(RawEmptyLaunch);

// With as many bytes of parameters as devrt's kernels of rows have.
void RawLaunchWithParameters(benchmark::State& state) {
  char bytes[sizeof(devrt::gpu::RowsArgs)] = {};
  void* arguments[] = {bytes};
  LaunchEmpty(state,
              ".param .align 8 .b8 all[" + std::to_string(sizeof bytes) + "]",
              arguments);
}
HOST_ROW(RawLaunchWithParameters);

}  // namespace
