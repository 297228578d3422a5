// SPDX-License-Identifier: Apache-2.0
//
// Small pieces of message texts.

#ifndef DEVRT_RUNTIME_COMMON_TEXT_H_
#define DEVRT_RUNTIME_COMMON_TEXT_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "backends/text/text.h"  // Counted, Hex

namespace devrt::internal {

// absl::string_view is std::string_view in some builds, and its own type in
// others.
inline absl::string_view ToAbsl(std::string_view text) {
  return absl::string_view(text.data(), text.size());
}
inline std::string_view ToStd(absl::string_view text) {
  return std::string_view(text.data(), text.size());
}

// `text` between `quote`s, safe to print: escapes control characters and
// invalid bytes, and cuts a long text and gives its length.
std::string Quoted(std::string_view text, char quote = '"');

// A path, with control characters escaped.  A path longer than system calls
// accept is cut, with its length.
std::string PathText(std::string_view path);

// A path as one word of a shell command that a user can copy.
std::string ShellWord(std::string_view path);

// "17 bytes", "1.50 KiB", "256.00 MiB", "80.00 GiB"
// (docs/reference/semantics.md 2.7).
std::string FormatBytes(uint64_t bytes);

// `status` with `prefix` before its text, and with its payloads; OK stays OK.
absl::Status WithPrefix(const std::string& prefix, const absl::Status& status);
absl::Status WithSuffix(const absl::Status& status, const std::string& suffix);

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_COMMON_TEXT_H_
