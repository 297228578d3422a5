// SPDX-License-Identifier: Apache-2.0
//
// Writes JSON, value by value, with nlohmann/json behind it.  Only json.cc
// includes that library, which is slow to compile.
//
//   JsonWriter json;
//   json.BeginObject();
//   json.Key("devices").BeginArray();
//   json.String("mtia:0").End();
//   json.End();
//   std::string text = std::move(json).Finish();   // ends with a newline
//
// Text that is not UTF-8 (a path may hold any bytes) is written with U+FFFD in
// place of the invalid bytes.

#ifndef DEVRT_TOOLS_COMMON_JSON_H_
#define DEVRT_TOOLS_COMMON_JSON_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace devrt::tools {

class JsonWriter {
 public:
  JsonWriter();
  ~JsonWriter();

  JsonWriter& BeginObject();
  JsonWriter& BeginArray();
  // Closes the innermost object or array.
  JsonWriter& End();

  // In an object, before each value.  No key may come twice.
  JsonWriter& Key(std::string_view name);

  JsonWriter& String(std::string_view value);
  JsonWriter& Number(int64_t value);
  JsonWriter& Unsigned(uint64_t value);
  // Rounds to three decimals.  Writes null for NaN and infinity.
  JsonWriter& Decimal(double value);
  JsonWriter& Bool(bool value);
  JsonWriter& Null();

  // The document, indented by two blanks a level.
  std::string Finish() &&;
  // The document on one line, without a newline at its end.  The writer is
  // empty again.
  std::string TakeLine();

 private:
  struct Document;
  template <typename Value>
  JsonWriter& Add(Value value);

  std::unique_ptr<Document> document_;
};

}  // namespace devrt::tools

#endif  // DEVRT_TOOLS_COMMON_JSON_H_
