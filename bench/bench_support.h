// SPDX-License-Identifier: Apache-2.0
//
// What the benchmark programs share: a device or a clear end.

#ifndef DEVRT_BENCH_BENCH_SUPPORT_H_
#define DEVRT_BENCH_BENCH_SUPPORT_H_

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/devrt.h"

namespace bench {

inline void Check(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}

template <typename T>
T Value(absl::StatusOr<T> value) {
  Check(value.status());
  return std::move(value).value();
}

inline devrt::Device Gpu(int index) {
  return Value(devrt::GetDevice("mtia", index));
}

// What DEVRT_BENCH_DEVICE names, else a simulated device, started afresh with
// room for what is measured and threads that need not take turns.
inline devrt::Device BenchDevice() {
  const char* const name = std::getenv("DEVRT_BENCH_DEVICE");
  if (name != nullptr) return Value(devrt::GetDevice(name));
  static const bool started = [] {
    Check(Value(devrt::Simulator::Get("mtia"))
              .Reset("memory=4GiB,mode=threaded"));
    return true;
  }();
  (void)started;
  return Gpu(0);
}

}  // namespace bench

#endif  // DEVRT_BENCH_BENCH_SUPPORT_H_
