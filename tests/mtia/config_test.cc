// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/config/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace devrt::mtia {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// `text` on top of the defaults, which must succeed.
Config Parsed(std::string_view text) {
  Config config;
  std::string error;
  EXPECT_TRUE(ParseConfig(text, &config, &error)) << text << ": " << error;
  return config;
}

// The message for `text`, which must fail and change nothing.
std::string Refused(std::string_view text) {
  Config config;
  config.seed = 77;
  const std::string before = ConfigText(config);
  std::string error;
  EXPECT_FALSE(ParseConfig(text, &config, &error)) << text;
  EXPECT_EQ(ConfigText(config), before) << text;
  EXPECT_LT(error.size(), 1000u);
  EXPECT_THAT(error, Not(HasSubstr("\n")));
  return error;
}

TEST(ConfigTest, EmptyTextChangesNothing) {
  const std::string defaults = ConfigText(Config{});
  for (const char* text : {"", " ", ",", " , ,\n"}) {
    EXPECT_EQ(ConfigText(Parsed(text)), defaults);
  }
}

TEST(ConfigTest, DefaultsAreThoseOfTheReference) {
  const Config config;
  EXPECT_EQ(config.devices, 2u);
  EXPECT_EQ(config.memory, 256u << 20);
  EXPECT_EQ(config.pageable, Pageable::kExplore);
  EXPECT_EQ(config.queue_depth, kUnlimited);
  EXPECT_FALSE(config.fault_scope_process);
  EXPECT_FALSE(config.raw_free_syncs);
}

TEST(ConfigTest, ReadsTheExampleOfTheHeader) {
  const Config config = Parsed("devices=4,memory=64MiB,mode=threaded,seed=7");
  EXPECT_EQ(config.devices, 4u);
  EXPECT_EQ(config.memory, 64u << 20);
  EXPECT_EQ(config.mode, Mode::kThreaded);
  EXPECT_EQ(config.seed, 7u);
}

