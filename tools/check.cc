// SPDX-License-Identifier: Apache-2.0
//
// devrt check: runs a program under the validate layer, and reports what the
// layer found.

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "devrt/runtime/status.h"
#include "tools/check/reports.h"
#include "tools/check/witness.h"
#include "tools/commands.h"
#include "tools/common/arguments.h"
#include "tools/common/output_file.h"
#include "tools/common/program.h"
#include "tools/common/terminal.h"
#include "tools/common/text.h"
#include "tools/timeline/finding_picture.h"

namespace devrt::tools {
namespace {

constexpr int kFindings = 3;  // the exit code, unless the program failed
constexpr int kMostExitCode = 255;

struct Options {
  std::vector<std::string> words;  // the program's command line
  bool throws = false;
  bool leaks = false;
  bool stacks = true;
  int witness_runs = 0;    // 0: no witness is wanted
  std::string host_order;  // empty: that of the environment
  std::string json;
  std::string sarif;
  std::string svg;
  std::string suppressions;
  int exit_code = kFindings;
};

absl::Status CheckTwoFiles(const char* flag, const std::string& path,
                           const char* other_flag,
                           const std::string& other_path) {
  std::error_code ignored;
  if (path.empty() || other_path.empty() ||
      (path != other_path &&
       !std::filesystem::equivalent(path, other_path, ignored))) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrFormat(
      "%s and %s name the same file, %s", flag, other_flag, Quoted(path)));
}

absl::StatusOr<int> ReadWitnessRuns(const Arguments& arguments) {
  constexpr int kUsualRuns = 64;
  constexpr int kMostRuns = 1'000'000;
  if (!arguments.Has("--witness")) return 0;
  if (arguments.Has("--throw")) {
    return absl::InvalidArgumentError(
        "--throw leaves out the work that --witness shows; give one of them");
  }
  if (arguments.Get("--witness", "") == "true") return kUsualRuns;
  DEVRT_ASSIGN_OR_RETURN(
      const int64_t runs,
      arguments.GetNumber("--witness", kUsualRuns, 1, kMostRuns));
  return static_cast<int>(runs);
}

absl::StatusOr<Options> ReadOptions(const Arguments& arguments) {
  Options options;
  options.words = arguments.words();
  if (options.words.empty()) {
    return absl::InvalidArgumentError(
        "no program given: devrt check -- PROGRAM");
  }
  options.throws = arguments.Has("--throw");
  DEVRT_ASSIGN_OR_RETURN(options.witness_runs, ReadWitnessRuns(arguments));
  options.leaks = arguments.Has("--leaks");
  options.stacks = !arguments.Has("--no-stacks");
  options.host_order = arguments.Get("--host-order", "");
  if (!options.host_order.empty() && options.host_order != "observed" &&
      options.host_order != "exact") {
    return absl::InvalidArgumentError(absl::StrCat(
        "--host-order is observed or exact, not ", Quoted(options.host_order)));
  }
  options.json = arguments.Get("--json", "");
  options.sarif = arguments.Get("--sarif", "");
  options.svg = arguments.Get("--svg", "");
  options.suppressions = arguments.Get("--suppressions", "");
  DEVRT_ASSIGN_OR_RETURN(
      const int64_t code,
      arguments.GetNumber("--error-exitcode", kFindings, 0, kMostExitCode));
  options.exit_code = static_cast<int>(code);
  DEVRT_RETURN_IF_ERROR(
      CheckTwoFiles("--json", options.json, "--sarif", options.sarif));
  DEVRT_RETURN_IF_ERROR(CheckTwoFiles("--json", options.json, "--suppressions",
                                      options.suppressions));
  DEVRT_RETURN_IF_ERROR(CheckTwoFiles("--sarif", options.sarif,
                                      "--suppressions", options.suppressions));
  return options;
}

absl::Status CannotWrite(const std::string& path, const char* why) {
  return absl::InvalidArgumentError(
      absl::StrCat(Printable(path), " cannot be written: ", why));
}

// Opens the file that the layer writes: `path`, or one without a name.
absl::StatusOr<int> OpenFindings(const std::string& path) {
  if (path.empty()) {
    const int fd = memfd_create("devrt-check", MFD_CLOEXEC);
    if (fd >= 0) return fd;
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory for the findings: ", std::strerror(errno)));
  }
  // NONBLOCK: opening a pipe must not wait.
  const int fd = open(
      path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666);
  if (fd < 0) return CannotWrite(path, std::strerror(errno));
  struct stat info;
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    close(fd);
    return CannotWrite(path, "it is no regular file; name one with --json");
  }
  if (ftruncate(fd, 0) != 0) {
    const int error = errno;
    close(fd);
    return CannotWrite(path, std::strerror(error));
  }
  return fd;
}

absl::Status MakeFolder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "the folder %s cannot be made: %s", Printable(path), error.message()));
  }
  if (access(path.c_str(), W_OK | X_OK) != 0) {
    return CannotWrite(path, std::strerror(errno));
  }
  return absl::OkStatus();
}

