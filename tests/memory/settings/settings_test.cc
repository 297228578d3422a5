// SPDX-License-Identifier: Apache-2.0
//
// The string of settings.h: every key, every kind of mistake, and that a string
// with a mistake changes nothing.

#include "devrt/memory/settings.h"

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "memory/common/rounding.h"
#include "tests/support/status_matchers.h"

namespace devrt {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Must;
using ::testing::SizeIs;
using testing::StatusIs;
using Source = AllocatorSettings::Source;

using internal::kMiB;

AllocatorSettings Parse(const std::string& text) {
  return Must(ParseAllocatorSettings(text));
}

TEST(SettingsTest, NothingIsTheDefaults) {
  for (const char* text : {"", " ", ",", " , ,"}) {
    const AllocatorSettings s = Parse(text);
    EXPECT_EQ(s.max_split_size, UINT64_MAX);
    EXPECT_EQ(s.garbage_collection_threshold, 0);
    EXPECT_THAT(s.roundup_power2_divisions, IsEmpty());
    EXPECT_FALSE(s.expandable_segments);
    EXPECT_EQ(s.per_process_memory_fraction, 1.0);
    EXPECT_TRUE(s.cross_stream_reuse);
    EXPECT_FALSE(s.pinned_register);
    EXPECT_EQ(s.pinned_register_threads, 1u);
    EXPECT_FALSE(s.pinned_background);
    EXPECT_EQ(s.pinned_class_limit, kMiB);
    EXPECT_EQ(s.source, Source::kCaching);
  }
}

TEST(SettingsTest, EveryKeyIsRead) {
  const AllocatorSettings s = Parse(
      "max_split_size_mb:512, garbage_collection_threshold : 0.25 ,"
      "roundup_power2_divisions:8,expandable_segments:True,"
      "per_process_memory_fraction:0.5,cross_stream_reuse:never,"
      "pinned_use_cuda_host_register:true,pinned_num_register_threads:128,"
      "pinned_use_background_threads:1,pinned_class_limit_mb:64,backend:raw");
  EXPECT_EQ(s.max_split_size, 512 * kMiB);
  EXPECT_EQ(s.garbage_collection_threshold, 0.25);
  EXPECT_THAT(s.roundup_power2_divisions, AllOf(SizeIs(17), Each(8u)));
  EXPECT_TRUE(s.expandable_segments);
  EXPECT_EQ(s.per_process_memory_fraction, 0.5);
  EXPECT_FALSE(s.cross_stream_reuse);
  EXPECT_TRUE(s.pinned_register);
  EXPECT_EQ(s.pinned_register_threads, 128u);
  EXPECT_TRUE(s.pinned_background);
  EXPECT_EQ(s.pinned_class_limit, 64 * kMiB);
  EXPECT_EQ(s.source, Source::kRaw);
}

// The literal strings of the seed tests.
TEST(SettingsTest, PinnedMemoryWithCudaregister) {
  AllocatorSettings s =
      Parse("pinned_use_cuda_host_register:True,pinned_num_register_threads:8");
  EXPECT_TRUE(s.pinned_register);
  EXPECT_EQ(s.pinned_register_threads, 8u);
  s = Must(ParseAllocatorSettings("pinned_use_cuda_host_register:False", s));
  EXPECT_FALSE(s.pinned_register);
  EXPECT_EQ(s.pinned_register_threads, 8u) << "keys not named stay";
}

TEST(SettingsTest, DivisionsHoldDownToTheEntryBefore) {
  const AllocatorSettings s =
      Parse("roundup_power2_divisions:[2:1, 8:2,64:4,>:8],backend:driver");
  EXPECT_THAT(s.roundup_power2_divisions,
              ElementsAre(1, 1, 2, 2, 4, 4, 4, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8));
  EXPECT_EQ(s.source, Source::kDriver) << "what follows the list is read";
  EXPECT_EQ(Parse("roundup_power2_divisions:[1:2]").roundup_power2_divisions[1],
            0u)
      << "beyond the last entry there is none";
}

TEST(SettingsTest, TheLastOfTwoCounts) {
  EXPECT_EQ(Parse("max_split_size_mb:30,max_split_size_mb:none").max_split_size,
            UINT64_MAX);
}

TEST(SettingsTest, WrittenSettingsParseToEqualSettings) {
  const std::string texts[] = {
      "",
      "max_split_size_mb:21,garbage_collection_threshold:0.1",
      "roundup_power2_divisions:[1:2,1024:16,>:64],cross_stream_reuse:never",
      "per_process_memory_fraction:0.3333333333333333,backend:raw",
      "pinned_use_background_threads:True,expandable_segments:True",
  };
  for (const std::string& text : texts) {
    const std::string written = ToString(Parse(text));
    EXPECT_EQ(ToString(Parse(written)), written);
  }
  EXPECT_EQ(Parse(ToString(Parse("per_process_memory_fraction:0.1")))
                .per_process_memory_fraction,
            0.1)
      << "to the last bit";
}

TEST(SettingsTest, UnknownKeysAreNamedWithTheNearest) {
  EXPECT_THAT(ParseAllocatorSettings("max_split_size:512"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("unknown key \"max_split_size\""),
                             HasSubstr("did you mean \"max_split_size_mb\"?"),
                             HasSubstr("pinned_class_limit_mb"))));
  EXPECT_THAT(ParseAllocatorSettings("x:1"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("unknown key \"x\" at character 1; the "
                                       "keys are"),
                             Not(HasSubstr("did you mean")))));
  EXPECT_STATUS(ParseAllocatorSettings(std::string(100'000, 'a')),
                kInvalidArgument, "100000");
  EXPECT_STATUS(ParseAllocatorSettings("a\nb:1"), kInvalidArgument, "a?b");
}

struct Bad {
  const char* text;
  const char* key;
  const char* choices;
};

class BadValueTest : public ::testing::TestWithParam<Bad> {};

TEST_P(BadValueTest, IsNamedWithTheChoices) {
  const Bad& bad = GetParam();
  EXPECT_THAT(ParseAllocatorSettings(bad.text),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr(std::string("key \"") + bad.key + "\""),
                             HasSubstr(bad.choices))));
}

