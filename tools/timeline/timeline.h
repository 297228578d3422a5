// SPDX-License-Identifier: Apache-2.0
//
// Timeline: which operation ran when on which stream, and which operation
// waited for which.  `devrt demo`, `devrt check`, the examples and
// simulator.timeline_svg() of Python fill one and draw it with SvgTimeline.
//
//   Timeline timeline;
//   timeline.rows = {{"mtia:0", "copies"}, {"mtia:0", "kernels"}};
//   TimelineOp copy, kernel;
//   copy.kind = OpKind::kHostToDevice;
//   copy.end_ns = kernel.begin_ns = 1000;
//   kernel.end_ns = 3000;
//   kernel.row = 1;
//   kernel.waits = {0};
//   timeline.ops = {copy, kernel};
//   std::string svg = SvgTimeline(timeline);
//
// simulated.h fills one from the records of a simulator.

#ifndef DEVRT_TOOLS_TIMELINE_TIMELINE_H_
#define DEVRT_TOOLS_TIMELINE_TIMELINE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace devrt::tools {

struct Terminal;

enum class OpKind {
  kHostToDevice,
  kKernel,
  kFill,
  kPeerCopy,
  kDeviceToHost,
  kHostFunction,
  kOther,  // an operation of a kind that is not known
  // Drawn as marks, because they keep no engine busy:
  kRecord,  // the record of an event
  kWait,    // a wait for an event
  kMemory,  // a stream-ordered allocation or free
};
inline bool IsMark(OpKind kind) { return kind >= OpKind::kRecord; }

struct KindStyle {
  const char* name;    // "kernel"
  const char* fill;    // the character of a bar, in UTF-8
  char ascii_fill;     // the character in a locale without UTF-8
  const char* colour;  // in a picture: of bars and marks; their text is white
  int ansi;            // in a terminal: of the background; the text is black
};
const KindStyle& StyleOf(OpKind kind);
inline constexpr OpKind kAllKinds[] = {
    OpKind::kHostToDevice, OpKind::kKernel,       OpKind::kFill,
    OpKind::kPeerCopy,     OpKind::kDeviceToHost, OpKind::kHostFunction,
    OpKind::kOther,        OpKind::kRecord,       OpKind::kWait,
    OpKind::kMemory};

// A line of the picture: one stream, or the host functions of all streams.
struct TimelineRow {
  std::string group;  // "mtia:0"; rows of one group are neighbours
  std::string name;   // "copy in"
};

struct TimelineOp {
  size_t row = 0;
  OpKind kind = OpKind::kKernel;
  std::string name;       // "scale"
  int chunk = 0;          // counts Timeline::unit from 1; 0: no number
  uint64_t bytes = 0;     // that it copied or computed
  uint64_t begin_ns = 0;  // 0 is the beginning of the first operation
  uint64_t end_ns = 0;
  std::string note;  // more text for the tooltip, such as "main.py:7"
  std::optional<size_t> previous;  // the operation before it in its stream
  // The operations of other streams that it waited for.  The record of an event
  // stands for the work before the record.
  std::vector<size_t> waits;
};

// An arrow between two operations besides those of TimelineOp::waits.
struct TimelineArrow {
  enum class Kind {
    kOrder,     // `to` comes after `from`
    kNearMiss,  // a wait that does not order what it should
    kMissing,   // nothing makes `to` come after `from`
  };
  size_t from = 0;
  size_t to = 0;
  Kind kind = Kind::kOrder;
  std::string tip;  // the text of the tooltip
};

struct Timeline {
  std::string title;
  std::string clock;           // the source of the times, in words
  std::string unit = "chunk";  // what TimelineOp::chunk counts
  std::vector<TimelineRow> rows;
  std::vector<TimelineOp> ops;  // in order of submission
  std::vector<TimelineArrow> arrows;

  // False: the times are an order only.  The picture has no axis, a note
  // beside each operation, and these texts in place of those about times.
  bool timed = true;
  std::string summary;  // below the title
  std::string foot;     // below the rows; may have several lines

  bool Has(OpKind kind) const;
  uint64_t elapsed_ns() const;
  // The time in which operations of one row, or of all rows, kept a device
  // busy. Host functions and marks do not count.
  uint64_t busy_ns(size_t row) const;
  uint64_t busy_ns() const;
  // The average number of operations that ran on devices at one time.
  double overlap() const;
  // The operation that decided when `op` began: of `waits` and `previous`, the
  // one that ended last.
  std::optional<size_t> DecidingOp(size_t op) const;
};

// The distance between the marks of a time axis, and the unit of their labels.
// The axis is `elapsed_ns` long and has room for `most` marks.
struct AxisScale {
  uint64_t step_ns = 1;
  uint64_t unit_ns = 1;
  const char* unit = "ns";
};
AxisScale ChooseScale(uint64_t elapsed_ns, size_t most);

// A complete SVG document.
std::string SvgTimeline(const Timeline& timeline);
// Text with a legend.  No line is wider than the terminal.
std::string TerminalTimeline(const Timeline& timeline,
                             const Terminal& terminal);
// A file in the Trace Event Format, for chrome://tracing and ui.perfetto.dev.
std::string TraceTimeline(const Timeline& timeline);

}  // namespace devrt::tools

#endif  // DEVRT_TOOLS_TIMELINE_TIMELINE_H_
