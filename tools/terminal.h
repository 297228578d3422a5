// SPDX-License-Identifier: Apache-2.0
//
// What the terminal can show, and getting text out of the program.

#ifndef DEVRT_TOOLS_TERMINAL_H_
#define DEVRT_TOOLS_TERMINAL_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace devrt::tools {

struct Terminal {
  size_t columns = 80;   // 80 where standard output is no terminal
  bool unicode = false;  // the locale's characters are UTF-8
  bool colour = false;   // a terminal, and NO_COLOR is not set

  static Terminal Detect();
};

// To standard output.
void Print(std::string_view text);

// What went wrong with standard output so far, if anything: a full disk, say.
absl::Status FlushOutput();

// Reads the whole file, or says in one sentence why it could not.
absl::StatusOr<std::string> ReadFile(const std::string& path);

// Whether WriteFile would get as far as to open the file, which stays as it is.
absl::Status CheckWritable(const std::string& path);

// Writes the whole file, or says in one sentence why it could not.
absl::Status WriteFile(const std::string& path, std::string_view text);

// The path as an absolute one, for telling where a file went.
std::string AbsolutePath(const std::string& path);

}  // namespace devrt::tools

#endif  // DEVRT_TOOLS_TERMINAL_H_
