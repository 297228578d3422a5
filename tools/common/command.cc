// SPDX-License-Identifier: Apache-2.0
#include "tools/common/command.h"

#include <cstdio>

#include "absl/strings/str_format.h"

namespace devrt::tools {

int UsageError(const Command& command, std::string_view text) {
  absl::FPrintF(stderr, "devrt %s: %s\nTry: devrt %s --help\n", command.name,
                text, command.name);
  return kUsage;
}

int Failure(const Command& command, std::string_view text) {
  // The output so far comes first, also where both streams are one file.
  std::fflush(stdout);
  absl::FPrintF(stderr, "devrt %s: %s\n", command.name, text);
  return kFailure;
}

std::string Explain(const absl::Status& status) {
  return std::string(status.message());
}

}  // namespace devrt::tools
