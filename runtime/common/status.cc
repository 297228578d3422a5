// SPDX-License-Identifier: Apache-2.0
#include "devrt/runtime/status.h"

#include <charconv>
#include <map>
#include <string_view>

#include "absl/strings/cord.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "runtime/common/text.h"

namespace devrt {
namespace {

using internal::ToAbsl;
using internal::ToStd;

constexpr char kErrorInfoUrl[] = "devrt/ErrorInfo";
constexpr char kOutOfMemoryUrl[] = "devrt/OutOfMemoryInfo";

// A payload is one line of text, "key=value key=value", because absl's ToString
// shows it to people.  Values are escaped as in C, and spaces too.  Unknown
// values are left out.  Readers skip keys that they do not know.
using Fields = std::map<std::string, std::string>;

void PutText(std::string* out, const char* key, absl::string_view value) {
  absl::StrAppend(out, out->empty() ? "" : " ", key, "=", value);
}

void Put(std::string* out, const char* key, std::string_view value) {
  if (value.empty()) return;
  PutText(out, key,
          absl::StrReplaceAll(absl::CEscape(ToAbsl(value)), {{" ", "\\040"}}));
}

template <typename Number>
void PutNumber(std::string* out, const char* key, Number value,
               Number unknown = 0) {
  if (value != unknown) PutText(out, key, absl::StrCat(value));
}

std::optional<Fields> ReadFields(const absl::Status& status, const char* url) {
  const absl::optional<absl::Cord> payload = status.GetPayload(url);
  if (!payload.has_value()) return std::nullopt;
  Fields fields;
  const std::string text(*payload);
  for (absl::string_view field : absl::StrSplit(text, ' ')) {
    const size_t equals = field.find('=');
    if (equals == absl::string_view::npos) continue;
    std::string value;
    if (!absl::CUnescape(field.substr(equals + 1), &value)) continue;
    fields[std::string(field.substr(0, equals))] = value;
  }
  return fields;
}

void Get(const Fields& fields, const char* key, std::string* value) {
  const auto found = fields.find(key);
  if (found != fields.end()) *value = found->second;
}

template <typename Number>
void GetNumber(const Fields& fields, const char* key, Number* value) {
  const auto found = fields.find(key);
  if (found == fields.end()) return;
  const std::string& text = found->second;
  std::from_chars(text.data(), text.data() + text.size(), *value);
}

}  // namespace

std::optional<ErrorInfo> GetErrorInfo(const absl::Status& status) {
  const std::optional<Fields> fields = ReadFields(status, kErrorInfoUrl);
  if (!fields.has_value()) return std::nullopt;
  ErrorInfo info;
  int sticky = 0, async = 0;
  Get(*fields, "backend", &info.backend);
  GetNumber(*fields, "device", &info.device);
  GetNumber(*fields, "native_code", &info.native_code);
  Get(*fields, "native_name", &info.native_name);
  Get(*fields, "entry_point", &info.entry_point);
  GetNumber(*fields, "native_stream", &info.native_stream);
  GetNumber(*fields, "sticky", &sticky);
  GetNumber(*fields, "async", &async);
  info.sticky = sticky != 0;
  info.async = async != 0;
  return info;
}

void SetErrorInfo(absl::Status* status, const ErrorInfo& info) {
  std::string text;
  Put(&text, "backend", info.backend);
  PutNumber(&text, "device", info.device, -1);
  PutNumber(&text, "native_code", info.native_code);
  Put(&text, "native_name", info.native_name);
  Put(&text, "entry_point", info.entry_point);
  PutNumber(&text, "native_stream", info.native_stream);
  PutNumber(&text, "sticky", info.sticky ? 1 : 0);
  PutNumber(&text, "async", info.async ? 1 : 0);
  status->SetPayload(kErrorInfoUrl, absl::Cord(text));
}

std::optional<OutOfMemoryInfo> GetOutOfMemoryInfo(const absl::Status& status) {
  const std::optional<Fields> fields = ReadFields(status, kOutOfMemoryUrl);
  if (!fields.has_value()) return std::nullopt;
  OutOfMemoryInfo info;
  GetNumber(*fields, "requested", &info.requested);
  GetNumber(*fields, "total", &info.total);
  GetNumber(*fields, "free", &info.free);
  GetNumber(*fields, "segment", &info.segment);
  GetNumber(*fields, "allowed", &info.allowed);
  GetNumber(*fields, "allocated", &info.allocated);
  GetNumber(*fields, "reserved_unallocated", &info.reserved_unallocated);
  return info;
}

void SetOutOfMemoryInfo(absl::Status* status, const OutOfMemoryInfo& info) {
  std::string text;
  PutNumber(&text, "requested", info.requested);
  PutNumber(&text, "total", info.total);
  PutNumber(&text, "free", info.free);
  PutNumber(&text, "segment", info.segment);
  PutNumber(&text, "allowed", info.allowed);
  PutNumber(&text, "allocated", info.allocated);
  PutNumber(&text, "reserved_unallocated", info.reserved_unallocated);
  status->SetPayload(kOutOfMemoryUrl, absl::Cord(text));
}

}  // namespace devrt
