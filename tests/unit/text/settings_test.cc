// SPDX-License-Identifier: Apache-2.0
//
// The grammar of settings and its messages.  The keys of each user have tests
// of their own.
#include "backends/text/settings.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace devrt::internal {
namespace {

struct Key {
  const char* name;
};
constexpr Key kKeys[] = {{"memory"}, {"seed"}, {"priorities"}};

std::vector<std::string> Read(std::string_view text) {
  std::vector<std::string> found;
  SettingsReader reader(text, ':');
  while (const std::optional<Setting> setting = reader.Next()) {
    found.push_back(std::to_string(setting->at) + " " +
                    std::string(setting->key) +
                    (setting->value ? "|" + std::string(*setting->value) : ""));
  }
  return found;
}

using Found = std::vector<std::string>;

TEST(Settings, AreReadWithTheirPlaces) {
  EXPECT_EQ(Read(""), Found());
  EXPECT_EQ(Read(" ,\t,"), Found());
  EXPECT_EQ(Read("a:1"), Found({"0 a|1"}));
  EXPECT_EQ(Read(", a : 1 ,b:,c"), Found({"2 a|1", "9 b|", "12 c"}));
  EXPECT_EQ(Read("a:b:c,:1"), Found({"0 a|b:c", "6 |1"}));
}

TEST(Settings, CommasInBracketsBelongToTheValue) {
  EXPECT_EQ(Read("a:[1:2,>:4],b:1"), Found({"0 a|[1:2,>:4]", "12 b|1"}));
  EXPECT_EQ(Read("a:[1,b:1"), Found({"0 a|[1,b:1"}));
}

TEST(Settings, MessagesSuggestARemedy) {
  EXPECT_EQ(UnknownSetting({"sede", "7", 4}, '=', kKeys),
            "unknown key \"sede\" at character 5; did you mean \"seed\"? the "
            "keys are memory, seed, priorities");
  EXPECT_EQ(UnknownSetting({"colour", "7"}, '=', kKeys),
            "unknown key \"colour\" at character 1; the keys are memory, seed, "
            "priorities");
  EXPECT_EQ(UnknownSetting({"seed=7", std::nullopt}, ':', kKeys),
            "unknown key \"seed=7\" at character 1; write KEY:VALUE, with ':' "
            "and not '='; did you mean \"seed\"? the keys are memory, seed, "
            "priorities");
  EXPECT_EQ(MissingValue({"seed", std::nullopt}, '=', "a number"),
            "key \"seed\" has no value: write seed=VALUE, where VALUE is a "
            "number");
  EXPECT_EQ(RefusedValue({"seed", "x"}, "a number"),
            "key \"seed\" cannot be \"x\": it takes a number");
}

TEST(Settings, QuotesArePrintableAndShort) {
  EXPECT_EQ(QuotedSetting("a\n\xff"), "\"a??\"");
  EXPECT_EQ(QuotedSetting(std::string(100'000, 'a')),
            "\"" + std::string(48, 'a') + "...\" (100000 bytes)");
}

TEST(Settings, PartsOfAKeyAreTypingErrors) {
  EXPECT_EQ(TypingDistance("memory_bytes", "memory"), 1u);
  EXPECT_EQ(TypingDistance("prio", "priorities"), 1u);
  EXPECT_EQ(TypingDistance("", "memory"), std::nullopt);
  EXPECT_EQ(TypingDistance(std::string(41, 'a'), "memory"), std::nullopt);
}

}  // namespace
}  // namespace devrt::internal
