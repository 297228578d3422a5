// SPDX-License-Identifier: Apache-2.0
//
// devrt trace: runs a program under the trace layer and writes what it did.

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/arguments.h"
#include "tools/command.h"
#include "tools/terminal.h"
#include "tools/text.h"
#include "tools/trace/ring_reader.h"
#include "tools/trace/trace_events.h"

namespace devrt::tools {
namespace {

constexpr char kDefaultOutput[] = "devrt-trace.json";
constexpr int kCannotRun = 126;
constexpr int kNotFound = 127;

// Written piece by piece, so that a full disk is noticed.
absl::Status WriteAll(int fd, const std::string& text) {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = write(fd, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return absl::DataLossError(std::strerror(errno));
    done += static_cast<size_t>(n);
  }
  return absl::OkStatus();
}

std::string LayersWithTrace() {
  const char* const others = std::getenv("DEVRT_LAYERS");
  return others == nullptr || *others == '\0' ? "trace"
                                              : absl::StrCat("trace,", others);
}

[[noreturn]] void Become(const std::vector<std::string>& words) {
  std::vector<char*> argv;
  for (const std::string& word : words) {
    argv.push_back(const_cast<char*>(word.c_str()));
  }
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  const int code = errno == ENOENT ? kNotFound : kCannotRun;
  absl::FPrintF(stderr, "devrt trace: %s cannot be run: %s\n",
                Printable(words[0]), std::strerror(errno));
  _exit(code);
}

// Runs `words` with `ring` as its ring file; its exit code as a shell has it.
absl::StatusOr<int> RunTraced(const std::vector<std::string>& words, int ring) {
  const std::string file = absl::StrFormat("/proc/%d/fd/%d", getpid(), ring);
  const std::string layers = LayersWithTrace();
  const pid_t child = fork();
  if (child < 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no process could be made: ", std::strerror(errno)));
  }
  if (child == 0) {
    setenv("DEVRT_LAYERS", layers.c_str(), 1);
    setenv("DEVRT_TRACE", file.c_str(), 1);
    Become(words);
  }
  // Ctrl-C is for the program; what it did until then is worth seeing.
  signal(SIGINT, SIG_IGN);
  signal(SIGQUIT, SIG_IGN);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

// Says what there is to say about a trace that is not whole.
void Remark(const TraceData& data) {
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

// 0, or kFailure with a line on stderr.
int Convert(int ring, int out, const std::string& output,
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
  absl::Status written = ftruncate(out, 0) == 0 || errno == EINVAL
                             ? WriteAll(out, text)
                             : absl::DataLossError(std::strerror(errno));
  if (!written.ok()) {
    return Failure(kTraceCommand,
                   absl::StrCat(Printable(output),
                                " could not be written: ", written.message()));
  }
  Remark(*data);
  absl::FPrintF(stderr,
                "devrt trace: %d calls, %d operations, %d arrows in %s; open "
                "it in ui.perfetto.dev\n",
                summary.calls, summary.operations, summary.arrows,
                Printable(output));
  return kSuccess;
}

int Run(const Arguments& arguments) {
  const std::vector<std::string>& words = arguments.words();
  const std::string from = arguments.Get("--from", "");
  if (words.empty() == from.empty()) {
    return UsageError(kTraceCommand,
                      words.empty() ? "no program given: devrt trace -- PROGRAM"
                                    : "--from takes no program");
  }
  const std::string output = arguments.Get("--output", kDefaultOutput);
  // First, so that nobody runs a program for an hour and has nothing.
  const int out =
      open(output.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY, 0666);
  if (out < 0) {
    return Failure(kTraceCommand,
                   absl::StrCat(Printable(output),
                                " cannot be written: ", std::strerror(errno)));
  }
  const auto close_out = absl::MakeCleanup([=] { close(out); });
  const int ring = from.empty()
                       ? memfd_create("devrt-trace", MFD_CLOEXEC)
                       : open(from.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY);
  if (ring < 0) {
    return Failure(
        kTraceCommand,
        absl::StrCat(from.empty() ? "memory for the trace" : Printable(from),
                     " cannot be had: ", std::strerror(errno)));
  }
  const auto close_ring = absl::MakeCleanup([=] { close(ring); });
  if (!from.empty()) return Convert(ring, out, output, from);
  const absl::StatusOr<int> code = RunTraced(words, ring);
  if (!code.ok()) return Failure(kTraceCommand, Explain(code.status()));
  // The program's result is what counts.
  const int converted = Convert(ring, out, output, words[0]);
  return *code != 0 ? *code : converted;
}

constexpr Flag kFlags[] = {
    {"--output", "FILE",
     "Write the trace there (default: devrt-trace.json in the current "
     "folder)."},
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
    "devices "
    "is in the trace, one track a host thread and one a stream, with an arrow "
    "for each wait and a counter for each device's memory. The file is in the "
    "Trace Event Format; open it in ui.perfetto.dev or chrome://tracing.\n"
    "The trace is kept in memory of this command, the last 16384 records of "
    "each thread, so that it survives a program that crashes. Of several "
    "processes the first that uses devrt is traced.\n"
    "Times of operations come from the simulator where there is one, else from "
    "events that the layer records around them. The exit code is that of the "
    "program; 1 if only the trace could not be written; 126 or 127 if the "
    "program could not be run.",
    kFlags,
    Run,
};

}  // namespace devrt::tools
