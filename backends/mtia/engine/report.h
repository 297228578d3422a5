// SPDX-License-Identifier: Apache-2.0

#ifndef DEVRT_BACKENDS_MTIA_ENGINE_REPORT_H_
#define DEVRT_BACKENDS_MTIA_ENGINE_REPORT_H_

#include <string>

#include "backends/mtia/config/config.h"
#include "backends/mtia/engine/op.h"
#include "backends/mtia/engine/streams.h"

namespace devrt::mtia {

// Why a wait will not end.
enum class StuckReason : uint8_t {
  kWait,   // the thread waits, and no thread and no stream can go on
  kPoll,   // the thread polls, and no thread and no stream can go on
  kSteps,  // step_limit was reached
};

// Says which thread waits for what, from the calling thread on, and owns the
// text of the last deadlock:
//
//   deadlock: host#0 stream_sync {s1, 7} (a.cc:88) -> s1 op 3 kernel
//   "flag_wait" (a.cc:71) -> flag#1, which no submitted operation sets
//
// Threads: every member is called inside the machine.
class Reports {
 public:
  // Both outlive this object.
  Reports(const Config* config, const Streams* streams)
      : config_(config), streams_(streams) {}

  // Logs and stores the report of `me`, whose wait will not end.  Returns the
  // error for the call.
  devrt_status Deadlock(HostThread* me, StuckReason why);
  // Logs that `me` has waited for as long as the watchdog allows.
  void WarnWaiting(const HostThread* me) const;
  // Logs that the host function `op` has run for as long.
  void WarnHostFunc(const Op& op) const;

  // The last deadlock's text; empty if there was none since the reset.
  const std::string& deadlock() const { return deadlock_; }
  void Reset() { deadlock_.clear(); }

 private:
  std::string WaitingText(const HostThread* me) const;

  const Config* const config_;
  const Streams* const streams_;
  std::string deadlock_;
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_ENGINE_REPORT_H_
