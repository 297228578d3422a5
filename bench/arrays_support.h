// SPDX-License-Identifier: Apache-2.0
//
// What rows of array operations share: their size, a current stream, and how
// its device and the host are timed.  DEVRT_BENCH_ARRAY_BYTES says how large
// the arrays are: 256 MiB, but 1 MiB on the simulated device.

#ifndef DEVRT_BENCH_ARRAYS_SUPPORT_H_
#define DEVRT_BENCH_ARRAYS_SUPPORT_H_

#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <utility>

#include "absl/status/status.h"
#include "bench/bench_support.h"
#include "devrt/devrt.h"

namespace bench {

inline int64_t ArrayBytes() {
  const char* const bytes = std::getenv("DEVRT_BENCH_ARRAY_BYTES");
  if (bytes != nullptr) return std::atoll(bytes);
  const bool simulated = std::getenv("DEVRT_BENCH_DEVICE") == nullptr;
  return simulated ? 1 << 20 : 256 << 20;
}

inline devrt::Array NewArray(std::initializer_list<int64_t> shape,
                             devrt::DType dtype, devrt::Device device) {
  return Value(devrt::Array::Zeros(shape, dtype, device));
}

// A stream that is current while this lives.
class OnStream {
 public:
  explicit OnStream(devrt::Device of = BenchDevice())
      : device(of),
        stream(Value(devrt::Stream::Create(of))),
        guard_(stream),
        begin_(Value(devrt::Event::Create(of, {/*timing=*/true}))),
        end_(Value(devrt::Event::Create(of, {/*timing=*/true}))) {}
  ~OnStream() { Check(stream.Synchronize()); }
  OnStream(const OnStream&) = delete;
  OnStream& operator=(const OnStream&) = delete;

  // Device time of `call`: of `in_a_row` calls between two events, behind a
  // copy that takes longer than their submission.
  template <typename Call>
  void TimeDevice(benchmark::State& state, double bytes, const Call& call,
                  int in_a_row = 8) const {
    const devrt::Array from = NewArray({ArrayBytes()}, devrt::kUInt8, device);
    const devrt::Array to = NewArray({ArrayBytes()}, devrt::kUInt8, device);
    for (int i = 0; i < in_a_row; ++i) call();
    for (auto _ : state) {
      Check(devrt::CopyAsync(stream, to.data(), from.data(), from.nbytes()));
      Check(begin_.Record(stream));
      for (int i = 0; i < in_a_row; ++i) call();
      Check(end_.Record(stream));
      Check(end_.Synchronize());
      state.SetIterationTime(Value(devrt::ElapsedMilliseconds(begin_, end_)) *
                             1e-3 / in_a_row);
    }
    state.SetBytesProcessed(
        static_cast<int64_t>(static_cast<double>(state.iterations()) * bytes));
  }

  // What `call` costs the host: of fewer in a row than a queue takes.
  template <typename Call>
  void TimeHost(benchmark::State& state, const Call& call) const {
    using Clock = std::chrono::steady_clock;
    constexpr int kInARow = 200;
    for (int i = 0; i < kInARow; ++i) call();
    Check(stream.Synchronize());
    for (auto _ : state) {
      const auto begin = Clock::now();
      for (int i = 0; i < kInARow; ++i) call();
      const std::chrono::duration<double> took = Clock::now() - begin;
      state.SetIterationTime(took.count() / kInARow);
      Check(stream.Synchronize());
    }
  }

  const devrt::Device device;
  const devrt::Stream stream;

 private:
  const devrt::StreamGuard guard_;
  const devrt::Event begin_, end_;
};

// Two arrays of 4 times the size, on a device and its neighbour.
struct PeerArrays {
  static bool HasTwo(benchmark::State& state) {
    if (BenchDevice().backend().device_count() > 1) return true;
    state.SkipWithError("one device");
    return false;
  }

  PeerArrays()
      : second(Value(devrt::GetDevice(BenchDevice().backend().name(), 1))),
        from(NewArray({ArrayBytes()}, devrt::kFloat32, BenchDevice())),
        to(NewArray({ArrayBytes()}, devrt::kFloat32, second)) {
    Check(second.Synchronize());
    const devrt::Device first = BenchDevice();
    for (const auto& [device, peer] :
         {std::pair(first, second), std::pair(second, first)}) {
      if (!Value(devrt::CanAccessPeer(device, peer))) continue;
      const absl::Status enabled = devrt::EnablePeerAccess(device, peer);
      if (!absl::IsAlreadyExists(enabled)) Check(enabled);
    }
  }

  const devrt::Device second;
  const devrt::Array from, to;
};

// Rows of device time have few iterations of many calls, the host's some more.
#define DEVICE_ROW(name) BENCHMARK(name)->Iterations(10)->UseManualTime()
#define HOST_ROW(name) BENCHMARK(name)->Iterations(50)->UseManualTime()

}  // namespace bench

#endif  // DEVRT_BENCH_ARRAYS_SUPPORT_H_