constexpr Bad kBad[] = {
    {"max_split_size_mb:20", "max_split_size_mb", "above 20"},
    {"max_split_size_mb:-1", "max_split_size_mb", "above 20"},
    {"max_split_size_mb:+30", "max_split_size_mb", "above 20"},
    {"max_split_size_mb:30.5", "max_split_size_mb", "above 20"},
    {"max_split_size_mb:17592186044416", "max_split_size_mb", "above 20"},
    {"max_split_size_mb:99999999999999999999", "max_split_size_mb", "above 20"},
    {"max_split_size_mb:", "max_split_size_mb", "above 20"},
    {"max_split_size_mb", "max_split_size_mb", "has no value"},
    {"garbage_collection_threshold:1", "garbage_collection_threshold",
     "below 1"},
    {"garbage_collection_threshold:nan", "garbage_collection_threshold",
     "below 1"},
    {"garbage_collection_threshold:-0.1", "garbage_collection_threshold",
     "below 1"},
    {"roundup_power2_divisions:3", "roundup_power2_divisions", "1, 2, 4"},
    {"roundup_power2_divisions:128", "roundup_power2_divisions", "1, 2, 4"},
    {"roundup_power2_divisions:0", "roundup_power2_divisions", "1, 2, 4"},
    {"roundup_power2_divisions:[]", "roundup_power2_divisions", "a list"},
    {"roundup_power2_divisions:[1:2", "roundup_power2_divisions", "a list"},
    {"roundup_power2_divisions:[3:2]", "roundup_power2_divisions", "a list"},
    {"roundup_power2_divisions:[2:2,1:2]", "roundup_power2_divisions",
     "ascending"},
    {"roundup_power2_divisions:[131072:2]", "roundup_power2_divisions",
     "65536"},
    {"roundup_power2_divisions:[>:2,4:2]", "roundup_power2_divisions", "list"},
    {"roundup_power2_divisions:[2:2,]", "roundup_power2_divisions", "list"},
    {"expandable_segments:yes", "expandable_segments", "True or False"},
    {"per_process_memory_fraction:2", "per_process_memory_fraction", "0 to 1"},
    {"per_process_memory_fraction:-0.1", "per_process_memory_fraction",
     "0 to 1"},
    {"per_process_memory_fraction:nan", "per_process_memory_fraction",
     "0 to 1"},
    {"per_process_memory_fraction:half", "per_process_memory_fraction",
     "0 to 1"},
    {"cross_stream_reuse:always", "cross_stream_reuse", "ordered or never"},
    {"pinned_use_cuda_host_register:TRUE", "pinned_use_cuda_host_register",
     "True or False"},
    {"pinned_num_register_threads:0", "pinned_num_register_threads", "128"},
    {"pinned_num_register_threads:256", "pinned_num_register_threads", "128"},
    {"pinned_num_register_threads:6", "pinned_num_register_threads", "128"},
    {"pinned_use_background_threads:2", "pinned_use_background_threads",
     "True or False"},
    {"pinned_class_limit_mb:0", "pinned_class_limit_mb", "power of two"},
    {"pinned_class_limit_mb:3", "pinned_class_limit_mb", "power of two"},
    {"backend:cudaMallocAsync", "backend", "caching, driver or raw"},
    {"backend: :raw", "backend", "caching, driver or raw"},
};
INSTANTIATE_TEST_SUITE_P(Settings, BadValueTest, ::testing::ValuesIn(kBad));

