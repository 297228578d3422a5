// SPDX-License-Identifier: Apache-2.0

#ifndef DEVRT_SIM_RUN_LIMIT_H_
#define DEVRT_SIM_RUN_LIMIT_H_

#include <time.h>

#include <chrono>
#include <string>

#include "absl/status/status.h"

namespace devrt::sim {

// Ends the process with a report on stderr if a run takes too long.  A thread
// that hangs cannot be ended otherwise, and a timer needs no thread, which the
// simulator would take for one that may still act.  Under a debugger there is
// no limit.  If the limit ends while the process is stopped, it begins anew.
//
// Takes the signal SIGALRM while the object is open.  Signals that are not of
// its timer go to the handler from before.
//
// Threads: one object at a time.
class RunLimit {
 public:
  explicit RunLimit(std::chrono::nanoseconds limit) : limit_(limit) {}
  RunLimit(const RunLimit&) = delete;
  RunLimit& operator=(const RunLimit&) = delete;
  ~RunLimit();

  absl::Status Open();
  // True once a limit has ended, so that the process ends.
  static bool HasExpired();

  // A part of the work that is limited, which `report` describes.  One at a
  // time.  The thread takes SIGALRM meanwhile, and ends the part itself.
  class Part {
   public:
    Part(RunLimit* limit, const std::string& report) : limit_(limit) {
      limit->Begin(report);
    }
    Part(const Part&) = delete;
    Part& operator=(const Part&) = delete;
    ~Part() { limit_->End(); }

   private:
    RunLimit* const limit_;
  };

 private:
  void Begin(const std::string& report);
  void End();

  const std::chrono::nanoseconds limit_;
  bool is_open_ = false;
  timer_t timer_{};
  bool was_blocked_ = false;  // SIGALRM, by the thread of the part
};

}  // namespace devrt::sim

#endif  // DEVRT_SIM_RUN_LIMIT_H_
