// SPDX-License-Identifier: Apache-2.0
//
// Writes JSON.  Nothing here reads any, so a page of code does what a library
// would be a dependency for.
//
//   JsonWriter json;
//   json.BeginObject();
//   json.Key("devices").BeginArray();
//   json.String("mtia:0").End();
//   json.End();
//   std::string text = std::move(json).Finish();   // ends with a newline
//
// Text that is not UTF-8 (paths may be anything) is written with U+FFFD in
// place of the invalid bytes.

#ifndef DEVRT_TOOLS_JSON_H_
#define DEVRT_TOOLS_JSON_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace devrt::tools {

class JsonWriter {
 public:
  JsonWriter& BeginObject() { return Begin('{', '}'); }
  JsonWriter& BeginArray() { return Begin('[', ']'); }
  // Closes the innermost object or array.
  JsonWriter& End();

  // In an object, before each value.
  JsonWriter& Key(std::string_view name);

  JsonWriter& String(std::string_view value);
  JsonWriter& Number(int64_t value);
  JsonWriter& Unsigned(uint64_t value);
  // Three decimals; neither NaN nor an infinity, which JSON has not.
  JsonWriter& Decimal(double value);
  JsonWriter& Bool(bool value);
  JsonWriter& Null();

  // Between here and the matching End everything is on one line.
  JsonWriter& Compact();

  std::string Finish() &&;

 private:
  struct Level {
    char close;
    bool compact;
    bool empty = true;
  };
  JsonWriter& Begin(char open, char close);
  JsonWriter& Raw(std::string_view token);
  void Separate();
  void NewLine();

  std::string out_;
  std::vector<Level> levels_;
  bool after_key_ = false;
  bool next_is_compact_ = false;
};

}  // namespace devrt::tools

#endif  // DEVRT_TOOLS_JSON_H_
