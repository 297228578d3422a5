// SPDX-License-Identifier: Apache-2.0
//
// Takes times from the host's clock.  The host waits for each operation, so no
// two operations overlap.

#include <chrono>
#include <vector>

#include "devrt/runtime/status.h"
#include "tools/demo/recorder.h"

namespace devrt::tools {
namespace {

using Clock = std::chrono::steady_clock;

class HostRecorder final : public Recorder {
 public:
  absl::Status Start(const std::vector<Device>& devices) override {
    for (const Device device : devices) {
      DEVRT_RETURN_IF_ERROR(device.Synchronize());
    }
    zero_ = Clock::now();
    return absl::OkStatus();
  }
  // AfterSubmit() has waited for all earlier operations, so this wait is short.
  absl::Status BeforeSubmit(StreamRef stream) override {
    DEVRT_RETURN_IF_ERROR(stream.Synchronize());
    begins_.push_back(Now());
    return absl::OkStatus();
  }
  absl::Status AfterSubmit(StreamRef stream) override {
    DEVRT_RETURN_IF_ERROR(stream.Synchronize());
    ends_.push_back(Now());
    return absl::OkStatus();
  }
  absl::Status Finish(std::vector<TimelineOp>* ops) override {
    if (begins_.size() != ops->size() || ends_.size() != ops->size()) {
      return absl::InternalError("operations and times do not match");
    }
    for (size_t i = 0; i < ops->size(); ++i) {
      (*ops)[i].begin_ns = begins_[i] - begins_.front();
      (*ops)[i].end_ns = ends_[i] - begins_.front();
    }
    return absl::OkStatus();
  }
  std::string clock() const override { return "the host's clock"; }
  bool waits() const override { return true; }

 private:
  uint64_t Now() const {
    return static_cast<uint64_t>(
        std::chrono::nanoseconds(Clock::now() - zero_).count());
  }

  Clock::time_point zero_;
  std::vector<uint64_t> begins_;  // one for each operation
  std::vector<uint64_t> ends_;
};

}  // namespace

std::unique_ptr<Recorder> MakeHostRecorder() {
  return std::make_unique<HostRecorder>();
}

}  // namespace devrt::tools
