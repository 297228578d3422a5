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

}  // namespace bench

#endif  // DEVRT_BENCH_BENCH_SUPPORT_H_
