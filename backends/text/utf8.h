// SPDX-License-Identifier: Apache-2.0
//
// UTF-8, for programs that write text which may hold any bytes.

#ifndef DEVRT_BACKENDS_TEXT_UTF8_H_
#define DEVRT_BACKENDS_TEXT_UTF8_H_

#include <cstddef>
#include <string_view>

namespace devrt::internal {

// Bytes of the UTF-8 character at the start of `text`; 0 if no well-formed
// character is there (the Unicode Standard, table 3-7).
inline size_t Utf8Size(std::string_view text) {
  const auto byte = [&](size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  if (text.empty()) return 0;
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const size_t size = first < 0xC2   ? 0
                      : first < 0xE0 ? 2
                      : first < 0xF0 ? 3
                      : first < 0xF5 ? 4
                                     : 0;
  for (size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0u) != 0x80u) return 0;
  }
  // Longer forms than needed, halves of UTF-16 pairs, beyond U+10FFFF.
  const bool is_wrong =
      (first == 0xE0 && byte(1) < 0xA0) || (first == 0xED && byte(1) > 0x9F) ||
      (first == 0xF0 && byte(1) < 0x90) || (first == 0xF4 && byte(1) > 0x8F);
  return is_wrong ? 0 : size;
}

}  // namespace devrt::internal

#endif  // DEVRT_BACKENDS_TEXT_UTF8_H_
