// SPDX-License-Identifier: Apache-2.0
//
// Files of memory snapshots: the reader takes what the library writes, and
// refuses everything else with one clear line.

#include "tools/memory/snapshot_reader.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "devrt/memory/history.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/tools/made_up_snapshot.h"

namespace devrt::tools {
namespace {

using devrt::testing::MakeUpSnapshot;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string ErrorOf(const std::string& json) {
  const absl::StatusOr<SnapshotFile> parsed = ParseMemorySnapshot(json);
  if (parsed.ok()) return "accepted";
  EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(parsed.status().message()),
              StartsWith("not a memory snapshot: "));
  return std::string(parsed.status().message());
}

TEST(SnapshotReaderTest, ReadsSnapshotsOfTheLibrary) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    const MemorySnapshot made = MakeUpSnapshot(seed);
    const std::string json = ToJson(made);
    absl::StatusOr<SnapshotFile> parsed = ParseMemorySnapshot(json);
    ASSERT_TRUE(parsed.ok()) << parsed.status() << "\n" << json;
    const StatisticKeys keys = ToKeys(made.statistics);
    ASSERT_EQ(parsed->figures, SnapshotFigures(keys.begin(), keys.end()));
    parsed->snapshot.statistics = made.statistics;
    ASSERT_EQ(ToJson(parsed->snapshot), json) << "seed " << seed;
  }
}

