// SPDX-License-Identifier: Apache-2.0
//
// Snapshots as JSON: what is written is read again, and what is not ours is
// refused with one clear line.

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "devrt/memory/history.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/memory/snapshot/made_up.h"

namespace devrt {
namespace {

using ::testing::HasSubstr;
using testing::MakeUpSnapshot;
using ::testing::StartsWith;

std::string ErrorOf(const std::string& json) {
  const absl::StatusOr<MemorySnapshot> parsed = ParseMemorySnapshot(json);
  if (parsed.ok()) return "accepted";
  EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(parsed.status().message()),
              StartsWith("not a memory snapshot: "));
  return std::string(parsed.status().message());
}

TEST(SnapshotJsonTest, WhatIsWrittenIsReadAgain) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    const std::string json = ToJson(MakeUpSnapshot(seed));
    const absl::StatusOr<MemorySnapshot> parsed = ParseMemorySnapshot(json);
    ASSERT_TRUE(parsed.ok()) << parsed.status() << "\n" << json;
    ASSERT_EQ(ToJson(*parsed), json) << "seed " << seed;
  }
}

TEST(SnapshotJsonTest, FieldsArrive) {
  MemorySnapshot made = MakeUpSnapshot(1);
  made.statistics.active_bytes.large_pool.peak = 77;
  made.sites = {{"train.cc", 40, {0x401a2c, UINT64_MAX}}};
  made.segments = {{}};
  SegmentSnapshot& s = made.segments[0];
  s.address = 0x7f0000000000;
  s.size = 1024;
  s.large = true;
  s.blocks = {{s.address, 1024, 1000, BlockState::kPending, 3, {5, 6}, 0}};
  made.events = {{MemoryAction::kOutOfMemory, 9, 0, 64, 2, 17, kNoMemorySite}};
  const MemorySnapshot read = ParseMemorySnapshot(ToJson(made)).value();
  EXPECT_EQ(read.device, "cuda:1");
  EXPECT_EQ(read.total_memory, made.total_memory);
  EXPECT_EQ(read.statistics.active_bytes.large_pool.peak, 77);
  ASSERT_EQ(read.sites.size(), 1u);
  EXPECT_EQ(read.sites[0].file, "train.cc");
  EXPECT_EQ(read.sites[0].line, 40);
  EXPECT_EQ(read.sites[0].frames, made.sites[0].frames);
  ASSERT_EQ(read.segments.size(), 1u);
  EXPECT_TRUE(read.segments[0].large);
  const BlockSnapshot& b = read.segments[0].blocks.at(0);
  EXPECT_EQ(b.address, s.address);
  EXPECT_EQ(b.requested, 1000u);
  EXPECT_EQ(b.state, BlockState::kPending);
  EXPECT_EQ(b.stream, 3u);
  EXPECT_EQ(b.waiting_streams, (std::vector<uint64_t>{5, 6}));
  EXPECT_EQ(b.site, 0u);
  ASSERT_EQ(read.events.size(), 1u);
  EXPECT_EQ(read.events[0].action, MemoryAction::kOutOfMemory);
  EXPECT_EQ(read.events[0].time_us, 17);
  EXPECT_EQ(read.events[0].site, kNoMemorySite);
}

TEST(SnapshotJsonTest, TruncatedAtEveryByte) {
  std::string json;
  for (uint64_t seed = 0; json.size() < 6000; ++seed) {
    json = ToJson(MakeUpSnapshot(seed));
  }
  json.pop_back();  // the last newline may go
  for (size_t size = 0; size < json.size(); ++size) {
    const std::string error = ErrorOf(json.substr(0, size));
    ASSERT_THAT(error, HasSubstr("line ")) << size;
    ASSERT_EQ(error.find('\n'), std::string::npos) << size;
    ASSERT_LT(error.size(), 200u) << size;
  }
}

