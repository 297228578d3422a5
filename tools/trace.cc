// SPDX-License-Identifier: Apache-2.0
//
// devrt trace: runs a program under the trace layer and writes the trace.

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/commands.h"
#include "tools/common/arguments.h"
#include "tools/common/output_file.h"
#include "tools/common/program.h"
#include "tools/common/terminal.h"
#include "tools/common/text.h"
#include "tools/trace/ring_reader.h"
#include "tools/trace/trace_events.h"

namespace devrt::tools {
namespace {

constexpr char kDefaultOutput[] = "devrt-trace.json";
// Prints what an incomplete trace lacks.
void PrintLosses(const TraceData& data) {
  if (data.overwritten > 0) {
    absl::FPrintF(stderr,
                  "devrt trace: %d older records were overwritten; the trace "
                  "is of the end of the run\n",
                  data.overwritten);
  }
  static constexpr const char* kWhatIsLost[] = {
      "records for which there was no room on the disk",
      "records of further threads",
      "operations with more than a thousand others of their stream behind them",
      "operations whose times their device does not tell",
  };
  static_assert(std::size(kWhatIsLost) == trace::kLosses);
  for (uint32_t i = 0; i < trace::kLosses; ++i) {
    if (data.lost[i] == 0) continue;
    absl::FPrintF(stderr, "devrt trace: lost: %d %s\n", data.lost[i],
                  kWhatIsLost[i]);
  }
  if (data.refused_processes > 0) {
    absl::FPrintF(stderr,
                  "devrt trace: only process %d is traced; %d others used "
                  "devrt too\n",
                  data.pid, data.refused_processes);
  }
}

// Returns kSuccess; or prints an error and returns kFailure.
int Convert(int ring, OutputFile* out, const std::string& output,
            const std::string& program) {
  const absl::StatusOr<TraceData> data = ReadTrace(ring);
  if (!data.ok()) {
    return Failure(kTraceCommand,
                   absl::StrCat("no trace: ", Explain(data.status())));
  }
  if (data->pid == 0) {
    return Failure(kTraceCommand,
                   "no trace: the program opened no devrt backend under the "
                   "trace layer");
  }
  TraceSummary summary;
  const std::string text = TraceEvents(*data, program, &summary);
  if (const absl::Status written = out->Write(text); !written.ok()) {
    return Failure(kTraceCommand,
                   absl::StrCat(Printable(output),
                                " could not be written: ", written.message()));
  }
  PrintLosses(*data);
  absl::FPrintF(stderr,
                "devrt trace: %d calls, %d operations, %d arrows in %s; open "
                "it in ui.perfetto.dev\n",
                summary.calls, summary.operations,
                summary.submissions + summary.waits, Printable(output));
  return kSuccess;
}

int ConvertRing(const std::string& from, OutputFile* out,
                const std::string& output) {
  // NONBLOCK: opening a pipe must not wait.
  const int ring =
      open(from.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
  if (ring < 0) {
    return Failure(kTraceCommand,
                   absl::StrCat(Printable(from),
                                " cannot be read: ", std::strerror(errno)));
  }
  const auto close_ring = absl::MakeCleanup([=] { close(ring); });
  if (out->IsSameFile(ring)) {
    return Failure(kTraceCommand, absl::StrCat(Printable(output),
                                               " is the ring file itself: "
                                               "name another one with -o"));
  }
  return Convert(ring, out, output, from);
}

int RunAndConvert(const std::vector<std::string>& words, OutputFile* out,
                  const std::string& output) {
  const int ring = memfd_create("devrt-trace", MFD_CLOEXEC);
  if (ring < 0) {
    return Failure(kTraceCommand, absl::StrCat("no memory for the trace: ",
                                               std::strerror(errno)));
  }
  const auto close_ring = absl::MakeCleanup([=] { close(ring); });
  const absl::StatusOr<EndedProgram> program =
      RunProgram(words, {{"DEVRT_LAYERS", LayersWith("trace")},
                         {"DEVRT_TRACE", PathOfOpenFile(ring)}});
  if (!program.ok()) return Failure(kTraceCommand, Explain(program.status()));
  if (program->cannot_be_run != 0) {
    Failure(kTraceCommand, absl::StrCat(Printable(words[0]), " cannot be run: ",
                                        std::strerror(program->cannot_be_run)));
    return program->exit_code;
  }
  // A failure of the program hides a failure of the trace.
  const int converted = Convert(ring, out, output, words[0]);
  return program->exit_code != 0 ? program->exit_code : converted;
}

int RunTraceCommand(const Arguments& arguments) {
  const std::vector<std::string>& words = arguments.words();
  const std::string from = arguments.Get("--from", "");
  if (words.empty() == from.empty()) {
    return UsageError(kTraceCommand,
                      words.empty() ? "no program given: devrt trace -- PROGRAM"
                                    : "--from takes no program");
  }
  const std::string output = arguments.Get("--output", kDefaultOutput);
  // Before the program, which may run for an hour, learn if this can be
  // written.
  const absl::StatusOr<std::unique_ptr<OutputFile>> out =
      OutputFile::Open(output);
  if (!out.ok()) return Failure(kTraceCommand, Explain(out.status()));
  return from.empty() ? RunAndConvert(words, out->get(), output)
                      : ConvertRing(from, out->get(), output);
}

constexpr Flag kTraceFlags[] = {
    {"--output", "FILE",
     "Write the trace there (default: devrt-trace.json in the current "
     "folder).",
     "-o"},
    {"--from", "RING",
     "Run nothing; read the ring file that a program wrote with "
     "DEVRT_LAYERS=trace DEVRT_TRACE=RING."},
    kHelpFlag};

}  // namespace

const Command kTraceCommand = {
    "trace",
    "PROGRAM...",
    "Run a program and write down what it did, for a trace viewer.",
    "Runs PROGRAM with its arguments under the trace layer: devrt trace -- "
    "./train --steps=10. Every call of devrt and every operation of its "
    "devices is in the trace, one track a host thread and below them one a "
    "stream, with an arrow from each call to its operation, one for each wait, "
    "and a counter for each device's memory. The file is in the "
    "Trace Event Format; open it in ui.perfetto.dev or chrome://tracing.\n"
    "The trace is kept in memory of this command, the last 16384 records of "
    "each thread, so that it survives a program that crashes. Of several "
    "processes the first that uses devrt is traced.\n"
    "Times of operations come from the simulator where there is one, else from "
    "events that the layer records around them. Where the simulator's time is "
    "virtual, its calls are timed by it, too. The exit code is that of the "
    "program; 1 if only the trace could not be written; 126 or 127 if the "
    "program could not be run.",
    kTraceFlags,
    RunTraceCommand,
};

}  // namespace devrt::tools
