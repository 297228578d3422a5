// SPDX-License-Identifier: Apache-2.0
//
// devrt collectives report FOLDER: where the ranks of a job differ.

#include <string>

#include "absl/status/statusor.h"
#include "devrt/collectives/recorder.h"
#include "tools/commands.h"
#include "tools/common/arguments.h"
#include "tools/common/output_file.h"
#include "tools/common/terminal.h"
#include "tools/common/text.h"

namespace devrt::tools {
namespace {

int RunCollectivesCommand(const Arguments& arguments) {
  const auto& words = arguments.words();
  if (words.size() != 2 || words[0] != "report") {
    return UsageError(kCollectivesCommand,
                      "needs the word report and one folder");
  }
  const absl::StatusOr<std::string> text = collectives::Report(words[1]);
  if (!text.ok()) return Failure(kCollectivesCommand, Explain(text.status()));
  Print(*text);
  return kSuccess;
}

constexpr Flag kCollectivesFlags[] = {kHelpFlag};

}  // namespace

const Command kCollectivesCommand = {
    "collectives",
    "report FOLDER",
    "Where the ranks of a job that hangs or has failed differ.",
    "Reads the files that the ranks wrote to FOLDER, the value of "
    "DEVRT_COLLECTIVES_RECORD on every rank, and aligns them by the numbers of "
    "the collectives. For each communicator the report says at which call each "
    "rank is, with the line of the program, and where the ranks first differ. "
    "The job may still run, or may have been killed.\n\n"
    "Example:\n  devrt collectives report /scratch/me/job",
    kCollectivesFlags,
    RunCollectivesCommand,
};

}  // namespace devrt::tools