TEST(SnapshotJsonTest, NotOurs) {
  EXPECT_THAT(ErrorOf(""), HasSubstr("line 1, column 1: expected an object, "
                                     "but found that the text ends"));
  EXPECT_THAT(ErrorOf("\x80\x04}("), HasSubstr("expected an object"));
  EXPECT_THAT(ErrorOf(std::string(100, '\0')), HasSubstr("expected an object"));
  EXPECT_THAT(ErrorOf("[]"), HasSubstr("expected an object"));
  EXPECT_THAT(ErrorOf("{}"), HasSubstr("no key \"schema\""));
  EXPECT_THAT(ErrorOf("{\"schema\": \"devrt.memory/2\"}"),
              HasSubstr("its schema is \"devrt.memory/2\"; this version reads "
                        "\"devrt.memory/1\""));
  EXPECT_THAT(ErrorOf("{\"schema\": 1}"), HasSubstr("expected a string"));
  EXPECT_THAT(ErrorOf(std::string(1'000'000, '[')),
              HasSubstr("expected an object"));
  EXPECT_THAT(ErrorOf("{\"a\": " + std::string(1'000'000, '[')),
              HasSubstr("less deep nesting"));
  // 64 levels with the object's own; what opens one level closes it.
  const auto nested = [](size_t levels) {
    const std::string lists =
        std::string(levels, '[') + std::string(levels, ']');
    return "{\"a\": [" + lists + ", " + lists + "]}";
  };
  EXPECT_THAT(ErrorOf(nested(62)), HasSubstr("no key \"schema\""));
  EXPECT_THAT(ErrorOf(nested(63)), HasSubstr("less deep nesting"));
}

// One change to a good snapshot, and what the error says about it.
TEST(SnapshotJsonTest, Damaged) {
  const std::string good = R"({"schema": "devrt.memory/1",
"sites": [{"file": "a.cc", "line": 3, "frames": ["0x1"]}],
"segments": [{"address": "0x1000", "size": 1024, "stream": 0, "pool": "small",
"blocks": [{"offset": 0, "size": 512, "state": "inactive"},
{"offset": 512, "size": 512, "requested": 9, "state": "active_allocated",
"site": 0}]}],
"events": [{"number": 1, "action": "alloc", "address": "0x1200"},
{"number": 2, "action": "oom", "address": "0x0"}], "later": [1.5e3, null]})";
  ASSERT_EQ(ErrorOf(good), "accepted");
  const std::pair<const char*, const char*> old_new[] = {
      {"\"offset\": 512", "\"offset\": 511"},
      {"\"offset\": 512", "\"off\": 512"},
      {"\"size\": 1024", "\"size\": 1023"},
      {"\"size\": 1024", "\"size\": -1"},
      {"\"size\": 1024", "\"size\": 1e3"},
      {"\"size\": 1024", "\"size\": 0024"},
      {"\"size\": 1024", "\"size\": 18446744073709551615"},
      {"\"size\": 512, \"state\"", "\"size\": 0, \"state\""},
      {"\"size\": 512, \"state\"", "\"size\": 9223372036854775807, \"state\""},
      {"\"requested\": 9", "\"requested\": 513"},
      {"0x1000", "1000"},
      {"0x1000", "0x10000000000000000"},
      {"0x1000", "0xffffffffffffff00"},
      {"\"small\"", "\"tiny\""},
      {"inactive", "idle"},
      {"\"alloc\"", "\"malloc\""},
      {"\"site\": 0", "\"site\": 1"},
      {"\"site\": 0", "\"site\": 4294967295"},
      {"\"number\": 2", "\"number\": 1"},
      {"a.cc", "a\x01.cc"},
      {"a.cc", "a\xff.cc"},
      {"a.cc", "\\ud800.cc"},
      {"a.cc", "\\q"},
      {"null]}", "null]} x"},
      {"null", "nul"},
      {"{\"number\": 1", "{\"number\" 1"},
      {"\"later\"", "later"},
  };
  for (const auto& [from, to] : old_new) {
    const std::string bad = absl::StrReplaceAll(good, {{from, to}});
    ASSERT_NE(bad, good) << from;
    EXPECT_THAT(ErrorOf(bad), HasSubstr("line ")) << to;
  }
  EXPECT_THAT(
      ErrorOf(absl::StrReplaceAll(good, {{"inactive", "idle"}})),
      HasSubstr("line 4, column 48: expected one of inactive, "
                "active_allocated, active_pending_free, unmapped, but found "
                "\"idle\""));
}

