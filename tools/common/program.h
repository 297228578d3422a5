// SPDX-License-Identifier: Apache-2.0
//
// Runs a program under a layer.  Signals that end the program leave this
// process alive, so that it can report what the layer wrote.
//
//   absl::StatusOr<EndedProgram> ended =
//       RunProgram({"./train"}, {{"DEVRT_LAYERS", LayersWith("trace")}});

#ifndef DEVRT_TOOLS_COMMON_PROGRAM_H_
#define DEVRT_TOOLS_COMMON_PROGRAM_H_

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace devrt::tools {

struct EndedProgram {
  int exit_code = 0;      // as in shells: 128 + N after signal N
  int cannot_be_run = 0;  // errno if the program could not be started
  // Of RunQuietly: the program was killed, because it took too long, or because
  // a signal asks this process to end.
  bool is_late = false;
  bool is_interrupted = false;
};

// Variables of the environment, and their values.
using Variables = std::vector<std::pair<std::string, std::string>>;

// Runs the command line `words` with `variables` added to its environment, and
// waits for its end.  Forwards SIGTERM and SIGHUP to the program.
// Ignores SIGINT and SIGQUIT, which a terminal sends to both.  Blocks all four
// at the end of the program, so that the caller can write its report.
// RESOURCE_EXHAUSTED if no process can be made.
absl::StatusOr<EndedProgram> RunProgram(const std::vector<std::string>& words,
                                        const Variables& variables);

// Runs the command line again after RunProgram, without input and output, for
// at most `limit`.  Then, and when one of the four signals arrives, the program
// is killed.  So are, in any case, the child processes that it leaves in its
// process group.  The signal stays pending, so that later calls end at once.
// RESOURCE_EXHAUSTED if no process can be made.
absl::StatusOr<EndedProgram> RunQuietly(const std::vector<std::string>& words,
                                        const Variables& variables,
                                        std::chrono::milliseconds limit);

// The value of DEVRT_LAYERS that puts `layer` before the layers that the
// variable names.  A layer that is named already keeps its place.
std::string LayersWith(const std::string& layer);

// The path by which the program and its children can open `fd` of this process,
// as long as the file is open here.
std::string PathOfOpenFile(int fd);

// What is in the file, from its begin.
std::string ReadAll(int fd);

}  // namespace devrt::tools

#endif  // DEVRT_TOOLS_COMMON_PROGRAM_H_
