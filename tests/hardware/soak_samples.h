// SPDX-License-Identifier: Apache-2.0
//
// What a soak measures at intervals, and whether any of it grows.

#ifndef DEVRT_TESTS_HARDWARE_SOAK_SAMPLES_H_
#define DEVRT_TESTS_HARDWARE_SOAK_SAMPLES_H_

#include <cstdint>
#include <string>
#include <vector>

namespace devrt::soak {

// All but rounds and times are read while no round is under way.
struct Sample {
  double seconds = 0;       // since the beginning
  double rounds = 0;        // of all threads, since the beginning
  double rss_bytes = 0;     // of the process
  double heap_bytes = 0;    // allocated and not freed, of the process
  double device_bytes = 0;  // in use, of all devices
  double files = 0;         // open descriptors
  double threads = 0;       // of the process
  double median_us = 0;     // of a fill and the wait for it, under load
  double p99_us = 0;
};

// RSS, heap, descriptors and threads of this process.
void ReadProcess(Sample* sample);

// Of times in any order; 0 if there are none.
double Quantile(std::vector<double> times, double part);

struct Measure {
  const char* name;
  double Sample::*value;
  // What it may grow by from the end of the warm-up to the end of the run: the
  // larger of the two, the second as a part of what it was at first.
  double most_growth;
  double most_part;
  // What is judged for less says nothing: memory that is used again and again
  // is first used for a while.
  double fewest_seconds;
};
const std::vector<Measure>& Measures();

struct Verdict {
  std::string name;
  double at_first = 0;  // the median of the first third after the warm-up
  double growth = 0;
  double allowed = 0;
  bool judged = false;
  bool grows = false;
};

// The median of the slopes between any two samples, over the time from the
// first to the last of them: neither outliers nor steps that go back count.
// The warm-up is the first quarter.
std::vector<Verdict> Judge(const std::vector<Sample>& samples);

// Fewer than this after the warm-up say nothing.
inline constexpr size_t kFewestJudged = 5;

}  // namespace devrt::soak

#endif  // DEVRT_TESTS_HARDWARE_SOAK_SAMPLES_H_
