// SPDX-License-Identifier: Apache-2.0
//
// Learns when each operation of the demo ran: from the simulator's own record
// of what happened; from timing events around every operation, which every
// accelerator with event timing has; or from the host's clock, by waiting for
// each operation.

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
  // Before the first operation, while the devices are idle.
  virtual absl::Status Start(const std::vector<Device>& devices) = 0;
  // Right before and after the submission of each operation to `stream`.
  virtual absl::Status Before(StreamRef stream) = 0;
  virtual absl::Status After(StreamRef stream) = 0;
  // When everything is complete: sets begin and end of all operations, which
  // are in order of submission, and, if the source knows them, their waits.
  virtual absl::Status Finish(std::vector<TimelineOp>* ops) = 0;
  // Whose clock it is, in words.
  virtual std::string clock() const = 0;
  // Whether After waits for the operation.
  virtual bool waits() const { return false; }
};

// UNIMPLEMENTED unless `backend` is a simulator.
absl::StatusOr<std::unique_ptr<Recorder>> MakeSimulatorRecorder(
    Backend backend);
// UNIMPLEMENTED unless `backend` has event timing.
absl::StatusOr<std::unique_ptr<Recorder>> MakeEventRecorder(Backend backend);
// For every backend: waits for each operation, and looks at the host's clock.
std::unique_ptr<Recorder> MakeHostRecorder();

}  // namespace devrt::tools

#endif  // DEVRT_TOOLS_DEMO_RECORDER_H_
