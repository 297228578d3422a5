// SPDX-License-Identifier: Apache-2.0
//
// Seconds of the monotonic clock, for timeouts and durations.

#ifndef DEVRT_CTS_CLOCK_H_
#define DEVRT_CTS_CLOCK_H_

#include <ctime>

namespace devrt::cts {

inline double Now() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) +
         static_cast<double>(now.tv_nsec) / 1e9;
}

}  // namespace devrt::cts

#endif  // DEVRT_CTS_CLOCK_H_
