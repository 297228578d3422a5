// SPDX-License-Identifier: Apache-2.0
//
// docs/memory-snapshot.md, read.  Keys may come in any order.

#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "devrt/memory/history.h"
#include "devrt/runtime/status.h"
#include "memory/common/statistics_keys.h"
#include "memory/snapshot/json_reader.h"
#include "runtime/internal/text.h"

namespace devrt {

namespace {

using internal::JsonReader;

constexpr char kSchema[] = "devrt.memory/1";

class SnapshotReader {
 public:
  explicit SnapshotReader(std::string_view text) : json_(text) {}

  absl::StatusOr<MemorySnapshot> Read();

 private:
  absl::Status Field(const std::string& key);
  absl::Status ReadStatistics();
  absl::Status ReadSite();
  absl::Status ReadSegment();
  absl::Status ReadPool(bool* is_large);
  absl::Status ReadBlock(SegmentSnapshot* segment);
  absl::Status ReadEvent();
  absl::Status CheckBlocks(SegmentSnapshot* segment);
  absl::Status ReadSiteIndex(uint32_t* site);
  absl::Status List(std::vector<uint64_t>* list,
                    absl::Status (JsonReader::*read)(uint64_t*));
  template <typename Enum>
  absl::Status Choice(Enum last, Enum* value);

