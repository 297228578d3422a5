// SPDX-License-Identifier: Apache-2.0
#include "tools/json.h"

#include <utility>

#include "absl/strings/str_format.h"
#include "tools/text.h"

namespace devrt::tools {
namespace {

std::string Escaped(std::string_view text) {
  std::string out;
  for (const char c : ValidUtf8(text)) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (static_cast<unsigned char>(c) < ' ') {
      out += absl::StrFormat("\\u%04x", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

JsonWriter& JsonWriter::Begin(char open, char close) {
  Raw(std::string_view(&open, 1));
  const bool inherited = !levels_.empty() && levels_.back().compact;
  levels_.push_back({close, inherited || next_is_compact_});
  next_is_compact_ = false;
  return *this;
}

JsonWriter& JsonWriter::End() {
  const Level level = levels_.back();
  levels_.pop_back();
  if (!level.empty && !level.compact) NewLine();
  out_ += level.close;
  return *this;
}

JsonWriter& JsonWriter::Key(std::string_view name) {
  Separate();
  out_ += "\"" + Escaped(name) + "\": ";
  after_key_ = true;
  return *this;
}

JsonWriter& JsonWriter::String(std::string_view value) {
  return Raw("\"" + Escaped(value) + "\"");
}

JsonWriter& JsonWriter::Number(int64_t value) {
  return Raw(std::to_string(value));
}

JsonWriter& JsonWriter::Unsigned(uint64_t value) {
  return Raw(std::to_string(value));
}

JsonWriter& JsonWriter::Decimal(double value) {
  return Raw(absl::StrFormat("%.3f", value));
}

JsonWriter& JsonWriter::Bool(bool value) {
  return Raw(value ? "true" : "false");
}

JsonWriter& JsonWriter::Null() { return Raw("null"); }

JsonWriter& JsonWriter::Compact() {
  next_is_compact_ = true;
  return *this;
}

std::string JsonWriter::Finish() && { return std::move(out_) + "\n"; }

JsonWriter& JsonWriter::Raw(std::string_view token) {
  Separate();
  out_ += token;
  return *this;
}

void JsonWriter::Separate() {
  if (std::exchange(after_key_, false) || levels_.empty()) return;
  Level& level = levels_.back();
  if (!std::exchange(level.empty, false)) out_ += level.compact ? ", " : ",";
  if (!level.compact) NewLine();
}

void JsonWriter::NewLine() {
  out_ += "\n" + std::string(2 * levels_.size(), ' ');
}

}  // namespace devrt::tools
