// SPDX-License-Identifier: Apache-2.0
//
// Reads JSON that may be anything: truncated, damaged, nested a million deep.
// Nothing is built: the caller asks for what it expects, in the order in which
// it comes.
//
//   JsonReader json(text);
//   return json.Object([&](const std::string& key) {
//     if (key == "size") return json.Unsigned(&size);
//     return json.Skip();
//   });
//
// Every error is INVALID_ARGUMENT with "line 3, column 7: expected ...".

#ifndef DEVRT_MEMORY_SNAPSHOT_JSON_READER_H_
#define DEVRT_MEMORY_SNAPSHOT_JSON_READER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace devrt::internal {

// Bytes of the character of UTF-8 at the beginning of `text`; 0: none is there.
size_t Utf8Size(std::string_view text);

class JsonReader {
 public:
  static constexpr int kDeepest = 64;

  // Keeps a view of `text`.
  explicit JsonReader(std::string_view text) : text_(text) {}

  // `field` reads the value that follows the key.
  absl::Status Object(
      absl::FunctionRef<absl::Status(const std::string&)> field);
  // `item` reads one.
  absl::Status Array(absl::FunctionRef<absl::Status()> item);
  absl::Status String(std::string* value);
  absl::Status Integer(int64_t* value);
  // 0 .. 2^63 - 1.
  absl::Status Unsigned(uint64_t* value);
  absl::Status Bool(bool* value);
  // A string "0x7f..." of up to 64 bits.
  absl::Status Address(uint64_t* value);
  // Any one value.
  absl::Status Skip();
  // Nothing but blanks may follow.
  absl::Status Finish();

  // At the value that was read last.
  absl::Status Error(std::string_view text) const {
    return ErrorAt(value_at_, text);
  }
  // For an error that is found later: where that value is, and the error.
  size_t place() const { return value_at_; }
  absl::Status ErrorAt(size_t place, std::string_view text) const;

 private:
  absl::Status Expected(std::string_view what);
  absl::Status Number(std::string* digits, bool* is_integer);
  absl::Status Escape(std::string* value);
  absl::Status Unit(uint32_t* unit);
  absl::Status Word(std::string_view word);
  absl::Status Digits(std::string* digits);
  void SkipBlanks();
  bool Eat(char c);
  char Peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  const std::string_view text_;
  size_t at_ = 0;
  size_t value_at_ = 0;
  int depth_ = 0;
};

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_SNAPSHOT_JSON_READER_H_
