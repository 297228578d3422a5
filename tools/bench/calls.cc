// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/calls.h"

#include <errno.h>
#include <stdlib.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "devrt/runtime/status.h"
#include "tools/common/program.h"
#include "tools/common/terminal.h"
#include "tools/common/text.h"

namespace devrt::tools {
namespace {

absl::Status NoFolder(const std::string& which, const std::string& why) {
  return absl::UnavailableError(
      absl::StrCat("no folder ", which, " can be made: ", why,
                   "; let TMPDIR name a folder that can be written"));
}

// A folder that is removed with all that is in it.
class TemporaryFolder {
 public:
  static absl::StatusOr<TemporaryFolder> Make() {
    std::error_code error;
    const std::filesystem::path parent =
        std::filesystem::temp_directory_path(error);
    if (error) {
      const char* const named = std::getenv("TMPDIR");
      return NoFolder(named != nullptr ? absl::StrCat("in ", Printable(named))
                                       : "for temporary files",
                      error.message());
    }
    std::string path = (parent / "devrt-bench-XXXXXX").string();
    if (mkdtemp(path.data()) == nullptr) {
      const char* const why = std::strerror(errno);
      return NoFolder(Printable(path), why);
    }
    return TemporaryFolder(std::move(path));
  }
  TemporaryFolder(TemporaryFolder&& other) noexcept
      : path_(std::exchange(other.path_, "")) {}
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }

  const std::string& path() const { return path_; }

 private:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}

  std::string path_;
};

std::vector<std::string> CommandLine(const CallsOptions& options,
                                     const std::string& program) {
  std::vector<std::string> words = {options.python, "-B", program,
                                    "--backend=" + options.backend,
                                    absl::StrCat("--rounds=", options.rounds)};
  // Calls of a simulated device are no match for those of a GPU.
  if (options.backend == "mtia") words.emplace_back("--no-peers");
  if (options.json) words.emplace_back("--json=-");
  if (!options.picture.empty()) {
    words.push_back("--picture=" + AbsolutePath(options.picture));
  }
  return words;
}

}  // namespace

absl::StatusOr<int> MeasureCalls(const CallsOptions& options) {
  DEVRT_ASSIGN_OR_RETURN(const TemporaryFolder folder, TemporaryFolder::Make());
  const std::string program = folder.path() + "/python_bench.py";
  DEVRT_RETURN_IF_ERROR(WriteFile(program, kPythonBench));
  DEVRT_RETURN_IF_ERROR(
      WriteFile(folder.path() + "/ratio_chart.py", kRatioChart));
  DEVRT_ASSIGN_OR_RETURN(const EndedProgram ended,
                         RunProgram(CommandLine(options, program), {}));
  if (ended.cannot_be_run != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        Printable(options.python),
        " cannot be run: ", std::strerror(ended.cannot_be_run),
        "; name a Python that has the package devrt with --python"));
  }
  return ended.exit_code;
}

}  // namespace devrt::tools
