// SPDX-License-Identifier: Apache-2.0
//
// The grammar of settings, as in DEVRT_ALLOC_CONF and DEVRT_MTIA: what users
// write, and the messages about mistakes.
//
//   settings  = [setting] *("," [setting])
//   setting   = key mark value
//   mark      = ":" in DEVRT_ALLOC_CONF, "=" in DEVRT_MTIA
//
// Blanks around a key, a mark and a value do not count, and neither do empty
// settings.  A value may contain the mark; between "[" and "]" it may contain
// commas.  Each user has its own table of keys, and says what a key means that
// is given twice.
//
//   SettingsReader reader("seed=7, mode=virtual", '=');
//   while (const std::optional<Setting> setting = reader.Next()) {
//     ...  // {"seed", "7"}, then {"mode", "virtual"}
//   }
//
// All is inline and needs the standard library alone, as backends link nothing
// else.  The parts of a Setting point into the text.

#ifndef DEVRT_BACKENDS_TEXT_SETTINGS_H_
#define DEVRT_BACKENDS_TEXT_SETTINGS_H_

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "backends/text/text.h"

namespace devrt::internal {

// Without the blanks at both ends.
inline std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n\v\f";
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

struct Setting {
  std::string_view key;
  std::optional<std::string_view> value;  // nullopt: there is no mark
  size_t at = 0;                          // where the key begins in the text
};

class SettingsReader {
 public:
  SettingsReader(std::string_view text, char mark) : text_(text), mark_(mark) {}

  // The next setting, or nullopt at the end.
  std::optional<Setting> Next() {
    while (at_ < text_.size()) {
      const size_t end = EndOfSetting();
      const std::string_view whole = Trimmed(text_.substr(at_, end - at_));
      at_ = end + 1;
      if (whole.empty()) continue;
      Setting setting;
      setting.at = static_cast<size_t>(whole.data() - text_.data());
      const size_t mark = whole.find(mark_);
      setting.key = Trimmed(whole.substr(0, mark));
      if (mark != whole.npos) setting.value = Trimmed(whole.substr(mark + 1));
      return setting;
    }
    return std::nullopt;
  }

 private:
  // The next comma outside of brackets, or the end of the text.
  size_t EndOfSetting() const {
    bool inside = false;
    size_t end = at_;
    for (; end < text_.size() && (inside || text_[end] != ','); ++end) {
      if (text_[end] == '[') inside = true;
      if (text_[end] == ']') inside = false;
    }
    return end;
  }

  std::string_view text_;
  char mark_;
  size_t at_ = 0;
};

// Between double quotes; characters that cannot be printed as '?', a long text
// cut and followed by its length.
inline std::string QuotedSetting(std::string_view text) {
  constexpr size_t kLongest = 48;
  std::string out = "\"" + std::string(text.substr(0, kLongest));
  std::replace_if(
      out.begin(), out.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  if (text.size() <= kLongest) return out + "\"";
  return out + "...\" (" + std::to_string(text.size()) + " bytes)";
}

// How far `text` is from `key`, as a typing error or as a longer or shorter
// form of the key; nullopt if `text` means something else.
inline std::optional<size_t> TypingDistance(std::string_view text,
                                            std::string_view key) {
  constexpr size_t kLongest = 40;
  constexpr size_t kShortestPart = 4;
  constexpr size_t kMostLetters = 3;
  if (text.empty() || text.size() > kLongest) return std::nullopt;
  const std::string_view shorter = text.size() < key.size() ? text : key;
  const std::string_view longer = text.size() < key.size() ? key : text;
  // "memory_bytes" for "memory", "prio" for "priorities".
  if (shorter.size() >= kShortestPart && longer.find(shorter) != longer.npos) {
    return 1;
  }
  const size_t distance = EditDistance(text, key);
  if (distance > kMostLetters || distance * 2 > longer.size()) {
    return std::nullopt;
  }
  return distance;
}

// ---- Messages: the key, what is wrong, and what helps ----

// `keys` is a table whose entries have a `name`.
template <typename Keys>
std::string UnknownSetting(const Setting& setting, char mark,
                           const Keys& keys) {
  std::string nearest;
  std::string all;
  std::optional<size_t> least;
  for (const auto& key : keys) {
    all.append(all.empty() ? "" : ", ").append(key.name);
    const std::optional<size_t> distance =
        TypingDistance(setting.key, key.name);
    if (!distance || (least && *distance >= *least)) continue;
    least = distance;
    nearest = key.name;
  }
  std::string text = "unknown key " + QuotedSetting(setting.key);
  text += " at character " + std::to_string(setting.at + 1) + "; ";
  const char other = mark == '=' ? ':' : '=';
  if (!setting.value && setting.key.find(other) != setting.key.npos) {
    text += std::string("write KEY") + mark + "VALUE, with '" + mark +
            "' and not '" + other + "'; ";
  }
  if (least) text += "did you mean \"" + nearest + "\"? ";
  return text + "the keys are " + all;
}

// `expected`: the values of the key in words, "a whole number from 1 to 64".
inline std::string MissingValue(const Setting& setting, char mark,
                                std::string_view expected) {
  const std::string key(setting.key);
  return "key \"" + key + "\" has no value: write " + key + mark +
         "VALUE, where VALUE is " + std::string(expected);
}

inline std::string RefusedValue(const Setting& setting,
                                std::string_view expected) {
  return "key \"" + std::string(setting.key) + "\" cannot be " +
         QuotedSetting(*setting.value) + ": it takes " + std::string(expected);
}

}  // namespace devrt::internal

#endif  // DEVRT_BACKENDS_TEXT_SETTINGS_H_
