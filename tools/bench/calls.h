// SPDX-License-Identifier: Apache-2.0
//
// What calls of the Python package cost, beside PyTorch, CuPy and Numba where
// that Python has them.  A Python program measures: bench/python_bench.py,
// which the command holds as text.

#ifndef DEVRT_TOOLS_BENCH_CALLS_H_
#define DEVRT_TOOLS_BENCH_CALLS_H_

#include <string>

#include "absl/status/statusor.h"

namespace devrt::tools {

// The texts of the program and of what it draws with.
extern const char kPythonBench[], kRatioChart[];

struct CallsOptions {
  std::string python;   // the interpreter, which has to import devrt
  std::string backend;  // "mtia", which has no peers, or another one
  std::string picture;  // the SVG file to draw, or ""
  int rounds = 9;       // a figure is the median of them
  bool json = false;    // print the figures as JSON instead of a table
};

// Measures, and prints the figures on standard output.  Returns the exit code
// of the Python program.
// FAILED_PRECONDITION if `python` cannot be run; UNAVAILABLE if no folder for
// temporary files can be made.
absl::StatusOr<int> MeasureCalls(const CallsOptions& options);

}  // namespace devrt::tools

#endif  // DEVRT_TOOLS_BENCH_CALLS_H_
