// SPDX-License-Identifier: Apache-2.0
//
// The terminal, standard output and files.

#ifndef DEVRT_TOOLS_COMMON_TERMINAL_H_
#define DEVRT_TOOLS_COMMON_TERMINAL_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace devrt::tools {

struct Terminal {
  size_t columns = 80;   // 80 if standard output is not a terminal
  bool unicode = false;  // the locale's encoding is UTF-8
  bool colour = false;   // it is a terminal, and NO_COLOR is not set

  static Terminal Detect();
};

// Writes `text` to standard output.
void Print(std::string_view text);

// Flushes standard output.  Returns the first error of it so far, for example a
// full disk.
absl::Status FlushOutput();

// Reads the whole file.  The error is one sentence.
absl::StatusOr<std::string> ReadFile(const std::string& path);

// OK if WriteFile could open the file.  Does not change the file.
absl::Status CheckWritable(const std::string& path);

// Writes the whole file.  The error is one sentence.
absl::Status WriteFile(const std::string& path, std::string_view text);

// The absolute path, for messages.
std::string AbsolutePath(const std::string& path);

}  // namespace devrt::tools

#endif  // DEVRT_TOOLS_COMMON_TERMINAL_H_
