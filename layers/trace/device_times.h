// SPDX-License-Identifier: Apache-2.0
//
// The times at which operations ran on their device.

#ifndef DEVRT_LAYERS_TRACE_DEVICE_TIMES_H_
#define DEVRT_LAYERS_TRACE_DEVICE_TIMES_H_

#include <memory>

#include "devrt/backends/abi/devrt_layer.h"
#include "layers/trace/clock.h"
#include "layers/trace/recorder.h"

namespace devrt::trace {

// Facts about an operation before its submission.
struct OpMark {
  uint64_t number = 0;  // unique in the backend; 0: unknown
  devrt_event begin = nullptr;
};

// The operations of one backend.  Threads: any.
class DeviceTimes {
 public:
  virtual ~DeviceTimes() = default;
  // BeforeOp and then AfterOp or OpFailed surround the submission of an
  // operation; a failed one leaves no record.  `op` is the record of the call.
  virtual OpMark BeforeOp(devrt_stream) { return {}; }
  virtual void AfterOp(devrt_stream, const OpMark&, const Record& op) {
    (void)op;
  }
  virtual void OpFailed(devrt_stream, const OpMark&) {}
  virtual void StreamMade(devrt_stream, uint32_t device) { (void)device; }
  virtual void StreamGone(devrt_stream) {}
  // Writes records of the operations that are complete.
  virtual void Collect() = 0;
  // The last call: afterwards no object of the backend is in use.
  virtual void End() { Collect(); }
};

// Reads devrt.sim/1's timeline, which does not disturb the run; nullptr if
// `next` lacks the extension.
std::unique_ptr<DeviceTimes> TimesOfSimulator(const devrt_next_v0* next,
                                              const devrt_host_v0* host,
                                              Recorder* recorder, Clock* clock,
                                              uint8_t backend);
// Records timing events before and after each operation; nullptr if `next`
// lacks them.
std::unique_ptr<DeviceTimes> TimesOfEvents(const devrt_next_v0* next,
                                           const devrt_host_v0* host,
                                           Recorder* recorder, Clock* clock,
                                           uint8_t backend);

}  // namespace devrt::trace

#endif  // DEVRT_LAYERS_TRACE_DEVICE_TIMES_H_
