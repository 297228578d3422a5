// SPDX-License-Identifier: Apache-2.0
//
// Runs a program under the trace layer, and sees to it that its trace is
// written however the two of them are told to end.

#ifndef DEVRT_TOOLS_TRACE_TRACED_PROGRAM_H_
#define DEVRT_TOOLS_TRACE_TRACED_PROGRAM_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace devrt::tools {

struct TracedProgram {
  int exit_code = 0;      // as a shell has it: 128 and the number of a signal
  int cannot_be_run = 0;  // errno where there was no program to run
};

// Runs the program and arguments `words`, with the open file `ring` as its ring
// file, and waits for it.  SIGTERM and SIGHUP go on to the program; SIGINT and
// SIGQUIT, which a terminal sends to both, are for the program alone.
// Afterwards all four stay away, so that a trace can be written.
// RESOURCE_EXHAUSTED if no process can be made.
absl::StatusOr<TracedProgram> RunTraced(const std::vector<std::string>& words,
                                        int ring);

}  // namespace devrt::tools

#endif  // DEVRT_TOOLS_TRACE_TRACED_PROGRAM_H_
