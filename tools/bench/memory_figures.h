// SPDX-License-Identifier: Apache-2.0
//
// What `devrt bench memory` measures, and the two forms in which it says so.

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

// A row.  Without a value it was not measured, and `note` says why.
struct MemoryFigure {
  std::string name;  // of the row in JSON
  std::string text;  // for people
  std::string unit;  // "ns", or "x": a ratio
  std::optional<double> value;
  std::optional<double> bar;
  bool at_least = false;  // the value is to reach the bar, not to stay below
  std::string note;       // what to know of it, or why it is not judged
  bool judged = true;     // if there are a value and a bar

  bool met() const { return at_least ? *value >= *bar : *value <= *bar; }
  bool has_verdict() const { return judged && value && bar; }
};

// What a trace took at its peaks, from an empty cache.
struct TraceFigure {
  std::string name;
  uint64_t calls = 0;
  std::optional<double> ns;  // of a call, once the cache is filled
  uint64_t reserved = 0;
  uint64_t allocated = 0;
  uint64_t segments = 0;
  std::string note;  // why it was not played
  // The part of the peak of reserved memory that no block ever took at once.
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

// Leaves the device's cache empty, at the beginning and at the end.  An error
// of the first call that failed; what the device cannot do is a row without a
// value.
absl::StatusOr<MemoryFigures> MeasureMemory(Device device,
                                            const Effort& effort);

std::string MemoryFiguresText(const MemoryFigures& figures);
std::string MemoryFiguresJson(const MemoryFigures& figures);

}  // namespace devrt::tools

#endif  // DEVRT_TOOLS_BENCH_MEMORY_FIGURES_H_