// ---- Of the process ---------------------------------------------------------

class LiveSettingsTest : public ::testing::Test {
 protected:
  ~LiveSettingsTest() override { EXPECT_OK(SetAllocatorSettings(before_)); }
  const std::string before_ = ToString(GetAllocatorSettings());
};

TEST_F(LiveSettingsTest, AStringWithAMistakeChangesNothing) {
  ASSERT_OK(SetAllocatorSettings("max_split_size_mb:64"));
  const std::string before = ToString(GetAllocatorSettings());
  EXPECT_STATUS(SetAllocatorSettings("max_split_size_mb:128,"
                                     "pinned_class_limit_mb:2,backend:none"),
                kInvalidArgument, "allocator settings: key \"backend\"");
  EXPECT_EQ(ToString(GetAllocatorSettings()), before);
}

TEST_F(LiveSettingsTest, KeysThatAreNotNamedStay) {
  ASSERT_OK(SetAllocatorSettings("max_split_size_mb:64"));
  ASSERT_OK(SetAllocatorSettings("pinned_class_limit_mb:2"));
  EXPECT_EQ(GetAllocatorSettings().max_split_size, 64 * kMiB);
  EXPECT_EQ(GetAllocatorSettings().pinned_class_limit, 2 * kMiB);
}

// Two keys that are set together are never seen apart.
TEST_F(LiveSettingsTest, ThreadsSeeOldOrNewSettings) {
  ASSERT_OK(SetAllocatorSettings(
      "max_split_size_mb:32,pinned_num_register_threads:1"));
  std::atomic<bool> stop{false};
  std::atomic<int> mixed{0};
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      while (!stop) {
        const AllocatorSettings s = GetAllocatorSettings();
        const bool first = s.max_split_size == 32 * kMiB;
        if (first != (s.pinned_register_threads == 1)) ++mixed;
      }
    });
  }
  for (int i = 0; i < 2000; ++i) {
    EXPECT_OK(SetAllocatorSettings(
        i % 2 == 0 ? "max_split_size_mb:64,pinned_num_register_threads:2"
                   : "max_split_size_mb:32,pinned_num_register_threads:1"));
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(mixed, 0);
}

}  // namespace
}  // namespace devrt
