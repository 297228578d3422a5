// SPDX-License-Identifier: Apache-2.0
#include "backends/text/fault_rules_reader.h"

#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

namespace devrt::internal {
namespace {

using Json = nlohmann::ordered_json;

// A rule for messages.
std::string Example(bool of_calls) {
  return of_calls ? "{\"class\": \"oom\", \"nth\": 2}"
                  : "{\"class\": \"kernel_fault\", \"nth\": 2}";
}

// The value as the text grammar writes it.
std::string ValueText(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_number_float()) {
    char digits[400];  // the longest of a double
    const auto [end, error] =
        std::to_chars(std::begin(digits), std::end(digits), value.get<double>(),
                      std::chars_format::fixed);
    if (error == std::errc()) return std::string(digits, end);
  }
  return value.dump();
}

std::string ReadRule(const Json& json, bool of_calls, FaultRule* rule) {
  if (!json.is_object()) {
    return "is " + QuotedSetting(json.dump()) +
           "; expected an object, such as " + Example(of_calls);
  }
  const auto kind = json.find("class");
  if (kind == json.end() || !kind->is_string()) {
    return "has no \"class\"; expected one as a string, such as in " +
           Example(of_calls);
  }
  std::string error =
      faults::SetClass(kind->get<std::string>(), of_calls, rule);
  for (auto item = json.begin(); item != json.end() && error.empty(); ++item) {
    if (item.key() == "class") continue;
    const std::string value = ValueText(item.value());
    Setting setting;
    setting.key = item.key();
    setting.value = value;
    error = faults::SetKey(setting, rule);
  }
  return error.empty() ? faults::FinishRule(json.contains("times"), rule)
                       : error;
}

bool ReadJson(std::string_view text, bool of_calls,
              std::vector<FaultRule>* rules, std::string* error) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) {
    *error = "the faults are no JSON; expected {\"faults\": [" +
             Example(of_calls) + "]}";
    return false;
  }
  for (auto item = json.begin(); item != json.end(); ++item) {
    if (item.key() == "faults") continue;
    *error = "unknown key " + QuotedSetting(item.key()) +
             " beside \"faults\"; the keys are faults";
    return false;
  }
  const auto list = json.find("faults");
  if (list == json.end() || !list->is_array()) {
    *error = "the faults have no list \"faults\"";
    return false;
  }
  std::vector<FaultRule> read;
  for (const Json& rule : *list) {
    const std::string wrong = ReadRule(rule, of_calls, &read.emplace_back());
    if (wrong.empty()) continue;
    *error = "fault " + std::to_string(read.size()) + ": " + wrong;
    return false;
  }
  *rules = std::move(read);
  return true;
}

bool ReadText(std::string_view text, bool of_calls,
              std::vector<FaultRule>* rules, std::string* error) {
  text = Trimmed(text);
  return text.substr(0, 1) == "{"
             ? ReadJson(text, of_calls, rules, error)
             : ParseFaultRules(text, of_calls, rules, error);
}

}  // namespace

bool ReadFaultRules(std::string_view text, bool of_calls,
                    std::vector<FaultRule>* rules, std::string* error) {
  const std::string_view first = text.substr(0, 1);
  if (first != "/" && first != ".") {
    return ReadText(text, of_calls, rules, error);
  }
  const std::string path(text);
  std::ifstream file(path, std::ios::binary);
  // A folder can be opened; only reading it fails.
  if (file) file.peek();
  if (!file.is_open() || file.bad()) {
    *error = "the file of faults " + QuotedSetting(path) +
             " cannot be read: " + std::strerror(errno);
    return false;
  }
  const std::string contents{std::istreambuf_iterator<char>(file), {}};
  if (ReadText(contents, of_calls, rules, error)) return true;
  *error = path + ": " + *error;
  return false;
}

}  // namespace devrt::internal
