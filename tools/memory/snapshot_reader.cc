// SPDX-License-Identifier: Apache-2.0

#include "tools/memory/snapshot_reader.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "devrt/runtime/status.h"
#include "nlohmann/json.hpp"
#include "tools/common/text.h"

namespace devrt::tools {

namespace {

using Json = nlohmann::json;

constexpr char kSchema[] = "devrt.memory/1";

// An address of memory, which is a hexadecimal string in JSON.
struct AddressIn {
  uint64_t* value;
};

// Numbers of the schema have 63 bits without the sign.
bool Get(const Json& json, uint64_t* value) {
  if (!json.is_number_unsigned()) return false;
  *value = json.get<uint64_t>();
  return *value <= INT64_MAX;
}

bool Get(const Json& json, int64_t* value) {
  if (!json.is_number_integer()) return false;
  *value = json.get<int64_t>();
  return !json.is_number_unsigned() || *value >= 0;
}

// Index of a site.
bool Get(const Json& json, uint32_t* value) {
  uint64_t index;
  if (!Get(json, &index) || index >= kNoMemorySite) return false;
  *value = static_cast<uint32_t>(index);
  return true;
}

bool Get(const Json& json, bool* value) {
  if (json.is_boolean()) *value = json.get<bool>();
  return json.is_boolean();
}

bool Get(const Json& json, std::string* value) {
  if (json.is_string()) *value = json.get<std::string>();
  return json.is_string();
}

bool Get(const Json& json, AddressIn address) {
  if (!json.is_string()) return false;
  const std::string& text = json.get_ref<const std::string&>();
  return text.size() > 2 && text.size() <= 18 && text[0] == '0' &&
         text[1] == 'x' && absl::SimpleHexAtoi(text, address.value);
}

// By name; the values of `Enum` are 0 to `last`.
template <typename Enum>
bool GetNamed(const Json& json, Enum last, Enum* value) {
  std::string name;
  if (!Get(json, &name)) return false;
  for (uint32_t i = 0; i <= static_cast<uint32_t>(last); ++i) {
    *value = static_cast<Enum>(i);
    if (name == ToString(*value)) return true;
  }
  return false;
}

bool Get(const Json& json, BlockState* value) {
  return GetNamed(json, BlockState::kUnmapped, value);
}

bool Get(const Json& json, MemoryAction* value) {
  return GetNamed(json, MemoryAction::kOutOfMemory, value);
}

// Reads one file.  The first error is the result: what is read after it is
// dropped.
class SnapshotReader {
 public:
  absl::StatusOr<SnapshotFile> Read(const std::string& text);

 private:
  absl::StatusOr<Json> Parse(const std::string& text);
  void ReadStatistics(const Json& statistics);
  void ReadSite(const Json& site);
  void ReadSegment(const Json& segment);
  void ReadBlock(const Json& block, SegmentSnapshot* segment);
  void CheckBlocks(SegmentSnapshot* segment);
  void CheckOrder();
  void ReadEvent(const Json& event);
  void CheckSites();

  // Reads the member `key`.  Without such a member `value` stays as it is.
  template <typename Value>
  void Member(const Json& object, const char* key, Value value) {
    const auto found = object.find(key);
    if (found != object.end() && !Get(*found, value)) FailAt(key, *found);
  }
  // Calls `read` with each item of the list `key`, if there is such a list.
  template <typename Function>
  void ForEach(const Json& object, const char* key, Function read) {
    const auto found = object.find(key);
    if (found == object.end()) return;
    if (!found->is_array()) return FailAt(key, *found);
    for (const Json& item : *found) read(item);
  }
  // ForEach for a list of objects, which it counts in `index`.
  template <typename Function>
  void ForEachObject(const Json& object, const char* key,
                     std::optional<size_t>* index, Function read) {
    *index = 0;
    ForEach(object, key, [&](const Json& item) {
      if (!error_.empty()) return;
      item.is_object() ? read(item) : Fail("not an object");
      ++**index;
    });
    index->reset();
  }

  void Fail(std::string_view text);
  void FailAt(std::string_view key, const Json& value);

