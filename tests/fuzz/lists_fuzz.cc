// SPDX-License-Identifier: Apache-2.0
//
// The lists in DEVRT_BACKENDS, DEVRT_PLUGINS and DEVRT_PLUGIN_PATH, and run
// paths.  The input's lines are, in order, one of each and the name of a
// needed library.

#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_split.h"
#include "runtime/common/text.h"
#include "runtime/loader/bundle.h"
#include "runtime/loader/selection.h"
#include "runtime/registry/discovery.h"
#include "runtime/registry/load_report.h"
#include "tests/fuzz/entry.h"

namespace devrt::internal {
namespace {

constexpr size_t kLongestInput = 4096;  // longer ones find nothing new

bool IsPrintable(std::string_view text) {
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return false;
  }
  return true;
}

void TrySelection(const std::string& text) {
  const absl::StatusOr<Selection> selection = Selection::Parse(text);
  if (selection.ok()) {
    selection->Selects("mtia");
  } else {
    FUZZ_EXPECT(IsPrintable(ToStd(selection.status().message())));
  }
}

void TryDiscovery(const Environment& environment) {
  std::vector<LoadAttempt> attempts;
  for (const Finding& finding : Discover(environment)) {
    attempts.push_back(finding.attempt);
    const bool found = finding.attempt.result == LoadAttempt::Result::kFound;
    FUZZ_EXPECT(found != finding.canonical.empty() ||
                finding.attempt.result == LoadAttempt::Result::kShadowed);
    FUZZ_EXPECT(IsPrintable(ToStd(finding.attempt.status.message())));
  }
  FUZZ_EXPECT(!NotFoundError("mtia", attempts).ok());
  FormatAttempts(attempts);
}

void TryRunPath(const std::string& run_path, const std::string& needed) {
  PluginFile file;
  file.path = file.real_path = "/nowhere/libdevrt_x.so";
  file.contents.run_path = run_path;
  file.contents.needed = {needed};
  const Bundle bundle = FindBundle(file);
  FUZZ_EXPECT(IsPrintable(ToStd(bundle.status().message())));
}

void Try(std::string_view text) {
  std::vector<std::string> lines =
      absl::StrSplit(ToAbsl(text.substr(0, kLongestInput)), '\n');
  lines.resize(5);
  TrySelection(lines[0]);
  Environment environment;
  environment.plugin_path = lines[2];
  TryDiscovery(environment);
  environment.plugins = lines[1];
  TryDiscovery(environment);
  if (!lines[4].empty()) TryRunPath(lines[3], lines[4]);
}

}  // namespace
}  // namespace devrt::internal

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  devrt::internal::Try(
      std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