const char* ModeFor(const Options& options) {
  if (options.throws) return "throw";
  return options.witness_runs > 0 ? "witness" : "report";
}

Variables VariablesFor(const Options& options, int findings) {
  Variables variables = {
      {"DEVRT_LAYERS", LayersWith("validate")},
      {"DEVRT_RACE", ModeFor(options)},
      // The program may change its folder before it opens a backend.
      {"DEVRT_RACE_FILE", options.json.empty() ? PathOfOpenFile(findings)
                                               : AbsolutePath(options.json)},
  };
  if (options.leaks) variables.emplace_back("DEVRT_RACE_LEAKS", "on");
  if (!options.stacks) {
    variables.emplace_back("DEVRT_RACE_STACKS", "off");
  } else if (const char* const chosen = std::getenv("DEVRT_RACE_STACKS");
             chosen == nullptr || *chosen == '\0') {
    variables.emplace_back("DEVRT_RACE_STACKS", "on");
  }
  if (!options.host_order.empty()) {
    variables.emplace_back("DEVRT_RACE_HOST_ORDER", options.host_order);
  }
  if (!options.suppressions.empty()) {
    variables.emplace_back("DEVRT_RACE_SUPPRESSIONS",
                           AbsolutePath(options.suppressions));
  }
  return variables;
}

// Why the program could not be started, and what to do.
std::string CannotRun(const std::string& program, int error) {
  std::string remedy;
  switch (error) {
    case ENOENT:
      if (program.find('/') == std::string::npos) {
        remedy =
            "; it is in no folder of PATH. Write a program of this folder as "
            "./" +
            Printable(program);
      } else {
        remedy = access(program.c_str(), F_OK) == 0
                     ? "; its first line names an interpreter that does not "
                       "exist"
                     : "; give the path of a file that exists";
      }
      break;
    case EACCES:
      remedy =
          "; make the file executable (chmod +x), or run its interpreter, "
          "as in: devrt check -- python3 FILE";
      break;
    case ENOEXEC:
      remedy =
          "; a script needs a first line such as #!/bin/sh, or run its "
          "interpreter, as in: devrt check -- python3 FILE";
      break;
    default:
      break;
  }
  return absl::StrCat(Printable(program),
                      " cannot be run: ", std::strerror(error), remedy);
}

// True if the layer wrote each finding's text to standard error.
bool LayerHasPrinted() {
  const char* const level = std::getenv("DEVRT_LOG");
  return level == nullptr ||
         (std::strcmp(level, "error") != 0 && std::strcmp(level, "off") != 0);
}

int WritePictures(const CheckedRun& run, const std::string& folder) {
  int code = kSuccess;
  for (const CheckedFinding& finding : run.findings) {
    if (!finding.IsOfPair()) continue;
    const std::string path = absl::StrCat(folder, "/", finding.id, ".svg");
    const absl::Status written =
        WriteFile(path, SvgTimeline(FindingPicture(finding)));
    if (!written.ok()) code = Failure(kCheckCommand, Explain(written));
  }
  return code;
}

// Writes the files.  Prints an error for each that cannot be written.
int WriteFiles(const Options& options, const CheckedRun& run,
               int program_exit_code, OutputFile* sarif) {
  int code = options.svg.empty() ? kSuccess : WritePictures(run, options.svg);
  if (sarif == nullptr) return code;
  const absl::Status written =
      sarif->Write(CheckSarif(run, options.words, program_exit_code));
  if (written.ok()) return code;
  return Failure(kCheckCommand,
                 absl::StrCat(Printable(options.sarif),
                              " could not be written: ", written.message()));
}

std::string NothingChecked(const CheckedRun& run) {
  const std::string text =
      "nothing was checked: the program opened no devrt backend under the "
      "validate layer";
  if (run.begun > 0) return text;
  return text +
         ", which was not loaded. Either the program uses no backend, or it "
         "chooses its layers itself (devrt::SetLayers), or the layer cannot be "
         "loaded: DEVRT_LAYERS=validate devrt list says why. A program that "
         "contains devrt finds layers by DEVRT_LAYER_PATH";
}

// Reports what the program did; returns the exit code.
int Conclude(const Options& options, const CheckedRun& run, int program,
             OutputFile* sarif) {
  if (run.backends == 0 && run.findings.empty()) {
    Failure(kCheckCommand, NothingChecked(run));
    return program != 0 ? program : kFailure;
  }
  absl::FPrintF(stderr, "%s", CheckSummary(run, !LayerHasPrinted()));
  int written = WriteFiles(options, run, program, sarif);
  // What the layer could not write may have been a finding.
  if (run.damaged > 0) written = kFailure;
  if (program != 0) return program;
  if (run.findings.empty() || options.exit_code == kSuccess) return written;
  return options.exit_code;
}

