// SPDX-License-Identifier: Apache-2.0
//
// The timeline in the Trace Event Format: a device is a process, a stream is a
// thread, and a wait is an arrow, which is a pair of flow events.

#include <string_view>
#include <utility>

#include "absl/strings/str_format.h"
#include "tools/common/json.h"
#include "tools/timeline/timeline.h"

namespace devrt::tools {
namespace {

constexpr double kNanosecondsPerUnit = 1000;  // the format counts in us

class TraceWriter {
 public:
  explicit TraceWriter(const Timeline& timeline) : timeline_(timeline) {
    for (const TimelineRow& row : timeline.rows) {
      if (groups_.empty() || groups_.back() != row.group) {
        groups_.push_back(row.group);
      }
      group_of_row_.push_back(groups_.size() - 1);
    }
  }

  std::string Text() {
    json_.BeginObject().Key("displayTimeUnit").String("ns");
    json_.Key("otherData").BeginObject();
    json_.Key("title").String(timeline_.title);
    json_.Key("clock").String(timeline_.clock).End();
    json_.Key("traceEvents").BeginArray();
    Names();
    for (size_t i = 0; i < timeline_.ops.size(); ++i) Operation(i);
    json_.End().End();
    return std::move(json_).Finish();
  }

 private:
  void Begin(const char* phase, size_t row) {
    json_.BeginObject().Key("ph").String(phase);
    // Counts from 1, because viewers take process 0 for the system's idle
    // process.
    json_.Key("pid").Unsigned(group_of_row_[row] + 1);
    json_.Key("tid").Unsigned(row + 1);
  }

  // Sets the name and the place of each process and thread.
  void Names() {
    for (size_t row = 0; row < timeline_.rows.size(); ++row) {
      const size_t group = group_of_row_[row];
      if (row == 0 || group != group_of_row_[row - 1]) {
        Name("process_name", row, groups_[group]);
        SortIndex("process_sort_index", row, group);
      }
      Name("thread_name", row, timeline_.rows[row].name);
      SortIndex("thread_sort_index", row, row);
    }
  }

  void Name(const char* what, size_t row, const std::string& name) {
    Begin("M", row);
    json_.Key("name").String(what).Key("args").BeginObject();
    json_.Key("name").String(name).End().End();
  }

  void SortIndex(const char* what, size_t row, size_t index) {
    Begin("M", row);
    json_.Key("name").String(what).Key("args").BeginObject();
    json_.Key("sort_index").Unsigned(index).End().End();
  }

  void Operation(size_t index) {
    const TimelineOp& op = timeline_.ops[index];
    Begin("X", op.row);
    json_.Key("name").String(absl::StrFormat("%s %d", op.name, op.chunk));
    json_.Key("cat").String(StyleOf(op.kind).name);
    Time("ts", op.begin_ns);
    Time("dur", op.end_ns - op.begin_ns);
    json_.Key("args").BeginObject().Key("chunk").Number(op.chunk);
    json_.Key("bytes").Unsigned(op.bytes).End().End();
    for (size_t wait : op.waits) Flow(timeline_.ops[wait], op);
  }

  void Flow(const TimelineOp& from, const TimelineOp& to) {
    const uint64_t id = next_flow_++;
    // A flow event belongs to the slice that contains its time.  A slice does
    // not contain its end, so the flow begins 1 ns earlier.
    const uint64_t begin =
        from.end_ns > from.begin_ns ? from.end_ns - 1 : from.begin_ns;
    Begin("s", from.row);
    FlowName(id);
    Time("ts", begin);
    json_.End();
    Begin("f", to.row);
    FlowName(id);
    json_.Key("bp").String("e");
    Time("ts", to.begin_ns);
    json_.End();
  }

  void FlowName(uint64_t id) {
    json_.Key("name").String("wait").Key("cat").String("wait");
    json_.Key("id").Unsigned(id);
  }

  void Time(const char* key, uint64_t ns) {
    json_.Key(key).Decimal(static_cast<double>(ns) / kNanosecondsPerUnit);
  }

  const Timeline& timeline_;
  std::vector<std::string> groups_;
  std::vector<size_t> group_of_row_;
  JsonWriter json_;
  uint64_t next_flow_ = 1;
};

}  // namespace

std::string TraceTimeline(const Timeline& timeline) {
  return TraceWriter(timeline).Text();
}

}  // namespace devrt::tools