  SnapshotFile file_;
  std::string error_;  // the first one
  // Where the reader is: list_[item_].blocks[block_].
  std::string list_;
  std::optional<size_t> item_;
  std::optional<size_t> block_;
};

void SnapshotReader::Fail(std::string_view text) {
  if (!error_.empty()) return;
  if (item_.has_value()) absl::StrAppend(&error_, list_, "[", *item_, "]");
  if (block_.has_value()) absl::StrAppend(&error_, ".blocks[", *block_, "]");
  if (item_.has_value()) error_ += ": ";
  error_ += text;
}

void SnapshotReader::FailAt(std::string_view key, const Json& value) {
  // A list may be so deep that its text, which is made by recursion, would
  // overflow the stack.
  Fail(absl::StrCat("\"", std::string(key), "\" cannot be ",
                    value.is_structured()
                        ? absl::StrCat("an ", value.type_name())
                        : Quoted(value.dump(-1, ' ', true))));
}

void SnapshotReader::ReadStatistics(const Json& statistics) {
  if (!statistics.is_object()) return FailAt("statistics", statistics);
  for (const auto& [key, value] : statistics.items()) {
    if (!Get(value, &file_.figures[key])) FailAt(key, value);
  }
}

void SnapshotReader::ReadSite(const Json& site) {
  MemorySite& read = file_.snapshot.sites.emplace_back();
  Member(site, "file", &read.file);
  Member(site, "line", &read.line);
  ForEach(site, "frames", [&](const Json& frame) {
    if (!Get(frame, AddressIn{&read.frames.emplace_back()})) {
      FailAt("frames", frame);
    }
  });
}

// The block's address is its offset until CheckBlocks.
void SnapshotReader::ReadBlock(const Json& block, SegmentSnapshot* segment) {
  BlockSnapshot& read = segment->blocks.emplace_back();
  Member(block, "offset", &read.address);
  Member(block, "size", &read.size);
  Member(block, "requested", &read.requested);
  Member(block, "state", &read.state);
  Member(block, "stream", &read.stream);
  Member(block, "site", &read.site);
  ForEach(block, "waiting_streams", [&](const Json& stream) {
    if (!Get(stream, &read.waiting_streams.emplace_back())) {
      FailAt("waiting_streams", stream);
    }
  });
  if (!block.contains("offset")) return Fail("the block has no offset");
  if (read.size == 0) return Fail("the block has no size");
  if (read.requested > read.size) {
    return Fail("more was asked for than the block has");
  }
  if (read.state == BlockState::kUnmapped && !segment->expandable) {
    return Fail("only an expandable segment has unmapped blocks");
  }
}

void SnapshotReader::CheckBlocks(SegmentSnapshot* segment) {
  uint64_t end = 0;
  uint64_t backed = 0;
  for (BlockSnapshot& block : segment->blocks) {
    if (block.address != end) {
      return Fail(absl::StrCat("the block at ", block.address,
                               " should begin at ", end));
    }
    end += block.size;  // both are below 2^63
    if (block.state != BlockState::kUnmapped) backed += block.size;
    if (end > INT64_MAX || segment->address > UINT64_MAX - end) {
      return Fail("the segment passes the end of memory");
    }
    block.address += segment->address;
  }
  if (backed != segment->size) {
    Fail(absl::StrCat("the segment has ", segment->size,
                      " bytes, but its blocks have ", backed));
  }
}

// The last segment lies behind the one before it.
void SnapshotReader::CheckOrder() {
  const std::vector<SegmentSnapshot>& all = file_.snapshot.segments;
  if (all.size() < 2) return;
  const SegmentSnapshot& before = all[all.size() - 2];
  uint64_t end = before.address;
  for (const BlockSnapshot& block : before.blocks) end += block.size;
  if (all.back().address < end) {
    Fail("the segment lies before the end of the one before it in the list");
  }
}

void SnapshotReader::ReadSegment(const Json& segment) {
  SegmentSnapshot& read = file_.snapshot.segments.emplace_back();
  Member(segment, "address", AddressIn{&read.address});
  Member(segment, "size", &read.size);
  Member(segment, "stream", &read.stream);
  Member(segment, "expandable", &read.expandable);
  std::string pool = "small";
  Member(segment, "pool", &pool);
  read.large = pool == "large";
  if (!read.large && pool != "small") FailAt("pool", segment["pool"]);
  ForEachObject(segment, "blocks", &block_,
                [&](const Json& block) { ReadBlock(block, &read); });
  if (!error_.empty()) return;
  CheckBlocks(&read);
  CheckOrder();
}

void SnapshotReader::ReadEvent(const Json& event) {
  std::vector<MemoryEvent>& events = file_.snapshot.events;
  item_ = events.size();
  MemoryEvent read;
  Member(event, "number", &read.number);
  Member(event, "action", &read.action);
  Member(event, "address", AddressIn{&read.address});
  Member(event, "size", &read.bytes);
  Member(event, "stream", &read.stream);
  Member(event, "time_us", &read.time_us);
  Member(event, "site", &read.site);
  if (!events.empty() && read.number <= events.back().number) {
    Fail("the events are not in the order of their numbers");
  }
  events.push_back(read);
  item_.reset();
}

// The sites may come behind what names them.
void SnapshotReader::CheckSites() {
  const MemorySnapshot& snapshot = file_.snapshot;
  const auto check = [&](uint32_t site) {
    if (site != kNoMemorySite && site >= snapshot.sites.size()) {
      Fail("no site has this number");
    }
  };
  list_ = "segments";
  for (size_t i = 0; i < snapshot.segments.size(); ++i) {
    item_ = i;
    for (size_t k = 0; k < snapshot.segments[i].blocks.size(); ++k) {
      block_ = k;
      check(snapshot.segments[i].blocks[k].site);
    }
    block_.reset();
  }
  list_ = "events";
  for (size_t i = 0; i < snapshot.events.size(); ++i) {
    item_ = i;
    check(snapshot.events[i].site);
  }
  item_.reset();
}

// Events are taken as they come: as values of the library, a long history would
// need some twenty times the memory.
absl::StatusOr<Json> SnapshotReader::Parse(const std::string& text) {
  using Event = Json::parse_event_t;
  std::set<std::string> seen;  // keys of the file's object
  const auto take = [&](int depth, Event event, Json& parsed) {
    if (depth == 1 && event == Event::key) {
      list_ = parsed.get<std::string>();
      if (!seen.insert(list_).second) {
        Fail(absl::StrCat("the key ", Quoted(list_), " comes twice"));
      }
    }
    if (depth != 2 || event != Event::object_end || list_ != "events") {
      return true;
    }
    if (error_.empty()) ReadEvent(parsed);
    return false;
  };
  try {
    return Json::parse(text, take);
  } catch (const Json::exception& error) {
    constexpr size_t kLongest = 160;
    std::string_view what = error.what();  // "[json.exception.NAME] TEXT"
    what.remove_prefix(std::min(what.size(), what.find("] ") + 2));
    return absl::InvalidArgumentError(Printable(what.substr(0, kLongest)));
  }
}

// What another program wrote is refused for its schema, whatever else differs.
absl::Status CheckSchema(const Json& root) {
  if (!root.is_object()) {
    return absl::InvalidArgumentError("the text is not a JSON object");
  }
  const auto schema = root.find("schema");
  if (schema == root.end() || !schema->is_string()) {
    return absl::InvalidArgumentError(
        absl::StrCat("there is no key \"schema\" that says \"", kSchema, "\""));
  }
  if (*schema != kSchema) {
    return absl::InvalidArgumentError(
        absl::StrCat("its schema is ", Quoted(schema->get<std::string>()),
                     "; this version reads \"", kSchema, "\""));
  }
  return absl::OkStatus();
}

absl::StatusOr<SnapshotFile> SnapshotReader::Read(const std::string& text) {
  DEVRT_ASSIGN_OR_RETURN(const Json root, Parse(text));
  DEVRT_RETURN_IF_ERROR(CheckSchema(root));
  Member(root, "device", &file_.snapshot.device);
  Member(root, "total_memory", &file_.snapshot.total_memory);
  if (root.contains("statistics")) ReadStatistics(root["statistics"]);
  list_ = "sites";
  ForEachObject(root, "sites", &item_,
                [&](const Json& site) { ReadSite(site); });
  list_ = "segments";
  ForEachObject(root, "segments", &item_,
                [&](const Json& segment) { ReadSegment(segment); });
  list_ = "events";  // Parse has taken the objects
  ForEachObject(root, "events", &item_, [](const Json&) {});
  CheckSites();
  if (!error_.empty()) return absl::InvalidArgumentError(error_);
  return std::move(file_);
}

}  // namespace

absl::StatusOr<SnapshotFile> ParseMemorySnapshot(const std::string& json) {
  absl::StatusOr<SnapshotFile> file = SnapshotReader().Read(json);
  if (file.ok()) return file;
  return absl::InvalidArgumentError(
      absl::StrCat("not a memory snapshot: ", file.status().message()));
}

}  // namespace devrt::tools
