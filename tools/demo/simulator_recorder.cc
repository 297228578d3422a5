// SPDX-License-Identifier: Apache-2.0
//
// Times and waits from the simulator's record of what happened.

#include <utility>

#include "absl/strings/str_format.h"
#include "devrt/runtime/simulator.h"
#include "devrt/runtime/status.h"
#include "tools/demo/recorder.h"
#include "tools/demo/simulated_work.h"

namespace devrt::tools {
namespace {

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
    DEVRT_ASSIGN_OR_RETURN(const std::vector<SimulatedOp> found,
                           SimulatedWork(simulator_));
    if (found.size() != ops->size()) {
      return absl::InternalError(absl::StrFormat(
          "the simulator ran %d operations, but %d were submitted",
          found.size(), ops->size()));
    }
    return SetTimes(found, ops);
  }

  std::string clock() const override { return clock_; }

 private:
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
