// SPDX-License-Identifier: Apache-2.0
//
// What ran when: the operations of one run of the demo, however their times
// were learned (see recorder.h), and the pictures that are made of them.

#ifndef DEVRT_TOOLS_DEMO_TIMELINE_H_
#define DEVRT_TOOLS_DEMO_TIMELINE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/terminal.h"

namespace devrt::tools {

enum class OpKind {
  kHostToDevice,
  kKernel,
  kFill,
  kPeerCopy,
  kDeviceToHost,
  kHostFunction,
};

struct KindStyle {
  const char* name;    // "kernel"
  const char* fill;    // of a bar, in UTF-8
  char ascii_fill;     // where the locale has none
  const char* colour;  // of a bar in a picture, under white text
  int ansi;            // of a terminal's background, under black text
};
const KindStyle& Style(OpKind kind);
inline constexpr OpKind kAllKinds[] = {
    OpKind::kHostToDevice, OpKind::kKernel,       OpKind::kFill,
    OpKind::kPeerCopy,     OpKind::kDeviceToHost, OpKind::kHostFunction};

// A line of the picture: one stream, or the host functions of all.
struct TimelineRow {
  std::string group;  // "mtia:0"; rows of one group are neighbours
  std::string name;   // "copy in"
};

struct TimelineOp {
  size_t row = 0;
  OpKind kind = OpKind::kKernel;
  std::string name;       // "scale"
  int chunk = 0;          // from 1; 0: not part of one
  uint64_t bytes = 0;     // moved or worked on
  uint64_t begin_ns = 0;  // 0 is the beginning of the first operation
  uint64_t end_ns = 0;
  std::optional<size_t> previous;  // the operation before it in its stream
  std::vector<size_t> waits;       // operations of other streams it waited for
};

struct Timeline {
  std::string title;
  std::string clock;           // whose time it is, in words
  std::string unit = "chunk";  // what the operations' numbers count
  std::vector<TimelineRow> rows;
  std::vector<TimelineOp> ops;  // in order of submission

  uint64_t elapsed_ns() const;
  // Of the row, or of all devices; host functions keep no device busy.
  uint64_t busy_ns(size_t row) const;
  uint64_t busy_ns() const;
  // Device operations at a time, on average.
  double overlap() const;
  // The operation that decided when `op` began: of `waits` and `previous`, the
  // one that ended last.
  std::optional<size_t> Decisive(size_t op) const;
};

// Distance between the marks of a time axis of `elapsed_ns` that has room for
// `most` of them, and their unit.
struct AxisScale {
  uint64_t step_ns = 1;
  uint64_t unit_ns = 1;
  const char* unit = "ns";
};
AxisScale ChooseScale(uint64_t elapsed_ns, size_t most);

// For a terminal, with a legend; no line longer than its columns.
std::string TerminalTimeline(const Timeline& timeline,
                             const Terminal& terminal);
// A complete SVG document.
std::string SvgTimeline(const Timeline& timeline);
// For chrome://tracing and ui.perfetto.dev (Trace Event Format).
std::string TraceTimeline(const Timeline& timeline);

}  // namespace devrt::tools

#endif  // DEVRT_TOOLS_DEMO_TIMELINE_H_
