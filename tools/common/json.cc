// SPDX-License-Identifier: Apache-2.0
#include "tools/common/json.h"

#include <cmath>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"

namespace devrt::tools {
namespace {

using Json = nlohmann::ordered_json;

std::string Dump(const Json& json, int indent) {
  return json.dump(indent, ' ', /*ensure_ascii=*/false,
                   Json::error_handler_t::replace);
}

}  // namespace

struct JsonWriter::Document {
  Json root;
  std::vector<Json*> open;  // objects and arrays, the innermost last
  std::string key;          // of the next value, in an object

  Json* Add(Json value) {
    if (open.empty()) {
      root = std::move(value);
      return &root;
    }
    if (open.back()->is_array()) {
      open.back()->push_back(std::move(value));
      return &open.back()->back();
    }
    // The object's own functions compare with each key that is there.
    Json::object_t::Container& members =
        open.back()->get_ref<Json::object_t&>();
    return &members.emplace_back(std::move(key), std::move(value)).second;
  }
};

JsonWriter::JsonWriter() : document_(std::make_unique<Document>()) {}
JsonWriter::~JsonWriter() = default;

template <typename Value>
JsonWriter& JsonWriter::Add(Value value) {
  Json* const added = document_->Add(std::move(value));
  if (added->is_structured()) document_->open.push_back(added);
  return *this;
}

JsonWriter& JsonWriter::BeginObject() { return Add(Json::object()); }
JsonWriter& JsonWriter::BeginArray() { return Add(Json::array()); }
JsonWriter& JsonWriter::String(std::string_view value) { return Add(value); }
JsonWriter& JsonWriter::Number(int64_t value) { return Add(value); }
JsonWriter& JsonWriter::Unsigned(uint64_t value) { return Add(value); }
JsonWriter& JsonWriter::Bool(bool value) { return Add(value); }
JsonWriter& JsonWriter::Null() { return Add(nullptr); }

JsonWriter& JsonWriter::Decimal(double value) {
  return Add(std::round(value * 1000) / 1000);
}

JsonWriter& JsonWriter::Key(std::string_view name) {
  document_->key = name;
  return *this;
}

JsonWriter& JsonWriter::End() {
  document_->open.pop_back();
  return *this;
}

std::string JsonWriter::Finish() && { return Dump(document_->root, 2) + "\n"; }

std::string JsonWriter::TakeLine() {
  const std::unique_ptr<Document> done =
      std::exchange(document_, std::make_unique<Document>());
  return Dump(done->root, -1);
}

}  // namespace devrt::tools
