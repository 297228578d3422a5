// SPDX-License-Identifier: Apache-2.0
//
// Operations on arrays beside the device's own copy: what of its bandwidth they
// reach, and what a launch costs the host.  On mtia or where
// DEVRT_BENCH_DEVICE says; on CUDA peers/arrays_cuda_bench.cc adds the driver
// without devrt, and peers/arrays_peers.py has the same rows of other
// libraries.
//
// Bytes are those that have to be read and written.

#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "bench/arrays_support.h"
#include "bench/bench_support.h"
#include "devrt/devrt.h"

namespace {

using bench::ArrayBytes;
using bench::Check;
using bench::NewArray;
using bench::OnStream;
using bench::Value;
using devrt::Array;
using devrt::DType;
using devrt::kFloat16;
using devrt::kFloat32;

constexpr int64_t kColumns = 8192;
int64_t Elements() { return ArrayBytes() / 4; }
int64_t Rows() { return Elements() / kColumns; }
double Bytes() { return static_cast<double>(ArrayBytes()); }

Array Matrix(const OnStream& on) {
  return NewArray({Rows(), kColumns}, kFloat32, on.device);
}

// ---- Bandwidth --------------------------------------------------------------

// What the others are measured against.
void DeviceCopy(benchmark::State& state) {
  const OnStream on;
  const Array from = Matrix(on), to = Matrix(on);
  on.TimeDevice(state, 2 * Bytes(), [&] {
    Check(devrt::CopyAsync(on.stream, to.data(), from.data(), to.nbytes()));
  });
}
DEVICE_ROW(DeviceCopy);

void AddContiguous(benchmark::State& state) {
  const OnStream on;
  const Array a = Matrix(on), b = Matrix(on), out = Matrix(on);
  on.TimeDevice(state, 3 * Bytes(), [&] { Check(devrt::AddInto(out, a, b)); });
}
DEVICE_ROW(AddContiguous);

void CopyRow(benchmark::State& state, const OnStream& on, double bytes,
             const Array& to, const Array& from) {
  on.TimeDevice(state, bytes, [&] { Check(devrt::CopyArray(to, from)); });
}

void CopyContiguous(benchmark::State& state) {
  const OnStream on;
  CopyRow(state, on, 2 * Bytes(), Matrix(on), Matrix(on));
}
DEVICE_ROW(CopyContiguous);

// 4096 of 6000 columns.
void CopyWindow(benchmark::State& state) {
  const OnStream on;
  const int64_t rows = Elements() / 4096;
  const Array whole = NewArray({rows, 6000}, kFloat32, on.device);
  CopyRow(state, on, 2 * Bytes(), NewArray({rows, 4096}, kFloat32, on.device),
          Value(whole.SliceAxis(1, {0, 4096})));
}
DEVICE_ROW(CopyWindow);

// [:, ::2]: whole lines of memory are read, and counted.
void CopyEverySecond(benchmark::State& state) {
  const OnStream on;
  const Array whole = NewArray({Rows(), 2 * kColumns}, kFloat32, on.device);
  CopyRow(state, on, 3 * Bytes(), Matrix(on),
          Value(whole.SliceAxis(1, {0, 2 * kColumns, 2})));
}
DEVICE_ROW(CopyEverySecond);

void CopyTransposed(benchmark::State& state) {
  const OnStream on;
  const Array turned = NewArray({kColumns, Rows()}, kFloat32, on.device);
  CopyRow(state, on, 2 * Bytes(), Matrix(on), turned.Transpose());
}
DEVICE_ROW(CopyTransposed);

void CastRow(benchmark::State& state, DType from, DType to) {
  const OnStream on;
  CopyRow(state, on, 1.5 * Bytes(), NewArray({Elements()}, to, on.device),
          NewArray({Elements()}, from, on.device));
}
void CastFloat32ToFloat16(benchmark::State& state) {
  CastRow(state, kFloat32, kFloat16);
}
DEVICE_ROW(CastFloat32ToFloat16);
void CastFloat16ToFloat32(benchmark::State& state) {
  CastRow(state, kFloat16, kFloat32);
}
DEVICE_ROW(CastFloat16ToFloat32);

void SumRow(benchmark::State& state, const std::vector<int>& axes) {
  const OnStream on;
  const Array x = Matrix(on);
  devrt::ReduceOptions options;
  options.axes = axes;
  on.TimeDevice(state, Bytes(), [&] { Value(devrt::Sum(x, options)); });
}
void SumOfAll(benchmark::State& state) { SumRow(state, {0, 1}); }
DEVICE_ROW(SumOfAll);
void SumOverRows(benchmark::State& state) { SumRow(state, {0}); }
DEVICE_ROW(SumOverRows);
void SumOverColumns(benchmark::State& state) { SumRow(state, {1}); }
DEVICE_ROW(SumOverColumns);

void Fill(benchmark::State& state) {
  const OnStream on;
  const Array x = Matrix(on);
  on.TimeDevice(state, Bytes(), [&] { Check(x.Fill(1.5)); });
}
DEVICE_ROW(Fill);

// ---- Between devices --------------------------------------------------------

void PeerCopy(benchmark::State& state) {
  if (!bench::PeerArrays::HasTwo(state)) return;
  const OnStream on;
  const bench::PeerArrays arrays;
  devrt::CopyOptions options;
  options.stream = on.stream;
  on.TimeDevice(
      state, 4 * Bytes(),
      [&] { Check(devrt::CopyArray(arrays.to, arrays.from, options)); }, 4);
}
DEVICE_ROW(PeerCopy);

// ---- The host's side --------------------------------------------------------

void LaunchAddInto(benchmark::State& state) {
  const OnStream on;
  const Array a = NewArray({1024}, kFloat32, on.device);
  const Array b = NewArray({1024}, kFloat32, on.device);
  const Array out = NewArray({1024}, kFloat32, on.device);
  on.TimeHost(state, [&] { Check(devrt::AddInto(out, a, b)); });
}
HOST_ROW(LaunchAddInto);

void LaunchAdd(benchmark::State& state) {
  const OnStream on;
  const Array a = NewArray({1024}, kFloat32, on.device);
  const Array b = NewArray({1024}, kFloat32, on.device);
  on.TimeHost(state, [&] { Value(devrt::Add(a, b)); });
}
HOST_ROW(LaunchAdd);

}  // namespace