TEST(SnapshotJsonTest, SegmentsInOrder) {
  MemorySnapshot s;
  for (const uint64_t address : {0x3000, 0x1000}) {
    SegmentSnapshot segment;
    segment.address = address;
    segment.size = 512;
    segment.blocks = {{address, 512, 0, BlockState::kFree, 0, {}}};
    s.segments.push_back(segment);
  }
  EXPECT_THAT(ErrorOf(ToJson(s)), HasSubstr("lies before the end"));
  std::swap(s.segments[0], s.segments[1]);
  EXPECT_EQ(ErrorOf(ToJson(s)), "accepted");
}

// A list that comes twice would put others' indices on nothing.
TEST(SnapshotJsonTest, KeysTwice) {
  for (const char* key : {"sites", "segments", "events"}) {
    EXPECT_THAT(ErrorOf(absl::StrCat(R"({"schema": "devrt.memory/1",
"sites": [{}], "segments": [], "events": [{"number": 1, "site": 0}],
")",
                                     key, "\": []}")),
                HasSubstr(absl::StrCat("the key \"", key, "\" twice")));
  }
}

TEST(SnapshotJsonTest, HolesAreOfExpandableSegments) {
  const std::string hole = R"({"schema": "devrt.memory/1", "segments": [
{"address": "0x1000", "size": 512, "expandable": true, "blocks": [
{"offset": 0, "size": 512, "state": "unmapped"},
{"offset": 512, "size": 512, "state": "inactive"}]}]})";
  EXPECT_EQ(ErrorOf(hole), "accepted");
  EXPECT_THAT(ErrorOf(absl::StrReplaceAll(hole, {{"true", "false"}})),
              HasSubstr("only an expandable segment has unmapped blocks"));
}

// The largest index counts, at its first mention; and no text is made for each
// one that is larger than those before.
TEST(SnapshotJsonTest, SitesThatGrow) {
  std::string json = R"({"schema": "devrt.memory/1", "events": [)";
  for (int i = 0; i < 50'000; ++i) {
    absl::StrAppend(&json, i == 0 ? "" : ",\n", "{\"number\": ", i + 1,
                    ", \"site\": ", i, "}");
  }
  EXPECT_THAT(ErrorOf(json + R"(], "sites": [{}]})"),
              HasSubstr("line 50000, column 27: no site has this number"));
}

// Sites, schema and all may come in another order than ours.
TEST(SnapshotJsonTest, AnyOrderOfKeys) {
  EXPECT_EQ(ErrorOf(R"({"events": [{"site": 0, "number": 1}], "sites": [{}],
"schema": "devrt.memory/1"})"),
            "accepted");
  EXPECT_THAT(ErrorOf(R"({"events": [{"number": 1,
"site": 1}], "sites": [{}], "schema": "devrt.memory/1"})"),
              HasSubstr("line 2, column 9: no site has this number"));
}

TEST(SnapshotJsonTest, TextThatIsNotUtf8) {
  MemorySnapshot s;
  s.sites = {{"caf\xe9 \"x\"\\\n", 1, {}}};
  const MemorySnapshot read = ParseMemorySnapshot(ToJson(s)).value();
  EXPECT_EQ(read.sites[0].file, "caf\xef\xbf\xbd \"x\"\\\n");
}

}  // namespace
}  // namespace devrt
