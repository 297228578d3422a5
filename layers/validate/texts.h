// SPDX-License-Identifier: Apache-2.0
//
// Numbers for texts that occur again and again: names of operations, and lines
// of the program.  Number 0 is the empty text.
//
// Threads: one at a time; the caller has the lock.

#ifndef DEVRT_LAYERS_VALIDATE_TEXTS_H_
#define DEVRT_LAYERS_VALIDATE_TEXTS_H_

#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace devrt::race {

class Texts {
 public:
  uint32_t Number(std::string_view text) {
    const auto known = numbers_.find(text);
    if (known != numbers_.end()) return known->second;
    const auto number = static_cast<uint32_t>(texts_.size());
    texts_.emplace_back(text);
    numbers_.emplace(texts_.back(), number);
    return number;
  }

  // The number of a text that often has the address that it had before, as a
  // name of the program has.
  uint32_t NumberOf(const char* text) {
    const auto address = reinterpret_cast<uintptr_t>(text);
    RecentText& recent =
        recent_texts_[(address / 4 + address / 4096) % kRecent];
    if (recent.at != text || std::strcmp(recent.copy, text) != 0) {
      const uint32_t number = Number(text);
      recent = {text, texts_[number].c_str(), number};
    }
    return recent.number;
  }

  // The number of "file:line".  `file` has static storage: equal files have
  // equal addresses, which makes the usual lookup cheap.
  uint32_t Site(const char* file, int32_t line) {
    if (file == nullptr) return 0;
    const Line wanted = {file, line};
    Recent& recent = recent_[HashOfLine()(wanted) % kRecent];
    if (recent.line == wanted) return recent.number;
    uint32_t& number = sites_[wanted];
    if (number == 0) {
      number = Number(std::string(file) + ":" + std::to_string(line));
    }
    recent = {wanted, number};
    return number;
  }

  const std::string& Text(uint32_t number) const { return texts_[number]; }

 private:
  struct Line {
    const char* file = nullptr;
    int32_t line = 0;
    bool operator==(const Line& other) const {
      return file == other.file && line == other.line;
    }
  };
  struct HashOfLine {
    size_t operator()(const Line& site) const {
      return std::hash<const void*>()(site.file) * 31 +
             static_cast<size_t>(site.line);
    }
  };

  // The newest line and text for each hash: a loop has few of them.
  static constexpr size_t kRecent = 64;
  struct Recent {
    Line line;
    uint32_t number = 0;
  };
  struct RecentText {
    const char* at = nullptr;
    const char* copy = nullptr;
    uint32_t number = 0;
  };

  std::array<Recent, kRecent> recent_;
  std::array<RecentText, kRecent> recent_texts_;
  std::deque<std::string> texts_{""};  // keeps their addresses
  std::unordered_map<std::string_view, uint32_t> numbers_{{"", 0}};
  std::unordered_map<Line, uint32_t, HashOfLine> sites_;
};

}  // namespace devrt::race

#endif  // DEVRT_LAYERS_VALIDATE_TEXTS_H_