// Finds the witnesses, and adds them to the file of findings.
void AddWitnesses(const WitnessSearch& search, int findings, CheckedRun* run) {
  if (!run->findings.empty() && run->simulators > 0) {
    absl::FPrintF(
        stderr, "devrt check: looks for a witness of %s, in at most %s each\n",
        Counted(run->findings.size(), "finding"),
        Counted(search.runs, "directed run"));
  }
  FindWitnesses(search, run);
  lseek(findings, 0, SEEK_END);
  for (const CheckedFinding& finding : run->findings) {
    const std::string line = WitnessRecord(finding);
    const ssize_t written = write(findings, line.data(), line.size());
    if (written == static_cast<ssize_t>(line.size())) continue;
    Failure(kCheckCommand, "the witnesses could not be written");
    return;
  }
}

int RunAndReport(const Options& options, int findings, OutputFile* sarif) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  const Variables variables = VariablesFor(options, findings);
  const absl::StatusOr<EndedProgram> program =
      RunProgram(options.words, variables);
  if (!program.ok()) return Failure(kCheckCommand, Explain(program.status()));
  if (program->cannot_be_run != 0) {
    Failure(kCheckCommand, CannotRun(options.words[0], program->cannot_be_run));
    return program->exit_code;
  }
  CheckedRun run = ReadFindings(ReadAll(findings));
  if (options.witness_runs > 0) {
    const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(
        Clock::now() - begin);
    AddWitnesses({options.words, variables, options.witness_runs, took},
                 findings, &run);
  }
  return Conclude(options, run, program->exit_code, sarif);
}

// Before the program, which may run for an hour, learns if all files can be
// read and written.
absl::StatusOr<int> Prepare(const Options& options) {
  if (!options.suppressions.empty()) {
    DEVRT_RETURN_IF_ERROR(ReadFile(options.suppressions).status());
  }
  if (!options.svg.empty()) DEVRT_RETURN_IF_ERROR(MakeFolder(options.svg));
  std::unique_ptr<OutputFile> sarif;
  if (!options.sarif.empty()) {
    DEVRT_ASSIGN_OR_RETURN(sarif, OutputFile::Open(options.sarif));
  }
  DEVRT_ASSIGN_OR_RETURN(const int findings, OpenFindings(options.json));
  const auto close_findings = absl::MakeCleanup([=] { close(findings); });
  return RunAndReport(options, findings, sarif.get());
}

int RunCheckCommand(const Arguments& arguments) {
  const absl::StatusOr<Options> options = ReadOptions(arguments);
  if (!options.ok()) {
    return UsageError(kCheckCommand, Explain(options.status()));
  }
  const absl::StatusOr<int> code = Prepare(*options);
  return code.ok() ? *code : Failure(kCheckCommand, Explain(code.status()));
}

constexpr Flag kCheckFlags[] = {
    {"--error-exitcode", "N",
     "The exit code if there are findings and the program succeeded (default: "
     "3). 0: findings do not fail the command."},
    {"--host-order", "ORDER",
     "observed: calls of all host threads count as ordered as they were made "
     "(default). exact: only devrt::sync and Python's threading order them."},
    {"--json", "FILE", "Write the findings there, a line of JSON for each."},
    {"--leaks", nullptr,
     "Report objects that are alive when the program ends, also if it does not "
     "call Shutdown."},
    {"--no-stacks", nullptr,
     "Name the lines of the two operations only, and not the calls that led "
     "there. Taking stacks costs microseconds for each operation."},
    {"--sarif", "FILE",
     "Write the findings there as SARIF 2.1.0, for code hosts and editors."},
    {"--suppressions", "FILE",
     "Leave out the findings that this file names with reasons."},
    {"--svg", "FOLDER",
     "Draw a picture of each finding's streams there, with the missing wait in "
     "red: ID.svg."},
    {"--throw", nullptr,
     "A call that enqueues work or declares a use fails with "
     "FAILED_PRECONDITION if it has a finding, and its work is left out."},
    {"--witness", "[RUNS]",
     "Run the program again on the simulator, in schedules that hold the "
     "earlier operation of a finding, until it computes a wrong value: at most "
     "RUNS times for each finding (default: 64)."},
    kHelpFlag};

}  // namespace

const Command kCheckCommand = {
    "check",
    "PROGRAM...",
    "Run a program and find races between its streams.",
    "Runs PROGRAM with its arguments under the validate layer: devrt check -- "
    "./train --steps=10. The layer follows which work comes after which other "
    "work, and what each uses. It finds missing waits, uses of freed memory "
    "and host accesses to memory in flight, in one run, on every backend, also "
    "if the run happened to compute the right values.\n"
    "A finding is printed when it occurs. At the end the command prints each "
    "distinct finding once, with its places and how often it occurred. Child "
    "processes of the program are checked too.\n"
    "The exit code is that of the program if it failed, 128 plus the signal's "
    "number if a signal ended it; else 3, or N of --error-exitcode, if there "
    "are findings; 1 if nothing was checked because the program opened no "
    "backend, or if a file could not be written; 126 or 127 if the program "
    "could not be run.",
    kCheckFlags,
    RunCheckCommand,
};

}  // namespace devrt::tools