TEST(ConfigTest, ReadsEveryKey) {
  const Config c = Parsed(
      " devices = 64 , memory=2GiB,overhead=3MiB,pinned=5MiB,granularity=1KiB,"
      "gap=0,mode=threaded,strategy=lifo,changes=3,seed=18446744073709551615,"
      "slots=unlimited,pageable=late,poison=full,peers=0-1+3-2+0-1,"
      "queue_depth=2000,fault_scope=process,raw_free_syncs=yes,"
      "fault_delivery=abort,strict=cuda,split_limit=8KiB,host_access=continue,"
      "watchdog=3s,baton=off,pin=off,step_limit=99,priorities=-2..1,"
      "invert_priorities=yes,latency=5us,kernel=7ns,copy=9ns,jitter=3,h2d=1GB/"
      "s,d2h=2GiB/s,"
      "p2p=3MB,local=4000,host_call=0,collective_slots=3,"
      "collective_mismatch=hang,collective_skew=0,collective_alpha=1us,"
      "collective_node=4,collective_link=1GB,collective_nic=2MB");
  EXPECT_EQ(c.collective_slots, 3u);
  EXPECT_EQ(c.collective_mismatch, Mismatch::kHang);
  EXPECT_EQ(c.collective_skew, 0u);
  EXPECT_EQ(c.collective_alpha, 1'000u);
  EXPECT_EQ(c.collective_node, 4u);
  EXPECT_EQ(c.collective_link, 1'000'000'000u);
  EXPECT_EQ(c.collective_nic, 2'000'000u);
  EXPECT_EQ(c.devices, 64u);
  EXPECT_EQ(c.memory, 2ull << 30);
  EXPECT_EQ(c.overhead, 3u << 20);
  EXPECT_EQ(c.pinned, 5u << 20);
  EXPECT_EQ(c.granularity, 1024u);
  EXPECT_EQ(c.gap, 0u);
  EXPECT_EQ(c.strategy, StrategyKind::kLifo);
  EXPECT_EQ(c.changes, 3u);
  EXPECT_EQ(c.seed, ~uint64_t{0});
  EXPECT_EQ(c.slots, kUnlimited);
  EXPECT_EQ(c.pageable, Pageable::kLate);
  EXPECT_EQ(c.poison, Poison::kFull);
  EXPECT_EQ(c.peers, Peers::kMatrix);
  using Links = std::vector<std::pair<uint32_t, uint32_t>>;
  EXPECT_EQ(c.peer_links, (Links{{0, 1}, {3, 2}}));
  EXPECT_EQ(c.queue_depth, 2000u);
  EXPECT_TRUE(c.fault_scope_process);
  EXPECT_TRUE(c.raw_free_syncs);
  EXPECT_TRUE(c.fault_delivery_abort);
  EXPECT_TRUE(c.strict_cuda);
  EXPECT_EQ(c.split_limit, 8u << 10);
  EXPECT_EQ(c.host_access, HostAccess::kContinue);
  EXPECT_EQ(c.watchdog, 3'000'000'000u);
  EXPECT_FALSE(c.baton);
  EXPECT_FALSE(c.pin);
  EXPECT_EQ(c.step_limit, 99u);
  EXPECT_EQ(c.priority_greatest, -2);
  EXPECT_EQ(c.priority_least, 1);
  EXPECT_TRUE(c.invert_priorities);
  EXPECT_EQ(c.latency, 5000u);
  EXPECT_EQ(c.kernel, 7u);
  EXPECT_EQ(c.copy, 9u);
  EXPECT_EQ(c.jitter, 3u);
  EXPECT_EQ(c.h2d, 1'000'000'000u);
  EXPECT_EQ(c.d2h, 2ull << 30);
  EXPECT_EQ(c.p2p, 3'000'000u);
  EXPECT_EQ(c.local, 4000u);
  EXPECT_EQ(c.host_call, 0u);
}

TEST(ConfigTest, TextOfAConfigurationParsesToAnEqualOne) {
  for (const char* text :
       {"", "profile=cuda", "profile=hip,queue_depth=7777,pageable=late",
        "profile=cuda,queue_depth=unlimited,fault_scope=device",
        "devices=3,peers=0-1+1-2+2-0", "peers=none", "peers=ring,devices=64",
        "memory=1MiB", "memory=1025KiB,overhead=1,granularity=256",
        "h2d=1234567,latency=12345,watchdog=1500ms,gap=0,slots=unlimited",
        "priorities=-100..100,host_access=off,poison=off,step_limit=5"}) {
    const Config config = Parsed(text);
    // On top of something else, since the text names every key.
    Config again = Parsed("profile=hip,devices=9,peers=8-1,seed=5");
    std::string error;
    ASSERT_TRUE(ParseConfig(ConfigText(config), &again, &error)) << error;
    EXPECT_EQ(ConfigText(again), ConfigText(config)) << text;
    EXPECT_EQ(again.peer_links, config.peer_links);
    EXPECT_EQ(again.h2d, config.h2d);
  }
}

TEST(ConfigTest, SettingANamedTopologyForgetsTheMatrix) {
  Config config = Parsed("peers=0-1");
  std::string error;
  ASSERT_TRUE(ParseConfig("peers=ring", &config, &error));
  EXPECT_TRUE(config.peer_links.empty());
}

TEST(ConfigTest, ProfilesSetTheHardwaresBehaviour) {
  const Config cuda = Parsed("profile=cuda");
  EXPECT_EQ(cuda.queue_depth, 1000u);
  EXPECT_EQ(cuda.pageable, Pageable::kStaged);
  EXPECT_TRUE(cuda.raw_free_syncs);
  EXPECT_TRUE(cuda.fault_scope_process);
  EXPECT_FALSE(cuda.fault_delivery_abort);

  const Config hip = Parsed("profile=hip");
  EXPECT_EQ(hip.pageable, Pageable::kSync);
  EXPECT_TRUE(hip.raw_free_syncs);
  EXPECT_TRUE(hip.fault_delivery_abort);
  EXPECT_FALSE(hip.fault_scope_process);
}

TEST(ConfigTest, KeysWinOverTheProfile) {
  for (const char* text : {"profile=cuda,pageable=late,queue_depth=5000",
                           "pageable=late,queue_depth=5000,profile=cuda"}) {
    const Config config = Parsed(text);
    EXPECT_EQ(config.pageable, Pageable::kLate) << text;
    EXPECT_EQ(config.queue_depth, 5000u) << text;
    EXPECT_TRUE(config.raw_free_syncs) << text;
  }
}

TEST(ConfigTest, DirectedNamesTwoOperations) {
  const Config c = Parsed("hold=1.20,until=0.3,strategy=directed,outcome=on");
  EXPECT_EQ(c.hold, (OpId{1, 20}));
  EXPECT_EQ(c.until, (OpId{0, 3}));
  EXPECT_EQ(ConfigText(Parsed(ConfigText(c))), ConfigText(c));
  EXPECT_THAT(Refused("strategy=directed,until=0.1"),
              HasSubstr("key \"hold\" cannot be \"none\""));
  EXPECT_THAT(Refused("strategy=directed,hold=0.1,until=0.1"),
              HasSubstr("another operation than hold"));
}

TEST(ConfigTest, HashLeavesOutWhatAReplayDoesNotNeed) {
  const uint64_t hash = ConfigHash(Config{});
  EXPECT_EQ(ConfigHash(Parsed("strategy=directed,hold=0.1,until=0.2,seed=9,"
                              "outcome=on")),
            hash);
  EXPECT_NE(ConfigHash(Parsed("gap=0")), hash);
}

struct WrongValue {
  const char* text;
  const char* expected;
};

// Expects a message that names the key, the value and the expectation.
void ExpectRefused(const std::vector<WrongValue>& cases) {
  for (const WrongValue& c : cases) {
    const std::string text = c.text;
    const size_t mark = text.find('=');
    EXPECT_THAT(
        Refused(text),
        AllOf(HasSubstr("key \"" + text.substr(0, mark) + "\" cannot be \"" +
                        text.substr(mark + 1) + "\": it takes "),
              HasSubstr(c.expected)));
  }
}

TEST(ConfigTest, MessageNamesTheSizeThatIsWrong) {
  ExpectRefused({
      {"devices=0", "a whole number from 1 to 64"},
      {"devices=999", "a whole number from 1 to 64"},
      {"devices=", "a whole number from 1 to 64"},
      {"devices=2x", "a whole number from 1 to 64"},
      {"devices=99999999999999999999", "a whole number from 1 to 64"},
      {"memory=-1", "1MiB to 1TiB"},
      {"memory=256MB", "such as 256MiB"},
      {"memory=1023KiB", "1MiB to 1TiB"},
      {"memory=1.5GiB", "1MiB to 1TiB"},
      {"memory=18446744073709551615TiB", "1MiB to 1TiB"},
      {"overhead=0", "below memory"},
      {"pinned=1", "4KiB to 1TiB"},
      {"granularity=768", "a power of two"},
      {"granularity=128", "a power of two"},
      {"gap=1GiB", "0 to 16MiB"},
      {"queue_depth=999", "at least 1000"},
      {"split_limit=-1", "0 to 1TiB"},
  });
}

TEST(ConfigTest, MessageNamesTheTimeRateOrNumberThatIsWrong) {
  ExpectRefused({
      {"seed=-3", "2^64"},
      {"slots=0", "from 1 to 1024, or unlimited"},
      {"watchdog=0", "1ms"},
      {"watchdog=2h", "1ms"},
      {"step_limit=many", "0 for no limit"},
      {"priorities=0", "greatest..least"},
      {"priorities=1..0", "greatest..least"},
      {"priorities=-101..0", "-100"},
      {"latency=fast", "such as 200ns"},
      {"kernel=0", "1ns"},
      {"copy=0", "1ns"},
      {"jitter=91", "from 0 to 90"},
      {"h2d=0", "1KB/s"},
      {"local=1ns", "1KB/s"},
      {"host_call=1MiB", "a time"},
  });
}

TEST(ConfigTest, MessageNamesTheChoicesOfAKey) {
  ExpectRefused({
      {"mode=fast", "virtual or threaded"},
      {"strategy=Random", "hw, asap, alap, lifo, random, pos, pct or directed"},
      {"changes=101", "from 0 to 100"},
      {"hold=0.1", "none, because only strategy=directed"},
      {"hold=1", "thread.index"},
      {"until=a.b", "thread.index"},
      {"until=-1.2", "thread.index"},
      {"outcome=yes", "on or off"},
      {"pageable=yes", "explore, sync, staged or late"},
      {"poison=1", "full, edges or off"},
      {"written=0", "keep or poison"},
      {"peers=some", "all, ring, none, or links"},
      {"peers=0-0", "between two devices"},
      {"peers=0-1+", "joined by +"},
      {"peers=0-64", "links"},
      {"peers=-1-0", "links"},
      {"fault_scope=world", "device or process"},
      {"raw_free_syncs=on", "no or yes"},
      {"fault_delivery=signal", "status or abort"},
      {"strict=hip", "none or cuda"},
      {"host_access=ignore", "report, continue or off"},
      {"baton=yes", "on or off"},
      {"pin=1", "on or off"},
      {"invert_priorities=true", "no or yes"},
      {"profile=rocm", "none, cuda or hip"},
  });
}

TEST(ConfigTest, MessageNamesTheNearestKey) {
  const struct {
    const char* text;
    const char* nearest;
  } cases[] = {
      {"device=2", "devices"},
      {"devcies=2", "devices"},
      {"memory_bytes=1", "memory"},
      {"compute_slots=2", "slots"},
      {"Seed=2", "seed"},
      {"pageable_async=sync", "pageable"},
      {"host-access=off", "host_access"},
      {"stategy=hw", "strategy"},
      {"queuedepth=1000", "queue_depth"},
      {"h2h=1", "h2d"},
      {"prio=0..1", "priorities"},
  };
  for (const auto& c : cases) {
    EXPECT_THAT(Refused(c.text),
                HasSubstr("did you mean \"" + std::string(c.nearest) + "\"?"))
        << c.text;
  }
}

TEST(ConfigTest, MessageListsTheKeysWhenNoneIsNear) {
  for (const char* text : {"colour=red", "=5", "x"}) {
    EXPECT_THAT(Refused(text),
                AllOf(HasSubstr("unknown key"), Not(HasSubstr("did you mean")),
                      HasSubstr("the keys are profile, devices, memory")))
        << text;
  }
}

TEST(ConfigTest, MessageForAMissingValueShowsTheForm) {
  EXPECT_THAT(Refused("devices"), AllOf(HasSubstr("\"devices\" has no value"),
                                        HasSubstr("devices=VALUE")));
  EXPECT_THAT(Refused("devices=2,memory 64MiB"), HasSubstr("memory 64MiB"));
}

TEST(ConfigTest, RefusesAKeyGivenTwice) {
  EXPECT_THAT(
      Refused("seed=1,devices=2,seed=2"),
      AllOf(HasSubstr("\"seed\""), HasSubstr("\"2\""), HasSubstr("twice")));
  EXPECT_THAT(Refused("profile=hip,profile=cuda"), HasSubstr("twice"));
}

TEST(ConfigTest, ShortensLongAndMasksUnprintableValues) {
  const std::string junk(5000, 'x');
  EXPECT_LT(Refused(junk).size(), 700u);
  EXPECT_LT(Refused("mode=" + junk).size(), 200u);
  EXPECT_THAT(Refused("mode=a\n\x01" + junk), HasSubstr("\"a??xxx"));
  EXPECT_THAT(Refused(std::string(100'000, ',')),
              AllOf(HasSubstr("100000 bytes"), HasSubstr("65536")));
  EXPECT_THAT(Refused(std::string_view("mo\0de=virtual", 13)),
              HasSubstr("mo?de"));
}

TEST(ConfigTest, ChecksKeysAgainstEachOther) {
  EXPECT_THAT(Refused("memory=2MiB,overhead=2MiB"),
              AllOf(HasSubstr("\"overhead\" cannot be \"2MiB\""),
                    HasSubstr("below memory")));
  EXPECT_THAT(Refused("devices=2,peers=0-1+1-2"),
              AllOf(HasSubstr("1-2"), HasSubstr("devices, which is 2")));
  EXPECT_THAT(Refused("memory=1MiB,granularity=2MiB"),
              AllOf(HasSubstr("\"granularity\" cannot be \"2MiB\""),
                    HasSubstr("896KiB")));
  EXPECT_EQ(Parsed("memory=1MiB").overhead, 128u << 10);
}

TEST(ConfigTest, HashLeavesOutSeedAndStrategy) {
  const uint64_t hash = ConfigHash(Config{});
  EXPECT_EQ(ConfigHash(Parsed("seed=9,strategy=random,step_limit=5")), hash);
  EXPECT_NE(ConfigHash(Parsed("devices=3")), hash);
  EXPECT_NE(ConfigHash(Parsed("poison=off")), hash);
}

TEST(ConfigTest, SurvivesMutatedText) {
  constexpr unsigned kSeed = 20261121;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  std::mt19937 random(kSeed);
  const std::string whole = ConfigText(Config{});
  for (int i = 0; i < 1000; ++i) {
    std::string text = whole;
    for (int edits = 0; edits < 3; ++edits) {
      const size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, random() % 8);
          break;
        default:
          text.insert(at, 1, static_cast<char>(random()));
      }
      if (text.empty()) text = ",";
    }
    Config config;
    std::string error;
    if (ParseConfig(text, &config, &error)) {
      Config again;
      EXPECT_TRUE(ParseConfig(ConfigText(config), &again, &error)) << text;
      EXPECT_EQ(ConfigText(again), ConfigText(config)) << text;
    } else {
      EXPECT_FALSE(error.empty()) << text;
    }
  }
}

}  // namespace
}  // namespace devrt::mtia
