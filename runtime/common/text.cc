// SPDX-License-Identifier: Apache-2.0
#include "runtime/common/text.h"

#include <limits.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/cord.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace devrt::internal {
namespace {

constexpr size_t kShownBytes = 64;

// `status` with another text, and with its payloads; OK stays OK.
absl::Status WithText(const absl::Status& status, const std::string& text) {
  absl::Status result(status.code(), text);
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    result.SetPayload(url, payload);
  });
  return result;
}

}  // namespace

std::string Quoted(std::string_view text, char quote) {
  const std::string_view shown = text.substr(0, kShownBytes);
  std::string escaped;
  for (char c : shown) {
    const bool plain = static_cast<unsigned char>(c) >= 0x20 && c != 0x7f;
    if (plain && static_cast<unsigned char>(c) < 0x80) {
      escaped += c;
    } else {
      absl::StrAppend(&escaped, absl::CEscape(absl::string_view(&c, 1)));
    }
  }
  std::string result = quote + escaped;
  if (shown.size() == text.size()) return result + quote;
  absl::StrAppend(&result, "...", absl::string_view(&quote, 1), " (",
                  text.size(), " bytes)");
  return result;
}

std::string PathText(std::string_view path) {
  std::string text;
  for (const char c : path.substr(0, PATH_MAX)) {
    const unsigned char byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7f) {
      text += c;
    } else {
      absl::StrAppend(&text, absl::CEscape(absl::string_view(&c, 1)));
    }
  }
  if (path.size() <= PATH_MAX) return text;
  text.resize(kShownBytes);
  return absl::StrCat(text, "... (", path.size(), " bytes)");
}

std::string ShellWord(std::string_view path) {
  const std::string text = PathText(path);
  const auto plain = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
           std::strchr("/._-+:,@%=", c) != nullptr;
  };
  if (!text.empty() && std::all_of(text.begin(), text.end(), plain)) {
    return text;
  }
  if (text.size() == path.size()) {
    return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
  }
  return absl::StrCat("$'", absl::StrReplaceAll(text, {{"'", "\\'"}}), "'");
}

std::string FormatBytes(uint64_t bytes) {
  constexpr uint64_t kKiB = 1024, kMiB = 1024 * kKiB, kGiB = 1024 * kMiB;
  if (bytes <= kKiB) return absl::StrCat(bytes, " bytes");
  const char* unit = bytes < kMiB ? "KiB" : bytes < kGiB ? "MiB" : "GiB";
  const uint64_t size = bytes < kMiB ? kKiB : bytes < kGiB ? kMiB : kGiB;
  char text[40];
  std::snprintf(text, sizeof text, "%.2f %s",
                static_cast<double>(bytes) / static_cast<double>(size), unit);
  return text;
}

absl::Status WithPrefix(const std::string& prefix, const absl::Status& status) {
  return WithText(status, absl::StrCat(prefix, status.message()));
}

absl::Status WithSuffix(const absl::Status& status, const std::string& suffix) {
  return WithText(status, absl::StrCat(status.message(), suffix));
}

}  // namespace devrt::internal
