// SPDX-License-Identifier: Apache-2.0
//
// When operations ran on their device.

#ifndef DEVRT_LAYERS_TRACE_DEVICE_TIMES_H_
#define DEVRT_LAYERS_TRACE_DEVICE_TIMES_H_

#include <memory>

#include "devrt/backends/abi/devrt_layer.h"
#include "layers/trace/clock.h"
#include "layers/trace/recorder.h"

namespace devrt::trace {

// What is known of an operation before it is submitted.
struct OpMark {
  uint64_t number = 0;  // unique in the backend; 0: unknown
  devrt_event begin = nullptr;
};

// One backend's operations.  Threads: any.
class DeviceTimes {
 public:
  virtual ~DeviceTimes() = default;
  // Around the submission of an operation, of which one that failed leaves
  // nothing; `op` is its record as a call.
  virtual OpMark BeforeOp(devrt_stream) { return {}; }
  virtual void AfterOp(devrt_stream, const OpMark&, const Record& op) {
    (void)op;
  }
  virtual void OpFailed(devrt_stream, const OpMark&) {}
  virtual void StreamMade(devrt_stream, uint32_t device) { (void)device; }
  virtual void StreamGone(devrt_stream) {}
  // Something is complete: writes down what is known by now.
  virtual void Collect() = 0;
  // The last call: nothing of the backend's is kept after it.
  virtual void End() { Collect(); }
};

// By devrt.sim/1's timeline, which disturbs nothing; nullptr if `next` has
// none.
std::unique_ptr<DeviceTimes> TimesOfSimulator(const devrt_next_v0* next,
                                              const devrt_host_v0* host,
                                              Recorder* recorder, Clock* clock,
                                              uint8_t backend);
// By timing events before and after each operation; nullptr if `next` has none.
std::unique_ptr<DeviceTimes> TimesOfEvents(const devrt_next_v0* next,
                                           const devrt_host_v0* host,
                                           Recorder* recorder, Clock* clock,
                                           uint8_t backend);

}  // namespace devrt::trace

#endif  // DEVRT_LAYERS_TRACE_DEVICE_TIMES_H_
