// SPDX-License-Identifier: Apache-2.0
//
// Small pieces of message text.

#ifndef DEVRT_RUNTIME_INTERNAL_TEXT_H_
#define DEVRT_RUNTIME_INTERNAL_TEXT_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace devrt::internal {

// Abseil's string_view is its own type in some builds and std's in others.
inline absl::string_view ToAbsl(std::string_view text) {
  return absl::string_view(text.data(), text.size());
}
inline std::string_view ToStd(absl::string_view text) {
  return std::string_view(text.data(), text.size());
}

// `text` between `quote`s, made safe to print: control characters and invalid
// bytes are escaped, and of long texts only the beginning and the length are
// shown.
std::string Quoted(std::string_view text, char quote = '"');

// "0x7f12..."
std::string Hex(const void* pointer);

// "17 bytes", "1.50 KiB", "256.00 MiB", "80.00 GiB" (semantics 2.7).
std::string FormatBytes(uint64_t bytes);

// `status` with `prefix` before its text, payloads kept; OK stays OK.
absl::Status WithPrefix(const std::string& prefix, const absl::Status& status);

// "1 stream", "3 streams".
std::string Counted(int64_t count, std::string_view noun);

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_INTERNAL_TEXT_H_
