// SPDX-License-Identifier: Apache-2.0
//
// A run of the conformance suite as it goes on: failures as they come, what is
// running on a terminal, and an end by Ctrl-C.

#ifndef DEVRT_TOOLS_CTS_PROGRESS_H_
#define DEVRT_TOOLS_CTS_PROGRESS_H_

#include <csignal>
#include <cstddef>
#include <vector>

#include "devrt/cts/cts.h"

namespace devrt::tools {

// While one lives, SIGINT, SIGTERM and SIGHUP are noted instead of ending the
// process.  One at a time.
class Interruption {
 public:
  Interruption();
  ~Interruption();
  Interruption(const Interruption&) = delete;

  static bool Came();
  // The exit code of a process that the signal has ended, as shells have it.
  static int Code();

 private:
  struct sigaction before_[3];
};

class Progress : public cts::Observer {
 public:
  // `failures`: print them.
  explicit Progress(bool failures);

  void Begin(const cts::TestInfo& test) override;
  void End(const cts::TestResult& result) override;
  bool Interrupted() override;
  // Takes the line about what is running away.
  void Clear();

 private:
  const bool failures_;
  const bool terminal_;  // standard error is one
  bool shown_ = false;
  int done_ = 0, failed_ = 0;
};

}  // namespace devrt::tools

#endif  // DEVRT_TOOLS_CTS_PROGRESS_H_
