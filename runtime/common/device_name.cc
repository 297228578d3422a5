// SPDX-License-Identifier: Apache-2.0
#include "runtime/common/device_name.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "devrt/backends/abi/devrt_plugin.h"
#include "runtime/common/text.h"

namespace devrt::internal {
namespace {

constexpr size_t kLongestName = sizeof(devrt_manifest_v0::backend) - 1;
constexpr size_t kLongestIndex = 20;

bool IsLower(char c) { return c >= 'a' && c <= 'z'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

bool IsIndex(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), IsDigit) &&
         (text.size() == 1 || text[0] != '0');
}

}  // namespace

bool IsBackendName(std::string_view name) {
  return !name.empty() && name.size() <= kLongestName && IsLower(name[0]) &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return IsLower(c) || IsDigit(c) || c == '_';
         });
}

absl::StatusOr<ParsedDeviceName> ParseDeviceName(std::string_view text) {
  const size_t colon = text.find(':');
  const std::string_view backend = text.substr(0, colon);
  if (!IsBackendName(backend)) return InvalidDeviceString(text, "");
  ParsedDeviceName parsed{std::string(backend), std::nullopt};
  if (colon == std::string_view::npos) return parsed;
  const std::string_view index = text.substr(colon + 1);
  if (!IsIndex(index)) return InvalidDeviceString(text, "");
  parsed.index = std::string(index);
  return parsed;
}

absl::Status InvalidDeviceString(std::string_view text, std::string_view hint) {
  return absl::InvalidArgumentError(
      absl::StrCat("Invalid device string: ", Quoted(text, '\''),
                   ": expected a backend (\"mtia\") or a backend and an index "
                   "(\"mtia:1\")",
                   ToAbsl(hint)));
}

absl::Status IndexOutOfRange(std::string_view index, std::string_view backend,
                             int count) {
  std::string shown(index.substr(0, kLongestIndex));
  if (shown.size() < index.size()) absl::StrAppend(&shown, "...");
  return absl::InvalidArgumentError(absl::StrCat(
      "Device index value ", shown, " is out of index range [0, ", count,
      "): backend \"", ToAbsl(backend), "\" has ", Counted(count, "device")));
}

}  // namespace devrt::internal
