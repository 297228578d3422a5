// SPDX-License-Identifier: Apache-2.0
//
// Text for people: quantities, columns, paragraphs.

#ifndef DEVRT_TOOLS_COMMON_TEXT_H_
#define DEVRT_TOOLS_COMMON_TEXT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "backends/text/text.h"

namespace devrt::tools {

// "512 B", "2.5 MiB", "80 GiB": at most three significant decimals.
std::string FormatBytes(uint64_t bytes);
// "850 ns", "41.3 us", "1.25 ms", "2 s".
std::string FormatTime(uint64_t nanoseconds);
using internal::Counted;  // "1 stream", "3 streams"

// Between double quotes.  Replaces control characters by '?' and cuts a long
// text.
std::string Quoted(std::string_view text);
// Safe to print to a terminal: valid UTF-8, with '?' for control characters.
std::string Printable(std::string_view text);
// Printable(text) as one word of a shell's command line.
std::string ShellWord(std::string_view text);
// Escaped for XML, HTML or SVG, in quotes or not: valid UTF-8, with '?' for
// control characters other than tabs and newlines.
std::string MarkupText(std::string_view text);
// Valid UTF-8: every byte that is not part of a character becomes U+FFFD.
std::string ValidUtf8(std::string_view text);

// Columns that `text` takes in a terminal, at one for each character.  Wrong
// for combining marks and wide scripts.
size_t Columns(std::string_view text);
std::string PadRight(std::string_view text, size_t columns);
std::string PadLeft(std::string_view text, size_t columns);

inline constexpr size_t kTextWidth = 80;  // of the command's texts
// Breaks lines between words so that none is longer than `width`.  The first
// line is expected to begin at column `indent`; the others begin with as many
// blanks.  Newlines in `text` stay.
std::string Wrap(std::string_view text, size_t width, size_t indent);

// A table with a heading and aligned columns.
//
//   Table table({"DEVICE", "MEMORY"});
//   table.Add({"mtia:0", "256 MiB"});
//   std::string text = table.Text(2);  // indented by two
class Table {
 public:
  explicit Table(std::vector<std::string> heading);
  // Takes as many cells as the heading has.  `note` goes below the row,
  // indented.
  void Add(std::vector<std::string> cells, std::string_view note = {});
  bool empty() const { return rows_.size() == 1; }
  std::string Text(size_t indent) const;

 private:
  struct Row {
    std::vector<std::string> cells;
    std::string note;
  };
  std::vector<Row> rows_;  // the heading first
};

}  // namespace devrt::tools

#endif  // DEVRT_TOOLS_COMMON_TEXT_H_
