// SPDX-License-Identifier: Apache-2.0
//
// Recorder: measures when each operation of the demo ran.  There are three
// sources: the simulator's record; timing events around each operation, for
// backends with event timing; and the host's clock, which needs a wait for each
// operation.

#ifndef DEVRT_TOOLS_DEMO_RECORDER_H_
#define DEVRT_TOOLS_DEMO_RECORDER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "devrt/runtime/backend.h"
#include "devrt/runtime/device.h"
#include "devrt/streams/stream.h"
#include "tools/timeline/timeline.h"

namespace devrt::tools {

class Recorder {
 public:
  virtual ~Recorder() = default;
  // Call it before the first operation, while the devices are idle.
  virtual absl::Status Start(const std::vector<Device>& devices) = 0;
  // Call them right before and right after the submission of each operation.
  virtual absl::Status BeforeSubmit(StreamRef stream) = 0;
  virtual absl::Status AfterSubmit(StreamRef stream) = 0;
  // Call it when all operations are complete.  `ops` is in order of submission.
  // Sets begin_ns and end_ns of each operation.  The simulator's recorder sets
  // `waits` as well.
  virtual absl::Status Finish(std::vector<TimelineOp>* ops) = 0;
  // The source of the times, in words: "timing events".
  virtual std::string clock() const = 0;
  // True if AfterSubmit waits for the operation.
  virtual bool waits() const { return false; }
};

// Returns UNIMPLEMENTED if `backend` is no simulator.
absl::StatusOr<std::unique_ptr<Recorder>> MakeSimulatorRecorder(
    Backend backend);
// Returns UNIMPLEMENTED if `backend` has no event timing.
absl::StatusOr<std::unique_ptr<Recorder>> MakeEventRecorder(Backend backend);
// Works with every backend: waits for each operation and reads the host's
// clock.
std::unique_ptr<Recorder> MakeHostRecorder();

}  // namespace devrt::tools

#endif  // DEVRT_TOOLS_DEMO_RECORDER_H_