TEST(SnapshotReaderTest, FieldsArrive) {
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
  const SnapshotFile file = ParseMemorySnapshot(ToJson(made)).value();
  const MemorySnapshot& read = file.snapshot;
  EXPECT_EQ(read.device, "cuda:1");
  EXPECT_EQ(read.total_memory, made.total_memory);
  EXPECT_EQ(file.figures.at("active_bytes.large_pool.peak"), 77);
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

TEST(SnapshotReaderTest, TruncatedAtEveryByte) {
  std::string json;
  for (uint64_t seed = 0; json.size() < 6000; ++seed) {
    json = ToJson(MakeUpSnapshot(seed));
  }
  json.pop_back();  // the last newline may go
  for (size_t size = 0; size < json.size(); ++size) {
    const std::string error = ErrorOf(json.substr(0, size));
    ASSERT_THAT(error, HasSubstr("parse error at line ")) << size;
    ASSERT_EQ(error.find('\n'), std::string::npos) << size;
    ASSERT_LT(error.size(), 200u) << size;
  }
}

TEST(SnapshotReaderTest, OtherFiles) {
  EXPECT_THAT(ErrorOf(""), HasSubstr("parse error at line 1, column 1"));
  EXPECT_THAT(ErrorOf("\x80\x04}("), HasSubstr("parse error at line 1"));
  EXPECT_THAT(ErrorOf(std::string(100, '\0')), HasSubstr("parse error"));
  EXPECT_THAT(ErrorOf("[]"), HasSubstr("not a JSON object"));
  EXPECT_THAT(ErrorOf("{}"), HasSubstr("no key \"schema\""));
  EXPECT_THAT(ErrorOf("{\"schema\": \"devrt.memory/2\"}"),
              HasSubstr("its schema is \"devrt.memory/2\"; this version reads "
                        "\"devrt.memory/1\""));
  EXPECT_THAT(ErrorOf("{\"schema\": 1}"), HasSubstr("no key \"schema\""));
  // A file of another schema is refused for that, also where its events are
  // not like ours.
  EXPECT_THAT(ErrorOf(R"({"events": [{"number": -1}], "schema": "other"})"),
              HasSubstr("its schema is \"other\""));
}

TEST(SnapshotReaderTest, DeepNesting) {
  EXPECT_THAT(ErrorOf(std::string(200'000, '[')), HasSubstr("parse error"));
  const std::string deep =
      std::string(200'000, '[') + std::string(200'000, ']');
  EXPECT_EQ(
      ErrorOf("{\"schema\": \"devrt.memory/1\", \"later\": " + deep + "}"),
      "accepted");
  EXPECT_THAT(
      ErrorOf("{\"schema\": \"devrt.memory/1\", \"device\": " + deep + "}"),
      HasSubstr("\"device\" cannot be an array"));
}

// The changes of a good snapshot, each with a part of the error.
struct Damage {
  const char* from;
  const char* to;
  const char* error;
};

void ExpectErrors(const std::vector<Damage>& damages) {
  const std::string good = R"({"schema": "devrt.memory/1",
"sites": [{"file": "a.cc", "line": 3, "frames": ["0x1"]}],
"segments": [{"address": "0x1000", "size": 1024, "stream": 0, "pool": "small",
"blocks": [{"offset": 0, "size": 512, "state": "inactive"},
{"offset": 512, "size": 512, "requested": 9, "state": "active_allocated",
"site": 0}]}],
"events": [{"number": 1, "action": "alloc", "address": "0x1200"},
{"number": 2, "action": "oom", "address": "0x0"}], "later": [1.5e3, null]})";
  ASSERT_EQ(ErrorOf(good), "accepted");
  for (const Damage& damage : damages) {
    const std::string bad =
        absl::StrReplaceAll(good, {{damage.from, damage.to}});
    ASSERT_NE(bad, good) << damage.from;
    EXPECT_THAT(ErrorOf(bad), HasSubstr(damage.error)) << damage.to;
  }
}

TEST(SnapshotReaderTest, ErrorNamesTheSegmentWithWrongBlocks) {
  ExpectErrors({
      {"\"offset\": 512", "\"offset\": 511",
       "segments[0]: the block at 511 should begin at 512"},
      {"\"offset\": 512", "\"off\": 512",
       "segments[0].blocks[1]: the block has no offset"},
      {"\"size\": 1024", "\"size\": 1023",
       "segments[0]: the segment has 1023 bytes, but its blocks have 1024"},
      {"\"size\": 512, \"state\"", "\"size\": 0, \"state\"",
       "segments[0].blocks[0]: the block has no size"},
      {"\"size\": 512, \"state\"", "\"size\": 9223372036854775807, \"state\"",
       "segments[0]: the block at 512 should begin at 9223372036854775807"},
      {"\"requested\": 9", "\"requested\": 513",
       "segments[0].blocks[1]: more was asked for than the block has"},
      {"0x1000", "0xffffffffffffff00",
       "segments[0]: the segment passes the end of memory"},
  });
}

TEST(SnapshotReaderTest, ErrorNamesThePlaceAndKeyOfAWrongValue) {
  ExpectErrors({
      {"\"size\": 1024", "\"size\": -1",
       "segments[0]: \"size\" cannot be \"-1\""},
      {"\"size\": 1024", "\"size\": 1e3", "segments[0]: \"size\" cannot be"},
      {"\"size\": 1024", "\"size\": 18446744073709551615",
       "segments[0]: \"size\" cannot be"},
      {"\"size\": 1024", "\"size\": 9223372036854775808",
       "segments[0]: \"size\" cannot be"},
      {"0x1000", "1000", "segments[0]: \"address\" cannot be"},
      {"0x1000", "0x10000000000000000", "segments[0]: \"address\" cannot be"},
      {"[\"0x1\"]", "[1]", "sites[0]: \"frames\" cannot be \"1\""},
      {"[\"0x1\"]", "\"0x1\"", "sites[0]: \"frames\" cannot be"},
      {"\"small\"", "\"tiny\"", "segments[0]: \"pool\" cannot be"},
      {"inactive", "idle", "segments[0].blocks[0]: \"state\" cannot be"},
      {"\"alloc\"", "\"malloc\"", "events[0]: \"action\" cannot be"},
      {"\"site\": 0", "\"site\": 1",
       "segments[0].blocks[1]: no site has this number"},
      {"\"site\": 0", "\"site\": 4294967295",
       "segments[0].blocks[1]: \"site\" cannot be"},
      {"\"number\": 2", "\"number\": 1",
       "events[1]: the events are not in the order of their numbers"},
      {"{\"number\": 2", "3, {\"number\": 2", "events[0]: not an object"},
      {"\"later\"", "\"statistics\"", "\"statistics\" cannot be"},
      {"\"later\": [1.5e3, null]", "\"statistics\": {\"num_ooms\": 0.5}",
       "\"num_ooms\" cannot be"},
  });
}

TEST(SnapshotReaderTest, ErrorNamesTheLineOfBadJson) {
  ExpectErrors({
      {"\"size\": 1024", "\"size\": 0024", "parse error at line 3"},
      {"\"size\": 1024", "\"size\": 1e999", "number overflow"},
      {"a.cc", "a\x01.cc", "parse error at line 2"},
      {"a.cc", "a\xff.cc", "parse error at line 2"},
      {"a.cc", "\\ud800.cc", "parse error at line 2"},
      {"a.cc", "\\q", "parse error at line 2"},
      {"null]}", "null]} x", "parse error at line 8"},
      {"null", "nul", "parse error at line 8"},
      {"{\"number\": 1", "{\"number\" 1", "parse error at line 7"},
      {"\"later\"", "later", "parse error at line 8"},
  });
}

TEST(SnapshotReaderTest, SegmentsInOrder) {
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

// After a second list of sites, indices into the first would mean nothing.
TEST(SnapshotReaderTest, KeysTwice) {
  for (const char* key : {"sites", "segments", "events"}) {
    EXPECT_THAT(ErrorOf(absl::StrCat(R"({"schema": "devrt.memory/1",
"sites": [{}], "segments": [], "events": [{"number": 1, "site": 0}],
")",
                                     key, "\": []}")),
                HasSubstr(absl::StrCat("the key \"", key, "\" comes twice")));
  }
}

TEST(SnapshotReaderTest, HolesAreOfExpandableSegments) {
  const std::string hole = R"({"schema": "devrt.memory/1", "segments": [
{"address": "0x1000", "size": 512, "expandable": true, "blocks": [
{"offset": 0, "size": 512, "state": "unmapped"},
{"offset": 512, "size": 512, "state": "inactive"}]}]})";
  EXPECT_EQ(ErrorOf(hole), "accepted");
  EXPECT_THAT(ErrorOf(absl::StrReplaceAll(hole, {{"true", "false"}})),
              HasSubstr("only an expandable segment has unmapped blocks"));
}

// Sites, schema and all may come in another order than the library's.
TEST(SnapshotReaderTest, AnyOrderOfKeys) {
  EXPECT_EQ(ErrorOf(R"({"events": [{"site": 0, "number": 1}], "sites": [{}],
"schema": "devrt.memory/1"})"),
            "accepted");
  EXPECT_THAT(ErrorOf(R"({"events": [{"number": 1,
"site": 1}], "sites": [{}], "schema": "devrt.memory/1"})"),
              HasSubstr("events[0]: no site has this number"));
}

TEST(SnapshotReaderTest, TextThatIsNotUtf8) {
  MemorySnapshot s;
  s.sites = {{"caf\xe9 \"x\"\\\n", 1, {}}};
  const SnapshotFile read = ParseMemorySnapshot(ToJson(s)).value();
  EXPECT_EQ(read.snapshot.sites[0].file, "caf\xef\xbf\xbd \"x\"\\\n");
}

}  // namespace
}  // namespace devrt::tools