  JsonReader json_;
  MemorySnapshot snapshot_;
  // The greatest index of a site, and where it was first read: the sites may
  // follow.
  std::optional<uint32_t> most_site_;
  size_t most_site_at_ = 0;
  std::set<std::string> lists_;  // seen so far
};

// By name; the values of `Enum` are 0 to `last`.
template <typename Enum>
absl::Status SnapshotReader::Choice(Enum last, Enum* value) {
  std::string name;
  DEVRT_RETURN_IF_ERROR(json_.String(&name));
  for (uint32_t i = 0; i <= static_cast<uint32_t>(last); ++i) {
    if (name != ToString(static_cast<Enum>(i))) continue;
    *value = static_cast<Enum>(i);
    return absl::OkStatus();
  }
  std::string choices;
  for (uint32_t i = 0; i <= static_cast<uint32_t>(last); ++i) {
    absl::StrAppend(&choices, i == 0 ? "" : ", ",
                    ToString(static_cast<Enum>(i)));
  }
  return json_.Error(absl::StrCat("expected one of ", choices, ", but found ",
                                  internal::Quoted(name)));
}

absl::Status SnapshotReader::List(std::vector<uint64_t>* list,
                                  absl::Status (JsonReader::*read)(uint64_t*)) {
  list->clear();
  return json_.Array([&] {
    list->push_back(0);
    return (json_.*read)(&list->back());
  });
}

absl::Status SnapshotReader::ReadSiteIndex(uint32_t* site) {
  uint64_t index;
  DEVRT_RETURN_IF_ERROR(json_.Unsigned(&index));
  if (index >= kNoMemorySite) return json_.Error("no site has this number");
  *site = static_cast<uint32_t>(index);
  if (!most_site_.has_value() || *site > *most_site_) {
    most_site_ = *site;
    most_site_at_ = json_.place();
  }
  return absl::OkStatus();
}

absl::Status SnapshotReader::ReadStatistics() {
  const internal::StatisticFields fields =
      internal::FieldsOf(&snapshot_.statistics);
  return json_.Object([&](const std::string& key) {
    const auto found = fields.find(key);
    return found == fields.end() ? json_.Skip() : json_.Integer(found->second);
  });
}

absl::Status SnapshotReader::ReadSite() {
  snapshot_.sites.emplace_back();
  MemorySite* site = &snapshot_.sites.back();
  return json_.Object([&](const std::string& key) {
    if (key == "file") return json_.String(&site->file);
    if (key == "line") return json_.Integer(&site->line);
    if (key == "frames") return List(&site->frames, &JsonReader::Address);
    return json_.Skip();
  });
}

// `address` is an offset until the segment's is known.
absl::Status SnapshotReader::ReadBlock(SegmentSnapshot* segment) {
  segment->blocks.emplace_back();
  BlockSnapshot* b = &segment->blocks.back();
  bool has_offset = false;
  DEVRT_RETURN_IF_ERROR(json_.Object([&](const std::string& key) {
    if (key == "offset") {
      has_offset = true;
      return json_.Unsigned(&b->address);
    }
    if (key == "size") return json_.Unsigned(&b->size);
    if (key == "requested") return json_.Unsigned(&b->requested);
    if (key == "state") return Choice(BlockState::kUnmapped, &b->state);
    if (key == "stream") return json_.Unsigned(&b->stream);
    if (key == "waiting_streams") {
      return List(&b->waiting_streams, &JsonReader::Unsigned);
    }
    if (key == "site") return ReadSiteIndex(&b->site);
    return json_.Skip();
  }));
  if (!has_offset) return json_.Error("the block has no offset");
  if (b->size == 0) return json_.Error("the block has no size");
  if (b->requested > b->size) {
    return json_.Error("more was asked for than the block has");
  }
  return absl::OkStatus();
}

absl::Status SnapshotReader::CheckBlocks(SegmentSnapshot* segment) {
  uint64_t end = 0;
  uint64_t backed = 0;
  for (BlockSnapshot& block : segment->blocks) {
    if (block.address != end) {
      return json_.Error(absl::StrCat("the segment's block at ", block.address,
                                      " should begin at ", end));
    }
    end += block.size;  // both below 2^63
    if (block.state != BlockState::kUnmapped) {
      backed += block.size;
    } else if (!segment->expandable) {
      return json_.Error("only an expandable segment has unmapped blocks");
    }
    if (end > UINT64_MAX / 2 || segment->address > UINT64_MAX - end) {
      return json_.Error("the segment passes the end of memory");
    }
    block.address += segment->address;
  }
  if (backed != segment->size) {
    return json_.Error(absl::StrCat("the segment has ", segment->size,
                                    " bytes, but its blocks have ", backed));
  }
  if (snapshot_.segments.size() < 2) return absl::OkStatus();
  const SegmentSnapshot& before =
      snapshot_.segments[snapshot_.segments.size() - 2];
  const uint64_t before_end =
      before.blocks.empty()
          ? before.address
          : before.blocks.back().address + before.blocks.back().size;
  if (segment->address < before_end) {
    return json_.Error(
        "the segment lies before the end of the one before it in the list");
  }
  return absl::OkStatus();
}

absl::Status SnapshotReader::ReadPool(bool* is_large) {
  std::string pool;
  DEVRT_RETURN_IF_ERROR(json_.String(&pool));
  *is_large = pool == "large";
  if (*is_large || pool == "small") return absl::OkStatus();
  return json_.Error("expected \"small\" or \"large\"");
}

absl::Status SnapshotReader::ReadSegment() {
  snapshot_.segments.emplace_back();
  SegmentSnapshot* s = &snapshot_.segments.back();
  DEVRT_RETURN_IF_ERROR(json_.Object([&](const std::string& key) {
    if (key == "address") return json_.Address(&s->address);
    if (key == "size") return json_.Unsigned(&s->size);
    if (key == "stream") return json_.Unsigned(&s->stream);
    if (key == "expandable") return json_.Bool(&s->expandable);
    if (key == "blocks") {
      s->blocks.clear();
      return json_.Array([&] { return ReadBlock(s); });
    }
    if (key == "pool") return ReadPool(&s->large);
    return json_.Skip();
  }));
  return CheckBlocks(s);
}

absl::Status SnapshotReader::ReadEvent() {
  MemoryEvent e;
  DEVRT_RETURN_IF_ERROR(json_.Object([&](const std::string& key) {
    if (key == "number") return json_.Unsigned(&e.number);
    if (key == "action") return Choice(MemoryAction::kOutOfMemory, &e.action);
    if (key == "address") return json_.Address(&e.address);
    if (key == "size") return json_.Unsigned(&e.bytes);
    if (key == "stream") return json_.Unsigned(&e.stream);
    if (key == "time_us") return json_.Integer(&e.time_us);
    if (key == "site") return ReadSiteIndex(&e.site);
    return json_.Skip();
  }));
  if (!snapshot_.events.empty() && e.number <= snapshot_.events.back().number) {
    return json_.Error("the events are not in the order of their numbers");
  }
  snapshot_.events.push_back(e);
  return absl::OkStatus();
}

absl::Status SnapshotReader::Field(const std::string& key) {
  if (key == "device") return json_.String(&snapshot_.device);
  if (key == "total_memory") return json_.Unsigned(&snapshot_.total_memory);
  if (key == "statistics") return ReadStatistics();
  // Others hold indices and orders by what the first one said.
  if ((key == "sites" || key == "segments" || key == "events") &&
      !lists_.insert(key).second) {
    return json_.Error(absl::StrCat("the key \"", key, "\" twice"));
  }
  if (key == "sites") {
    return json_.Array([&] { return ReadSite(); });
  }
  if (key == "segments") {
    return json_.Array([&] { return ReadSegment(); });
  }
  if (key == "events") {
    return json_.Array([&] { return ReadEvent(); });
  }
  return json_.Skip();
}

absl::StatusOr<MemorySnapshot> SnapshotReader::Read() {
  DEVRT_RETURN_IF_ERROR(
      json_.Object([&](const std::string& key) { return Field(key); }));
  DEVRT_RETURN_IF_ERROR(json_.Finish());
  if (most_site_.has_value() && *most_site_ >= snapshot_.sites.size()) {
    return json_.ErrorAt(most_site_at_, "no site has this number");
  }
  return std::move(snapshot_);
}

// Before anything else is looked at: what is not ours shall not be told that
// its third block is too long.
absl::Status CheckSchema(std::string_view text) {
  JsonReader json(text);
  std::string schema;
  bool has_schema = false;
  DEVRT_RETURN_IF_ERROR(json.Object([&](const std::string& key) {
    if (key != "schema") return json.Skip();
    has_schema = true;
    return json.String(&schema);
  }));
  if (!has_schema) {
    return absl::InvalidArgumentError(
        absl::StrCat("there is no key \"schema\" that says \"", kSchema, "\""));
  }
  if (schema != kSchema) {
    return absl::InvalidArgumentError(
        absl::StrCat("its schema is ", internal::Quoted(schema),
                     "; this version reads \"", kSchema, "\""));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<MemorySnapshot> ParseMemorySnapshot(const std::string& json) {
  absl::Status status = CheckSchema(json);
  if (status.ok()) {
    absl::StatusOr<MemorySnapshot> snapshot = SnapshotReader(json).Read();
    if (snapshot.ok()) return snapshot;
    status = snapshot.status();
  }
  return internal::WithPrefix("not a memory snapshot: ", status);
}

}  // namespace devrt
