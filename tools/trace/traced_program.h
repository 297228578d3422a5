// SPDX-License-Identifier: Apache-2.0
//
// Runs a program under the trace layer.  Signals that end the program leave
// this process alive, so that it can write the trace.

#ifndef DEVRT_TOOLS_TRACE_TRACED_PROGRAM_H_
#define DEVRT_TOOLS_TRACE_TRACED_PROGRAM_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace devrt::tools {

struct TracedProgram {
  int exit_code = 0;      // as in shells: 128 + N after signal N
  int cannot_be_run = 0;  // errno if the program could not be started
};

// Runs the command line `words` with the open file `ring` as its ring file, and
// waits for its end.  Forwards SIGTERM and SIGHUP to the program.
// Ignores SIGINT and SIGQUIT, which a terminal sends to both.  Blocks all four
// at the end of the program, so that the trace can be written.
// RESOURCE_EXHAUSTED if no process can be made.
absl::StatusOr<TracedProgram> RunTraced(const std::vector<std::string>& words,
                                        int ring);

}  // namespace devrt::tools

#endif  // DEVRT_TOOLS_TRACE_TRACED_PROGRAM_H_
