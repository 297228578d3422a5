// SPDX-License-Identifier: Apache-2.0
//
// devrt memory SNAPSHOT.json: reports on a snapshot of a device's memory.

#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "devrt/memory/history.h"
#include "tools/commands.h"
#include "tools/common/arguments.h"
#include "tools/common/terminal.h"
#include "tools/common/text.h"
#include "tools/memory/analysis.h"
#include "tools/memory/report.h"
#include "tools/memory/snapshot_reader.h"
#include "tools/memory/torch_pickle.h"

namespace devrt::tools {
namespace {

constexpr size_t kColumns = 1000;  // of memory over time
// The page has every event; of a longer history it has the last ones.
constexpr size_t kPageEvents = 200'000;

std::string FileName(const std::string& path) {
  const size_t slash = path.rfind('/');
  return path.substr(slash == std::string::npos ? 0 : slash + 1);
}

std::string PageOf(const MemoryReport& report) {
  const std::vector<MemoryEvent>& all = report.snapshot.events;
  if (all.size() <= kPageEvents) return MemoryPage(report);
  MemorySnapshot last = report.snapshot;
  last.events.assign(all.end() - kPageEvents, all.end());
  const MemoryAnalysis analysis = Analyse(last, kColumns);
  return MemoryPage({last, report.figures, analysis, report.title});
}

// Writes `text` to the file that the flag names, and prints where that is.
// Returns false if it fails.
bool WriteTo(const Command& command, const Arguments& arguments,
             const char* flag, const char* what, const std::string& text) {
  const std::string path = arguments.Get(flag, "");
  const absl::Status written = WriteFile(path, text);
  if (!written.ok()) {
    Failure(command, Explain(written));
    return false;
  }
  Print(absl::StrFormat("\n%s: %s\n", what, Printable(AbsolutePath(path))));
  return true;
}

int RunMemoryCommand(const Arguments& arguments) {
  if (arguments.words().size() != 1) {
    return UsageError(kMemoryCommand, "needs one snapshot's file");
  }
  const std::string& path = arguments.words()[0];
  const absl::StatusOr<std::string> json = ReadFile(path);
  if (!json.ok()) return Failure(kMemoryCommand, Explain(json.status()));
  const absl::StatusOr<SnapshotFile> file = ParseMemorySnapshot(*json);
  if (!file.ok()) {
    return Failure(kMemoryCommand, absl::StrFormat("%s is %s", Quoted(path),
                                                   file.status().message()));
  }
  const MemoryAnalysis analysis = Analyse(file->snapshot, kColumns);
  const MemoryReport report = {file->snapshot, file->figures, analysis,
                               FileName(path)};
  Print(MemoryText(report, Terminal::Detect().unicode));
  bool is_written = true;
  if (arguments.Has("--output")) {
    is_written &= WriteTo(kMemoryCommand, arguments, "--output", "Report",
                          PageOf(report));
  }
  if (arguments.Has("--torch")) {
    is_written &=
        WriteTo(kMemoryCommand, arguments, "--torch",
                "For PyTorch's memory viewer", ToTorchPickle(file->snapshot));
  }
  return is_written ? kSuccess : kFailure;
}

constexpr Flag kMemoryFlags[] = {
    {"--output", "FILE",
     "Write a page for the browser, with memory over time, a map of the "
     "segments, blocks, events, owners and fragmentation.",
     "-o"},
    {"--torch", "FILE",
     "Write the snapshot as a pickle that PyTorch's memory viewer opens."},
    kHelpFlag,
};

}  // namespace

const Command kMemoryCommand = {
    "memory",
    "SNAPSHOT",
    "What a snapshot of a device's memory says, as text and as a page.",
    "Reads a file that MemorySnapshotJson wrote, in Python "
    "json.dump(devrt.memory_snapshot(), file) "
    "(docs/reference/memory-snapshot.md), and "
    "prints what is in use, who holds it, and what is free in which pieces. "
    "The "
    "page (-o) needs no network and no other file.\n\n"
    "Example:\n  devrt memory run.json -o run.html",
    kMemoryFlags,
    RunMemoryCommand,
};

}  // namespace devrt::tools
