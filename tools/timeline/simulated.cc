// SPDX-License-Identifier: Apache-2.0
#include "tools/timeline/simulated.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"

namespace devrt::tools {
namespace {

OpKind CopyKindOf(const SimulatedOp& op) {
  switch (op.engine) {
    case SimulatedOp::Engine::kHostToDevice:
      return OpKind::kHostToDevice;
    case SimulatedOp::Engine::kDeviceToHost:
      return OpKind::kDeviceToHost;
    case SimulatedOp::Engine::kPeer:
      return OpKind::kPeerCopy;
    default:  // a copy within one device, which the compute engine makes
      return OpKind::kKernel;
  }
}

OpKind KindOf(const SimulatedOp& op) {
  switch (op.kind) {
    case SimulatedOp::Kind::kRecord:
      return OpKind::kRecord;
    case SimulatedOp::Kind::kWait:
      return OpKind::kWait;
    case SimulatedOp::Kind::kKernel:
    case SimulatedOp::Kind::kCollective:
      return OpKind::kKernel;
    case SimulatedOp::Kind::kCopy:
      return CopyKindOf(op);
    case SimulatedOp::Kind::kFill:
      return OpKind::kFill;
    case SimulatedOp::Kind::kHostFunc:
      return OpKind::kHostFunction;
    case SimulatedOp::Kind::kAlloc:
    case SimulatedOp::Kind::kFree:
      return OpKind::kMemory;
  }
  return OpKind::kKernel;
}

// The program's line that submitted the operation, and "failed" after a fault.
std::string NoteOf(const SimulatedOp& op) {
  std::string note;
  if (!op.file.empty()) {
    const size_t folder = op.file.rfind('/');
    const size_t begin = folder == op.file.npos ? 0 : folder + 1;
    note = absl::StrCat(op.file.substr(begin), ":", op.line);
  }
  if (op.state == SimulatedOp::State::kFailed) {
    absl::StrAppend(&note, note.empty() ? "" : ", ", "failed");
  }
  return note;
}

// For each stream, by the simulator's number: maps an operation's seq to its
// index in the timeline.
using OpsByStream = std::map<uint64_t, std::map<uint64_t, size_t>>;

// The operations of other streams that `op` waited for.  A dependency may be an
// operation that the timeline lacks, such as the record of an event.  The last
// operation of the timeline before that record then stands for it.
std::vector<size_t> Waits(const SimulatedOp& op, const OpsByStream& by_stream) {
  std::vector<size_t> waits;
  for (const auto& [stream, seq] : op.dependencies) {
    const auto ops = by_stream.find(stream);
    if (stream == op.stream || ops == by_stream.end()) continue;
    const auto after = ops->second.upper_bound(seq);
    if (after == ops->second.begin()) continue;
    waits.push_back(std::prev(after)->second);
  }
  std::sort(waits.begin(), waits.end());
  waits.erase(std::unique(waits.begin(), waits.end()), waits.end());
  return waits;
}

}  // namespace

uint64_t StreamId(const SimulatedOp& op) {
  return op.stream_id.value_or(op.stream);
}

bool HasRun(const SimulatedOp& op) {
  return op.state == SimulatedOp::State::kDone ||
         op.state == SimulatedOp::State::kFailed;
}

void SetTimes(const std::vector<SimulatedOp>& work,
              std::vector<TimelineOp>* ops) {
  uint64_t zero = std::numeric_limits<uint64_t>::max();
  OpsByStream by_stream;
  for (size_t i = 0; i < work.size(); ++i) {
    zero = std::min(zero, work[i].begin_ns);
    by_stream[work[i].stream][work[i].seq] = i;
  }
  for (size_t i = 0; i < work.size(); ++i) {
    TimelineOp& op = (*ops)[i];
    op.begin_ns = work[i].begin_ns - zero;
    op.end_ns = work[i].end_ns - zero;
    op.waits = Waits(work[i], by_stream);
  }
}

Timeline SimulatedTimeline(const std::vector<SimulatedOp>& work,
                           const std::vector<SimulatedStream>& streams) {
  Timeline timeline;
  timeline.clock = "the simulator's clock";
  std::map<std::pair<uint32_t, uint64_t>, size_t> row_of;
  for (const SimulatedStream& stream : streams) {
    row_of[{stream.device, stream.id}] = timeline.rows.size();
    timeline.rows.push_back(stream.row);
  }
  std::vector<std::optional<size_t>> last(streams.size());  // by row
  for (const SimulatedOp& op : work) {
    TimelineOp drawn;
    drawn.row = row_of.at({op.device, StreamId(op)});
    drawn.kind = KindOf(op);
    drawn.name = op.name;
    drawn.bytes = op.bytes;
    drawn.note = NoteOf(op);
    drawn.previous = std::exchange(last[drawn.row], timeline.ops.size());
    timeline.ops.push_back(std::move(drawn));
  }
  SetTimes(work, &timeline.ops);
  return timeline;
}

}  // namespace devrt::tools
