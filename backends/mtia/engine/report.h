// SPDX-License-Identifier: Apache-2.0

#ifndef DEVRT_BACKENDS_MTIA_ENGINE_REPORT_H_
#define DEVRT_BACKENDS_MTIA_ENGINE_REPORT_H_

#include <string>
#include <vector>

#include "backends/mtia/config/config.h"
#include "backends/mtia/engine/history.h"
#include "backends/mtia/engine/locks.h"
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
//   deadlock: host#0 devrt::sync (after a.cc:80) waits for lock#1, held by
//   host#1 (after b.cc:12) -> host#1 devrt::sync (after b.cc:12) waits for
//   lock#2, held by host#0 (after a.cc:80) (the cycle)
//
// Threads: every member is called inside the machine.
class Reports {
 public:
  // All of them outlive this object.
  Reports(const Config* config, const History* history, const Streams* streams,
          const Locks* locks)
      : config_(config), history_(history), streams_(streams), locks_(locks) {}

  // Logs and stores the report of a wait that will not end.  `waiting` are the
  // thread that asks and the other threads that wait.  Returns the error for
  // the call.
  devrt_status Deadlock(const HostThreadList& waiting, StuckReason why);
  // Logs that a thread has waited for as long as the watchdog allows.
  void WarnWaiting(const HostThreadList& waiting) const;
  // Logs that the host function `op` has run for as long.
  void WarnHostFunc(const Op& op) const;

  // Logs that a replay may differ from the run, if it may.
  void WarnUncontrolled() const;

  // The last deadlock's text; empty if there was none since the reset.
  const std::string& deadlock() const { return deadlock_; }
  void Reset() { deadlock_.clear(); }

 private:
  std::string WaitingText(const HostThreadList& waiting) const;
  std::string UncontrolledText() const;

  const Config* const config_;
  const History* const history_;
  const Streams* const streams_;
  const Locks* const locks_;
  std::string deadlock_;
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_ENGINE_REPORT_H_
