// SPDX-License-Identifier: Apache-2.0

#include "memory/snapshot/json_reader.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "devrt/runtime/status.h"
#include "runtime/internal/text.h"

namespace devrt::internal {

namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

void AppendUtf8(uint32_t c, std::string* out) {
  const auto tail = [&](int shift) {
    out->push_back(static_cast<char>(0x80 | ((c >> shift) & 0x3f)));
  };
  if (c < 0x80) {
    out->push_back(static_cast<char>(c));
  } else if (c < 0x800) {
    out->push_back(static_cast<char>(0xc0 | (c >> 6)));
    tail(0);
  } else if (c < 0x10000) {
    out->push_back(static_cast<char>(0xe0 | (c >> 12)));
    tail(6);
    tail(0);
  } else {
    out->push_back(static_cast<char>(0xf0 | (c >> 18)));
    tail(12);
    tail(6);
    tail(0);
  }
}

}  // namespace

size_t Utf8Size(std::string_view text) {
  if (text.empty()) return 0;
  const auto byte = [&](size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const uint32_t first = byte(0);
  if (first < 0x80) return 1;
  const size_t size = first < 0xc2   ? 0
                      : first < 0xe0 ? 2
                      : first < 0xf0 ? 3
                      : first < 0xf5 ? 4
                                     : 0;
  for (size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  // Too long a form, half a pair, beyond the last character.
  if (first == 0xe0 && byte(1) < 0xa0) return 0;
  if (first == 0xed && byte(1) >= 0xa0) return 0;
  if (first == 0xf0 && byte(1) < 0x90) return 0;
  if (first == 0xf4 && byte(1) >= 0x90) return 0;
  return size;
}

absl::Status JsonReader::ErrorAt(size_t place, std::string_view text) const {
  const std::string_view before = text_.substr(0, place);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const size_t begin = before.rfind('\n');
  const size_t column =
      begin == std::string_view::npos ? place + 1 : place - begin;
  return absl::InvalidArgumentError(
      absl::StrCat("line ", line, ", column ", column, ": ", ToAbsl(text)));
}

absl::Status JsonReader::Expected(std::string_view what) {
  value_at_ = at_;
  const std::string found = at_ == text_.size()
                                ? "the text ends"
                                : Quoted(text_.substr(at_, 1), '\'');
  return Error(absl::StrCat("expected ", ToAbsl(what), ", but found ",
                            at_ == text_.size() ? "that " : "", found));
}

void JsonReader::SkipBlanks() {
  while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' ||
                                text_[at_] == '\r' || text_[at_] == '\t')) {
    ++at_;
  }
}

bool JsonReader::Eat(char c) {
  SkipBlanks();
  if (at_ == text_.size() || text_[at_] != c) return false;
  ++at_;
  return true;
}

absl::Status JsonReader::Object(
    absl::FunctionRef<absl::Status(const std::string&)> field) {
  if (!Eat('{')) return Expected("an object");
  if (++depth_ > kDeepest) return Expected("less deep nesting");
  bool is_first = true;
  std::string key;
  while (!Eat('}')) {
    if (!is_first && !Eat(',')) return Expected("',' or '}'");
    is_first = false;
    SkipBlanks();
    if (Peek() != '"') return Expected("a key");
    DEVRT_RETURN_IF_ERROR(String(&key));
    if (!Eat(':')) return Expected("':'");
    DEVRT_RETURN_IF_ERROR(field(key));
  }
  --depth_;
  return absl::OkStatus();
}

absl::Status JsonReader::Array(absl::FunctionRef<absl::Status()> item) {
  if (!Eat('[')) return Expected("an array");
  if (++depth_ > kDeepest) return Expected("less deep nesting");
  bool is_first = true;
  while (!Eat(']')) {
    if (!is_first && !Eat(',')) return Expected("',' or ']'");
    is_first = false;
    DEVRT_RETURN_IF_ERROR(item());
  }
  --depth_;
  return absl::OkStatus();
}

absl::Status JsonReader::String(std::string* value) {
  value->clear();
  if (!Eat('"')) return Expected("a string");
  const size_t begin = at_ - 1;
  while (true) {
    const char c = Peek();
    if (at_ == text_.size()) return Expected("the end of the string");
    if (c == '"') {
      ++at_;
      value_at_ = begin;
      return absl::OkStatus();
    }
    if (c == '\\') {
      ++at_;
      DEVRT_RETURN_IF_ERROR(Escape(value));
      continue;
    }
    const size_t size = Utf8Size(text_.substr(at_));
    if (size == 0 || static_cast<unsigned char>(c) < 0x20) {
      return Expected("a character of UTF-8");
    }
    value->append(text_, at_, size);
    at_ += size;
  }
}

absl::Status JsonReader::Unit(uint32_t* unit) {
  *unit = 0;
  for (int i = 0; i < 4; ++i, ++at_) {
    const char c = Peek();
    const int digit = IsDigit(c)             ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) return Expected("four hexadecimal digits");
    *unit = *unit * 16 + static_cast<uint32_t>(digit);
  }
  return absl::OkStatus();
}

