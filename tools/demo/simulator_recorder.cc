// SPDX-License-Identifier: Apache-2.0
//
// Times and waits from the simulator's record of what happened.

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <utility>

#include "absl/strings/str_format.h"
#include "devrt/runtime/simulator.h"
#include "devrt/runtime/status.h"
#include "tools/demo/recorder.h"

namespace devrt::tools {
namespace {

bool IsWork(const SimulatedOp& op) {
  return op.kind != SimulatedOp::Kind::kRecord &&
         op.kind != SimulatedOp::Kind::kWait;
}

// For each stream, its operations by number: seq to index in the timeline.
using OpsByStream = std::map<uint64_t, std::map<uint64_t, size_t>>;

class SimulatorRecorder final : public Recorder {
 public:
  SimulatorRecorder(Simulator simulator, std::string clock)
      : simulator_(simulator), clock_(std::move(clock)) {}

  absl::Status Start(const std::vector<Device>&) override {
    return simulator_.EnableTimeline(true);
  }
  absl::Status Before(StreamRef) override { return absl::OkStatus(); }
  absl::Status After(StreamRef) override { return absl::OkStatus(); }

  absl::Status Finish(std::vector<TimelineOp>* ops) override {
    DEVRT_ASSIGN_OR_RETURN(std::vector<SimulatedOp> found,
                           simulator_.Timeline());
    found.erase(std::remove_if(found.begin(), found.end(),
                               [](const auto& op) { return !IsWork(op); }),
                found.end());
    if (found.size() != ops->size()) {
      return absl::InternalError(absl::StrFormat(
          "the simulator ran %d operations, but %d were submitted",
          found.size(), ops->size()));
    }
    uint64_t zero = std::numeric_limits<uint64_t>::max();
    OpsByStream by_stream;
    for (size_t i = 0; i < found.size(); ++i) {
      if (found[i].state != SimulatedOp::State::kDone) {
        return absl::InternalError(
            absl::StrFormat("operation \"%s\" is not complete", found[i].name));
      }
      zero = std::min(zero, found[i].begin_ns);
      by_stream[found[i].stream][found[i].seq] = i;
    }
    for (size_t i = 0; i < found.size(); ++i) {
      TimelineOp& op = (*ops)[i];
      op.begin_ns = found[i].begin_ns - zero;
      op.end_ns = found[i].end_ns - zero;
      op.waits = Waits(found[i], by_stream);
    }
    return absl::OkStatus();
  }

  std::string clock() const override { return clock_; }

 private:
  // A dependency may be the record of an event; what counts is the last work
  // before it.
  static std::vector<size_t> Waits(const SimulatedOp& op,
                                   const OpsByStream& by_stream) {
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

  Simulator simulator_;
  std::string clock_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Recorder>> MakeSimulatorRecorder(
    Backend backend) {
  DEVRT_ASSIGN_OR_RETURN(const Simulator simulator, Simulator::Get(backend));
  DEVRT_ASSIGN_OR_RETURN(const std::string config, simulator.Config());
  const bool threaded = config.find("mode=threaded") != std::string::npos;
  return std::unique_ptr<Recorder>(std::make_unique<SimulatorRecorder>(
      simulator, threaded ? "the simulator's wall clock"
                          : "the simulator's virtual clock"));
}

}  // namespace devrt::tools
