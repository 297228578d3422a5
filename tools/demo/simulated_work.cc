// SPDX-License-Identifier: Apache-2.0
#include "tools/demo/simulated_work.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>

#include "absl/strings/str_format.h"
#include "devrt/runtime/status.h"

namespace devrt::tools {
namespace {

bool IsWork(const SimulatedOp& op) {
  return op.engine != SimulatedOp::Engine::kNone;
}

// For each stream, its operations by number: seq to index in the timeline.
using OpsByStream = std::map<uint64_t, std::map<uint64_t, size_t>>;

// A dependency may be the record of an event; what counts is the last work
// before it.
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

absl::StatusOr<std::vector<SimulatedOp>> SimulatedWork(Simulator simulator) {
  DEVRT_ASSIGN_OR_RETURN(std::vector<SimulatedOp> found, simulator.Timeline());
  found.erase(std::remove_if(found.begin(), found.end(),
                             [](const auto& op) { return !IsWork(op); }),
              found.end());
  return found;
}

absl::Status SetTimes(const std::vector<SimulatedOp>& work,
                      std::vector<TimelineOp>* ops) {
  uint64_t zero = std::numeric_limits<uint64_t>::max();
  OpsByStream by_stream;
  for (size_t i = 0; i < work.size(); ++i) {
    if (work[i].state != SimulatedOp::State::kDone) {
      return absl::InternalError(
          absl::StrFormat("operation \"%s\" is not complete", work[i].name));
    }
    zero = std::min(zero, work[i].begin_ns);
    by_stream[work[i].stream][work[i].seq] = i;
  }
  for (size_t i = 0; i < work.size(); ++i) {
    TimelineOp& op = (*ops)[i];
    op.begin_ns = work[i].begin_ns - zero;
    op.end_ns = work[i].end_ns - zero;
    op.waits = Waits(work[i], by_stream);
  }
  return absl::OkStatus();
}

}  // namespace devrt::tools
