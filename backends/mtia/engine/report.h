// SPDX-License-Identifier: Apache-2.0

#ifndef DEVRT_BACKENDS_MTIA_ENGINE_REPORT_H_
#define DEVRT_BACKENDS_MTIA_ENGINE_REPORT_H_

#include <string>
#include <vector>

#include "backends/mtia/config/config.h"
#include "backends/mtia/engine/op.h"
#include "backends/mtia/engine/streams.h"

namespace devrt::mtia {

using HostThreadList = std::vector<const HostThread*>;

// Why a wait will not end.
enum class StuckReason : uint8_t {
  kWait,   // the thread waits, and no thread and no stream can go on
  kPoll,   // the thread polls, and no thread and no stream can go on
  kSteps,  // step_limit was reached
};

// Says which thread waits for what, from the thread that asks on, and owns the
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

  // Logs and stores the report of a wait that will not end.  `waiting` are the
  // thread that asks and the other threads that wait.  Returns the error for
  // the call.
  devrt_status Deadlock(const HostThreadList& waiting, StuckReason why);
  // Logs that a thread has waited for as long as the watchdog allows.
  void WarnWaiting(const HostThreadList& waiting) const;
  // Logs that the host function `op` has run for as long.
  void WarnHostFunc(const Op& op) const;

  // The last deadlock's text; empty if there was none since the reset.
  const std::string& deadlock() const { return deadlock_; }
  void Reset() { deadlock_.clear(); }

 private:
  std::string WaitingText(const HostThreadList& waiting) const;

  const Config* const config_;
  const Streams* const streams_;
  std::string deadlock_;
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_ENGINE_REPORT_H_
