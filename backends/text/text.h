// SPDX-License-Identifier: Apache-2.0
//
// Pieces of message text that backends, libdevrt and the command share.  All is
// inline and needs only the standard library, because backends link nothing
// else.

#ifndef DEVRT_BACKENDS_TEXT_TEXT_H_
#define DEVRT_BACKENDS_TEXT_TEXT_H_

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

namespace devrt::internal {

// "0x7f12..."
inline std::string Hex(uint64_t number) {
  constexpr int kBase = 16;
  char digits[sizeof number * 2];
  const auto [end, error] =
      std::to_chars(digits, digits + sizeof digits, number, kBase);
  static_cast<void>(error);  // there is room for every digit
  return "0x" + std::string(digits, end);
}

inline std::string Hex(const void* pointer) {
  return Hex(reinterpret_cast<uintptr_t>(pointer));
}

// "1 stream", "3 streams".
inline std::string Counted(uint64_t count, std::string_view noun) {
  std::string text = std::to_string(count).append(" ").append(noun);
  return count == 1 ? text : text + "s";
}

// Returns the number of letters to insert, delete or replace to turn `a` into
// `b` (Levenshtein distance).  Takes time for size times size.
inline size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

}  // namespace devrt::internal

#endif  // DEVRT_BACKENDS_TEXT_TEXT_H_
