// SPDX-License-Identifier: Apache-2.0
//
// Small pieces of text for people: quantities, columns, paragraphs.

#ifndef DEVRT_TOOLS_TEXT_H_
#define DEVRT_TOOLS_TEXT_H_

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

// Between double quotes, control characters as '?', long texts cut.
std::string Quoted(std::string_view text);
// Without control characters: safe to print to a terminal.
std::string Printable(std::string_view text);
// As one word of a shell's command line; without control characters as well.
std::string ShellWord(std::string_view text);
// As text of XML, HTML or SVG, in quotes or not: valid UTF-8, control
// characters other than tabs and newlines as '?'.
std::string MarkupText(std::string_view text);
// Valid UTF-8: every byte that is not part of a character becomes U+FFFD.
std::string ValidUtf8(std::string_view text);

// Columns that `text` takes in a terminal: one per character, combining marks
// and wide scripts aside.
size_t Columns(std::string_view text);
std::string PadRight(std::string_view text, size_t columns);
std::string PadLeft(std::string_view text, size_t columns);

// Breaks lines between words so that none is longer than `width`; every line
// but the first begins with `indent` blanks, and the first is expected to
// begin at that column.  Newlines in `text` stay.
std::string Wrap(std::string_view text, size_t width, size_t indent);

// Rows under a heading, in aligned columns.
//
//   Table table({"DEVICE", "MEMORY"});
//   table.Add({"mtia:0", "256 MiB"});
//   std::string text = table.Text(2);  // indented by two
class Table {
 public:
  explicit Table(std::vector<std::string> heading);
  // As many cells as the heading has.  `note` goes below the row, indented.
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

#endif  // DEVRT_TOOLS_TEXT_H_
