// SPDX-License-Identifier: Apache-2.0
#include "tools/common/text.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "backends/text/utf8.h"

namespace devrt::tools {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// Three significant digits, without trailing zeros: "1.25", "41.3", "850".
std::string ThreeDigits(double value) {
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  std::string text = absl::StrFormat("%.*f", decimals, value);
  if (decimals > 0) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
  }
  return text;
}

template <size_t N>
std::string Scaled(uint64_t quantity, double step,
                   const std::array<const char*, N>& units) {
  constexpr double kRoundsUp = 0.9995;  // 999.6 us are printed as 1 ms
  double value = static_cast<double>(quantity);
  size_t unit = 0;
  while (unit + 1 < N && value >= step * kRoundsUp) {
    value /= step;
    ++unit;
  }
  return ThreeDigits(value) + " " + units[unit];
}

}  // namespace

std::string FormatBytes(uint64_t bytes) {
  static constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB",
                                                        "GiB", "TiB"};
  return Scaled(bytes, 1024, kUnits);
}

std::string FormatTime(uint64_t nanoseconds) {
  static constexpr std::array<const char*, 4> kUnits = {"ns", "us", "ms", "s"};
  return Scaled(nanoseconds, 1000, kUnits);
}

std::string Quoted(std::string_view text) {
  constexpr size_t kLongest = 60;
  const bool cut = text.size() > kLongest;
  return "\"" + Printable(text.substr(0, kLongest)) + (cut ? "...\"" : "\"");
}

std::string Printable(std::string_view text) {
  std::string out = ValidUtf8(text);
  for (char& c : out) {
    const bool control = static_cast<unsigned char>(c) < ' ' || c == 0x7F;
    if (control) c = '?';
  }
  return out;
}

std::string ShellWord(std::string_view text) {
  const std::string word = Printable(text);
  const auto plain = [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
           std::string_view("/._-+:,@%=").find(c) != std::string_view::npos;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), plain)) {
    return word;
  }
  return absl::StrCat("'", absl::StrReplaceAll(word, {{"'", "'\\''"}}), "'");
}

std::string MarkupText(std::string_view text) {
  std::string out;
  for (const char c : ValidUtf8(text)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\n':
        out += "&#10;";
        break;
      default:
        // XML 1.0 has no other control characters.
        out += static_cast<unsigned char>(c) < ' ' && c != '\t' ? '?' : c;
    }
  }
  return out;
}

std::string ValidUtf8(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t length = internal::Utf8Size(text);
    out += length == 0 ? kReplacement : text.substr(0, length);
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return out;
}

size_t Columns(std::string_view text) {
  return static_cast<size_t>(std::count_if(
      text.begin(), text.end(),
      [](char c) { return (static_cast<unsigned char>(c) & 0xC0u) != 0x80u; }));
}

std::string PadRight(std::string_view text, size_t columns) {
  std::string out(text);
  out.append(columns - std::min(columns, Columns(text)), ' ');
  return out;
}

std::string PadLeft(std::string_view text, size_t columns) {
  std::string out(columns - std::min(columns, Columns(text)), ' ');
  return out.append(text);
}

std::string Wrap(std::string_view text, size_t width, size_t indent) {
  std::string out;
  size_t column = indent;
  bool line_is_empty = true;
  const auto new_line = [&] {
    out += "\n" + std::string(indent, ' ');
    column = indent;
    line_is_empty = true;
  };
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of(" \n"), text.size());
    const std::string_view word = text.substr(0, end);
    if (!line_is_empty && column + 1 + Columns(word) > width) new_line();
    if (!word.empty()) {
      if (!line_is_empty) out += " ";
      out += word;
      column += Columns(word) + (line_is_empty ? 0 : 1);
      line_is_empty = false;
    }
    if (end < text.size() && text[end] == '\n') new_line();
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

Table::Table(std::vector<std::string> heading) { Add(std::move(heading)); }

void Table::Add(std::vector<std::string> cells, std::string_view note) {
  rows_.push_back({std::move(cells), std::string(note)});
}

std::string Table::Text(size_t indent) const {
  constexpr size_t kGap = 2;
  std::vector<size_t> widths(rows_[0].cells.size(), 0);
  for (const Row& row : rows_) {
    for (size_t i = 0; i < row.cells.size(); ++i) {
      widths[i] = std::max(widths[i], Columns(row.cells[i]));
    }
  }
  std::string text;
  for (const Row& row : rows_) {
    std::string line(indent, ' ');
    for (size_t i = 0; i < row.cells.size(); ++i) {
      line += PadRight(row.cells[i], widths[i] + kGap);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
    if (!row.note.empty()) {
      const size_t note_indent = indent + kGap;
      text += std::string(note_indent, ' ') +
              Wrap(row.note, kTextWidth, note_indent) + "\n";
    }
  }
  return text;
}

}  // namespace devrt::tools
