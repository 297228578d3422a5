// SPDX-License-Identifier: Apache-2.0
//
// Progress of a run of the conformance suite: prints failures as they come,
// shows on a terminal which test is running, and lets Ctrl-C end the run.

#ifndef DEVRT_TOOLS_CTS_PROGRESS_H_
#define DEVRT_TOOLS_CTS_PROGRESS_H_

#include <csignal>
#include <cstddef>
#include <vector>

#include "devrt/cts/cts.h"

namespace devrt::tools {

// While an object of this class lives, SIGINT, SIGTERM and SIGHUP do not end
// the process; the object remembers them.  Only one object may live at a time.
class Interruption {
 public:
  Interruption();
  ~Interruption();
  Interruption(const Interruption&) = delete;

  static bool WasSignalled();
  // 128 and the number of the signal, which is how shells report it.
  static int Code();

 private:
  struct sigaction before_[3];
};

class Progress : public cts::Observer {
 public:
  // `failures`: prints each failure when it comes.
  explicit Progress(bool failures);

  void Begin(const cts::TestInfo& test) override;
  void End(const cts::TestResult& result) override;
  bool Interrupted() override;
  // Removes the line about the running test from the terminal.
  void Clear();

 private:
  const bool failures_;
  const bool terminal_;  // standard error is a terminal
  bool shown_ = false;
  int done_ = 0, failed_ = 0;
};

}  // namespace devrt::tools

#endif  // DEVRT_TOOLS_CTS_PROGRESS_H_
