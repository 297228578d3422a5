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

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"

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

  // A new number for the text of another one.
  uint32_t Alias(uint32_t number) {
    texts_.push_back(texts_[number]);
    return static_cast<uint32_t>(texts_.size() - 1);
  }

  // The numbers of the name and the line of a call.
  struct Place {
    uint32_t name = 0;
    uint32_t site = 0;  // of "file:line"; 0 without a file
  };
  // `file` has static storage: equal files have equal addresses.  So has the
  // name if it `is_static`; otherwise it may be another one than the address
  // had before.
  ABSL_ATTRIBUTE_ALWAYS_INLINE Place PlaceOf(const char* name, bool is_static,
                                             const char* file, int32_t line) {
    const auto bits = reinterpret_cast<uintptr_t>(file) * 31 +
                      reinterpret_cast<uintptr_t>(name) / 4 +
                      static_cast<uintptr_t>(line);
    Recent& recent = recent_[(bits ^ bits >> 12) % kRecent];
    if (ABSL_PREDICT_FALSE(
            recent.name != name || recent.line.line != line ||
            recent.line.file != file ||
            (!is_static && std::strcmp(recent.copy, name) != 0))) {
      Renew(&recent, name, {file, line});
    }
    return recent.place;
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

  struct Recent {
    const char* name = nullptr;
    const char* copy = nullptr;
    Line line;
    Place place;
  };
  // Not inline: a loop has few places.
  ABSL_ATTRIBUTE_NOINLINE void Renew(Recent* recent, const char* name,
                                     const Line& line) {
    const Place found = {Number(name), Site(line)};
    *recent = {name, texts_[found.name].c_str(), line, found};
  }
  uint32_t Site(const Line& line) {
    if (line.file == nullptr) return 0;
    uint32_t& number = sites_[line];
    if (number == 0) {
      number = Number(std::string(line.file) + ":" + std::to_string(line.line));
    }
    return number;
  }

  // The newest place for each hash: a loop has few of them.
  static constexpr size_t kRecent = 64;

  std::array<Recent, kRecent> recent_;
  std::deque<std::string> texts_{""};  // keeps their addresses
  std::unordered_map<std::string_view, uint32_t> numbers_{{"", 0}};
  std::unordered_map<Line, uint32_t, HashOfLine> sites_;
};

}  // namespace devrt::race

#endif  // DEVRT_LAYERS_VALIDATE_TEXTS_H_
