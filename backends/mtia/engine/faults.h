// SPDX-License-Identifier: Apache-2.0

#ifndef DEVRT_BACKENDS_MTIA_ENGINE_FAULTS_H_
#define DEVRT_BACKENDS_MTIA_ENGINE_FAULTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "backends/mtia/config/config.h"
#include "backends/mtia/engine/history.h"
#include "backends/mtia/engine/op.h"
#include "backends/mtia/engine/scheduler.h"
#include "backends/mtia/engine/streams.h"

namespace devrt::mtia {

inline constexpr int32_t kLaunchFailure = 719;  // CUDA's number

// The fault `code` of `op`.  The text names the operation and its call site;
// `what` says what happened.
Fault DescribeFault(const Op& op, int32_t code, const std::string& what,
                    const Config& config);

// Owns the fault of each device, and says which errors calls return for it.
//
// A device's first fault stays until the reset.  All work of the device is
// discarded then, and so is work of other devices that waits for it.
//
// Threads: every member is called inside the machine.
class Faults {
 public:
  // All of them outlive this object.
  Faults(const Config* config, History* history, Streams* streams,
         Scheduler* scheduler)
      : config_(config),
        history_(history),
        streams_(streams),
        scheduler_(scheduler) {}

  // Begins a machine whose devices all work.
  void Start() { devices_.assign(config_->devices, Fault()); }

  // The fault of `device`; false as a bool if the device works.
  const Fault& of(uint32_t device) const { return devices_[device]; }

  // ---- what the call `entry` returns ----

  // The error of `device`, or NULL.
  devrt_status DeviceError(uint32_t device, const char* entry) const;
  // The error of the device of `s`, or of work that `s` waited for, or NULL.
  devrt_status StreamError(StreamCore* s, const char* entry);
  // The error of the first point that has failed, or NULL.  The failures of
  // all `points` count as reported: a destroyed stream's is reported once.
  devrt_status PointsError(const Points& points, const char* entry);

  // ---- what fails ----

  // Called when `op`, the first of its stream, has ended with `fault`.
  void FailOp(Op* op, Fault fault, VTime end);
  // Stores `fault` and discards the work, unless `device` has failed before.
  // With fault_scope=process all devices fail.
  void FailDevice(uint32_t device, Fault fault);

 private:
  const Config* const config_;
  History* const history_;
  Streams* const streams_;
  Scheduler* const scheduler_;
  std::vector<Fault> devices_;
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_ENGINE_FAULTS_H_
