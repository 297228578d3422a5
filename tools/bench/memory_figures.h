// SPDX-License-Identifier: Apache-2.0
//
// What `devrt bench memory` measures, and its reports as text and as JSON.

#ifndef DEVRT_TOOLS_BENCH_MEMORY_FIGURES_H_
#define DEVRT_TOOLS_BENCH_MEMORY_FIGURES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "devrt/runtime/device.h"
#include "tools/bench/timing.h"

namespace devrt::tools {

// A row.  Without a value the row was not measured, and `note` says why.
struct MemoryFigure {
  std::string name;  // of the row in JSON
  std::string text;  // for people
  std::string unit;  // "ns", or "x": a ratio
  std::optional<double> value;
  std::optional<double> bar;
  bool at_least = false;  // the bar is the least value, not the most
  std::string note;       // an explanation, or why the row is not judged
  bool judged = true;     // where the row has a value and a bar

  bool met() const { return at_least ? *value >= *bar : *value <= *bar; }
  bool has_verdict() const { return judged && value && bar; }
};

// The peaks of a trace that began with an empty cache.
struct TraceFigure {
  std::string name;
  uint64_t calls = 0;
  std::optional<double> ns;  // of one call, with a filled cache
  uint64_t reserved = 0;
  uint64_t allocated = 0;
  uint64_t segments = 0;
  std::string note;  // why the trace was not played
  // The share of the peak of reserved memory that blocks never used together.
  double fragmentation() const {
    return reserved == 0 ? 0
                         : 1 - static_cast<double>(allocated) /
                                   static_cast<double>(reserved);
  }
};

struct MemoryFigures {
  std::string device;
  std::string device_name;
  unsigned processors = 0;
  std::vector<MemoryFigure> rows;
  std::vector<TraceFigure> traces;
};

// Empties the device's cache at the beginning and at the end.  Returns the
// error of the first call that failed.  A row without a value stands for what
// the device cannot do.
absl::StatusOr<MemoryFigures> MeasureMemory(Device device,
                                            const Effort& effort);

std::string MemoryFiguresText(const MemoryFigures& figures);
std::string MemoryFiguresJson(const MemoryFigures& figures);

}  // namespace devrt::tools

#endif  // DEVRT_TOOLS_BENCH_MEMORY_FIGURES_H_
