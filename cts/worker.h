// SPDX-License-Identifier: Apache-2.0
//
// A worker: the process that runs the plugin.

#ifndef DEVRT_CTS_WORKER_H_
#define DEVRT_CTS_WORKER_H_

#include <cstddef>
#include <vector>

#include "cts/recorder.h"
#include "cts/test.h"
#include "devrt/cts/cts.h"

namespace devrt::cts {

// The resources that a worker shares with its supervisor.
struct Shared {
  int pipe;        // to the supervisor
  int log;         // the file that standard output and error go to
  CallRing* ring;  // may be nullptr
};

// Opens the plugin, runs `tests` (indices into Catalog()) up to the first that
// fails, and reports to the pipe.  Returns the process's exit code.
int RunWorker(const Options& options, const std::vector<size_t>& tests,
              const Shared& shared);

}  // namespace devrt::cts

#endif  // DEVRT_CTS_WORKER_H_
