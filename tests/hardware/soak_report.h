// SPDX-License-Identifier: Apache-2.0
//
// The options of a soak, and its report.

#ifndef DEVRT_TESTS_HARDWARE_SOAK_REPORT_H_
#define DEVRT_TESTS_HARDWARE_SOAK_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tests/hardware/soak_samples.h"

namespace devrt::soak {

struct Options {
  std::string backend = "cuda";
  std::string json;  // a file; empty: none
  double seconds = 600;
  int samples = 60;
  int threads = 16;
  uint64_t seed = 1;
  uint64_t most_bytes = 1 << 20;
};

// -1 to go on, or the program's exit code.
int ParseOptions(int argc, char** argv, Options* options);

// The number of successes of each of Operations().
using OperationCounts = std::vector<uint64_t>;

struct Report {
  absl::Status error;  // the first one
  std::vector<std::string> devices;
  uint64_t rounds = 0;
  OperationCounts counts;
  std::vector<Sample> samples;
  std::vector<Verdict> verdicts;
};

bool Passed(const Report& report);
void Print(const Options& options, const Report& report);
// False, with a message, when the file could not be written.
bool WriteJson(const Options& options, const Report& report);

}  // namespace devrt::soak

#endif  // DEVRT_TESTS_HARDWARE_SOAK_REPORT_H_
