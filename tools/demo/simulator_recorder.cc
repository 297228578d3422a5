// SPDX-License-Identifier: Apache-2.0
//
// Takes times and waits from the simulator's record.

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "devrt/runtime/simulator.h"
#include "devrt/runtime/status.h"
#include "tools/demo/recorder.h"
#include "tools/timeline/simulated.h"

namespace devrt::tools {
namespace {

class SimulatorRecorder final : public Recorder {
 public:
  SimulatorRecorder(Simulator simulator, std::string clock)
      : simulator_(simulator), clock_(std::move(clock)) {}

  absl::Status Start(const std::vector<Device>&) override {
    return simulator_.EnableTimeline(true);
  }
  absl::Status BeforeSubmit(StreamRef) override { return absl::OkStatus(); }
  absl::Status AfterSubmit(StreamRef) override { return absl::OkStatus(); }

  absl::Status Finish(std::vector<TimelineOp>* ops) override {
    DEVRT_ASSIGN_OR_RETURN(std::vector<SimulatedOp> work,
                           simulator_.Timeline());
    work.erase(std::remove_if(work.begin(), work.end(),
                              [](const SimulatedOp& op) {
                                return op.engine == SimulatedOp::Engine::kNone;
                              }),
               work.end());
    if (work.size() != ops->size()) {
      return absl::InternalError(absl::StrFormat(
          "the simulator ran %d operations, but %d were submitted", work.size(),
          ops->size()));
    }
    for (const SimulatedOp& op : work) {
      if (op.state == SimulatedOp::State::kDone) continue;
      return absl::InternalError(
          absl::StrFormat("operation \"%s\" is not complete", op.name));
    }
    SetTimes(work, ops);
    return absl::OkStatus();
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