absl::Status JsonReader::Escape(std::string* value) {
  static constexpr std::string_view kNames = "\"\\/bfnrt";
  static constexpr std::string_view kMeans = "\"\\/\b\f\n\r\t";
  const char c = Peek();
  const size_t which =
      at_ < text_.size() ? kNames.find(c) : std::string_view::npos;
  if (which != std::string_view::npos) {
    value->push_back(kMeans[which]);
    ++at_;
    return absl::OkStatus();
  }
  if (c != 'u') return Expected("an escape sequence");
  ++at_;
  uint32_t unit;
  DEVRT_RETURN_IF_ERROR(Unit(&unit));
  if (unit >= 0xd800 && unit < 0xdc00) {
    uint32_t low = 0;
    if (text_.substr(at_, 2) != "\\u")
      return Expected("the pair's second half");
    at_ += 2;
    DEVRT_RETURN_IF_ERROR(Unit(&low));
    if (low < 0xdc00 || low >= 0xe000) {
      return Expected("the second half of a pair before this");
    }
    unit = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
  } else if (unit >= 0xdc00 && unit < 0xe000) {
    return Expected("the first half of a pair before this");
  }
  AppendUtf8(unit, value);
  return absl::OkStatus();
}

absl::Status JsonReader::Digits(std::string* digits) {
  if (!IsDigit(Peek())) return Expected("a digit");
  while (IsDigit(Peek())) digits->push_back(text_[at_++]);
  return absl::OkStatus();
}

absl::Status JsonReader::Number(std::string* digits, bool* is_integer) {
  digits->clear();
  *is_integer = true;
  SkipBlanks();
  const size_t begin = at_;
  if (Peek() == '-') digits->push_back(text_[at_++]);
  if (Peek() == '0') {
    digits->push_back(text_[at_++]);
    if (IsDigit(Peek())) return Expected("no digit behind a 0");
  } else {
    if (!IsDigit(Peek())) return Expected("a number");
    DEVRT_RETURN_IF_ERROR(Digits(digits));
  }
  std::string rest;
  if (Peek() == '.') {
    *is_integer = false;
    ++at_;
    DEVRT_RETURN_IF_ERROR(Digits(&rest));
  }
  if (Peek() == 'e' || Peek() == 'E') {
    *is_integer = false;
    ++at_;
    if (Peek() == '+' || Peek() == '-') ++at_;
    DEVRT_RETURN_IF_ERROR(Digits(&rest));
  }
  value_at_ = begin;
  return absl::OkStatus();
}

absl::Status JsonReader::Integer(int64_t* value) {
  std::string digits;
  bool is_integer;
  DEVRT_RETURN_IF_ERROR(Number(&digits, &is_integer));
  if (!is_integer) return Error("expected a whole number");
  if (!absl::SimpleAtoi(digits, value)) {
    return Error("the number has more than 63 bits");
  }
  return absl::OkStatus();
}

absl::Status JsonReader::Unsigned(uint64_t* value) {
  int64_t number = 0;
  DEVRT_RETURN_IF_ERROR(Integer(&number));
  if (number < 0) return Error("expected a number that is not negative");
  *value = static_cast<uint64_t>(number);
  return absl::OkStatus();
}

absl::Status JsonReader::Bool(bool* value) {
  SkipBlanks();
  value_at_ = at_;
  *value = Peek() == 't';
  if (Peek() != 't' && Peek() != 'f') return Expected("true or false");
  return Word(*value ? "true" : "false");
}

absl::Status JsonReader::Address(uint64_t* value) {
  std::string text;
  DEVRT_RETURN_IF_ERROR(String(&text));
  const bool is_hex =
      text.size() > 2 && text.size() <= 18 && text[0] == '0' && text[1] == 'x';
  if (!is_hex || !absl::SimpleHexAtoi(text, value)) {
    return Error("expected an address like \"0x7f0000000000\"");
  }
  return absl::OkStatus();
}

absl::Status JsonReader::Word(std::string_view word) {
  if (text_.substr(at_, word.size()) != word) {
    return Expected(absl::StrCat("'", ToAbsl(word), "'"));
  }
  at_ += word.size();
  return absl::OkStatus();
}

absl::Status JsonReader::Skip() {
  SkipBlanks();
  std::string text;
  bool flag;
  switch (Peek()) {
    case '{':
      return Object([this](const std::string&) { return Skip(); });
    case '[':
      return Array([this] { return Skip(); });
    case '"':
      return String(&text);
    case 't':
    case 'f':
      return Bool(&flag);
    case 'n':
      return Word("null");
    case '\0':
      return Expected("a value");
    default:
      return Number(&text, &flag);
  }
}

absl::Status JsonReader::Finish() {
  SkipBlanks();
  if (at_ < text_.size()) return Expected("nothing more");
  return absl::OkStatus();
}

}  // namespace devrt::internal
