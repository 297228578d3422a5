// SPDX-License-Identifier: Apache-2.0
//
// The figures that a soak measures at intervals, and the functions that find
// the figures that grow.

#ifndef DEVRT_TESTS_HARDWARE_SOAK_SAMPLES_H_
#define DEVRT_TESTS_HARDWARE_SOAK_SAMPLES_H_

#include <cstdint>
#include <string>
#include <vector>

namespace devrt::soak {

// Rounds and times are read at any moment; all other figures are read while no
// round runs.
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

// The quantile of times in any order; 0 without times.
double Quantile(std::vector<double> times, double part);

struct Measure {
  const char* name;
  double Sample::*value;
  // The most that the figure may grow by from the end of the warm-up to the end
  // of the run: the larger of `most_growth` and `most_part` times its value at
  // first.
  double most_growth;
  double most_part;
  // A shorter run is not judged: a process goes on touching new memory for a
  // while before it only reuses memory.
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

// Judges the samples after the warm-up, which is the first quarter.  The growth
// is the median of the slopes between any two samples, times the time from the
// first to the last sample: outliers and steps that go back do not change it.
std::vector<Verdict> Judge(const std::vector<Sample>& samples);

// With fewer samples after the warm-up nothing is judged.
inline constexpr size_t kFewestJudged = 5;

}  // namespace devrt::soak

#endif  // DEVRT_TESTS_HARDWARE_SOAK_SAMPLES_H_
