// SPDX-License-Identifier: Apache-2.0
//
// The rules of the layer `faults`: their texts, and what they hit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "layers/faults/entries.h"
#include "layers/faults/injector.h"
#include "layers/faults/rules.h"

namespace devrt::faults {
namespace {

using internal::FaultRule;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<FaultRule> Parsed(const std::string& text) {
  std::vector<FaultRule> rules;
  std::string error;
  EXPECT_TRUE(ReadRules(text, &rules, &error)) << text << ": " << error;
  return rules;
}

std::string Refused(const std::string& text) {
  std::vector<FaultRule> rules(1);
  std::string error;
  EXPECT_FALSE(ReadRules(text, &rules, &error)) << text;
  EXPECT_EQ(rules.size(), 1u) << "a mistake leaves the rules";
  return error;
}

Verdict Judge(Injector* injector, CallId id, uint64_t bytes = 0,
              int32_t device = 0) {
  Facts facts{id};
  facts.bytes = bytes;
  facts.device = device;
  return injector->Judge(facts, {});
}

// The calls at which `text` fires, from 1.
std::vector<int> Fires(const std::string& text, CallId id, int calls) {
  Injector injector("mtia");
  injector.Set(Parsed(text));
  std::vector<int> fired;
  for (int i = 1; i <= calls; ++i) {
    if (Judge(&injector, id).fails) fired.push_back(i);
  }
  return fired;
}

TEST(FaultEntries, EveryCallCanFailOrSaysWhyNot) {
  static_assert(sizeof kEntries / sizeof kEntries[0] == layer::kCallCount);
  for (size_t i = 0; i < layer::kCallCount; ++i) {
    const auto id = static_cast<CallId>(i);
    const std::string name = layer::kCallNames[i];
    ASSERT_EQ(EntryOf(id).id, id) << name;
    if (EntryOf(id).does == Does::kExcluded) {
      EXPECT_THAT(Refused("api_error:call=" + name),
                  HasSubstr(EntryOf(id).reason));
      continue;
    }
    EXPECT_EQ(EntryOf(id).reason, nullptr) << name;
    EXPECT_THAT(Fires("api_error:call=" + name, id, 2), ElementsAre(1)) << name;
    if ((FormsOf(id) & DEVRT_FAULT_LATE) == 0) {
      EXPECT_THAT(Refused("api_error:late=yes:call=" + name),
                  HasSubstr("cannot fail late"));
    } else {
      Injector injector("mtia");
      injector.Set(Parsed("api_error:late=yes:call=" + name));
      EXPECT_TRUE(Judge(&injector, id).late) << name;
    }
  }
}

TEST(FaultRules, TextsAreReadAndWritten) {
  for (const char* const text :
       {"oom", "oom:memory=pinned:bytes=1024:nth=3:times=0",
        "api_error:backend=cuda:call=copy_async:device=1:code=ABORTED:late=yes",
        "api_error:p=0.25:seed=9", "api_error:times=2:p=0.000001",
        "oom:nth=2+api_error:call=probe.spin:native=719"}) {
    EXPECT_EQ(FaultRulesText(Parsed(text)), text);
  }
  EXPECT_EQ(FaultRulesText(Parsed(" api_error : nth = 2 + + oom ")),
            "api_error:nth=2+oom");
  EXPECT_EQ(FaultRulesText(Parsed("")), "");
}

TEST(FaultRules, JsonIsTheSame) {
  EXPECT_EQ(FaultRulesText(Parsed(R"({"faults": [
      {"class": "oom", "device": 0, "nth": 7},
      {"class": "api_error", "call": "alloc", "p": 0.5, "late": false},
      {"call": "event_record", "late": true, "class": "api_error"}]})")),
            "oom:device=0:nth=7+api_error:call=alloc:p=0.5+"
            "api_error:call=event_record:late=yes");
  EXPECT_EQ(FaultRulesText(Parsed(R"({"faults": []})")), "");
  // However JSON writes the number.
  EXPECT_EQ(FaultRulesText(Parsed(R"({"faults": [
      {"class": "oom", "p": 0.00001}, {"class": "oom", "p": 1e-6},
      {"class": "oom", "p": 1.0}]})")),
            "oom:p=0.00001+oom:p=0.000001+oom");
  EXPECT_THAT(Refused(R"({"faults": [{"class": "oom", "p": 1e-7}]})"),
              HasSubstr("cannot be \"0.0000001\""));
}

TEST(FaultRules, AFileHasOneOfBoth) {
  const std::string path = ::testing::TempDir() + "/devrt_faults_rules";
  std::ofstream(path) << "{\"faults\": [{\"class\": \"oom\"}]}\n";
  EXPECT_EQ(FaultRulesText(Parsed(path)), "oom");
  std::ofstream(path) << "oom:nth=2\n";
  EXPECT_EQ(FaultRulesText(Parsed(path)), "oom:nth=2");
  std::ofstream(path) << "oom:nth=0\n";
  EXPECT_THAT(Refused(path), HasSubstr(path + ": fault"));
  std::remove(path.c_str());
  EXPECT_THAT(Refused(path), HasSubstr("cannot be read: No such file"));
}

TEST(FaultRules, MistakesNameTheChoices) {
  EXPECT_THAT(Refused("oon"), HasSubstr("no class of faults has the name "
                                        "\"oon\"; the classes are oom, "
                                        "api_error"));
  EXPECT_THAT(Refused("hang:nth=1"), HasSubstr("key faults of DEVRT_MTIA"));
  EXPECT_THAT(
      Refused("oom:nht=1"),
      HasSubstr(
          "unknown key \"nht\" at character 5; the keys are backend, memory"));
  EXPECT_THAT(Refused("oom:nth=0"),
              HasSubstr("cannot be \"0\": it takes a whole number from 1"));
  EXPECT_THAT(Refused("oom:nth"), HasSubstr("key \"nth\" has no value"));
  EXPECT_THAT(Refused("oom:nth=2:nth=3"),
              HasSubstr("key \"nth\" is given twice"));
  EXPECT_THAT(Refused("oom:memory=host"), HasSubstr("device, pinned or pool"));
  EXPECT_THAT(Refused("oom:call=alloc"), HasSubstr("unknown key \"call\""));
  EXPECT_THAT(Refused("api_error:p=0"), HasSubstr("a probability above 0"));
  EXPECT_THAT(Refused("api_error:p=1.5"), HasSubstr("a probability above 0"));
  EXPECT_THAT(Refused("api_error:code=OK"), HasSubstr("the name of a code"));
  EXPECT_THAT(Refused("api_error:call=malloc"),
              HasSubstr("no entry point has the name \"malloc\"; rules hit "
                        "device_count, "));
  EXPECT_THAT(Refused("{\"faults\": 1}"), HasSubstr("no list \"faults\""));
  EXPECT_THAT(Refused("{\"fault\": []}"), HasSubstr("unknown key \"fault\""));
  EXPECT_THAT(Refused("{"), HasSubstr("are no JSON"));
  EXPECT_THAT(Refused("{\"faults\": [1]}"), HasSubstr("fault 1: is \"1\""));
  EXPECT_THAT(Refused("{\"faults\": [{\"nth\": 1}]}"),
              HasSubstr("fault 1: has no \"class\""));
  EXPECT_THAT(Refused("{\"faults\": [{\"class\": \"oom\"}, {\"class\": "
                      "\"oom\", \"nth\": -1}]}"),
              HasSubstr("fault 2: key \"nth\" cannot be \"-1\""));
}

TEST(FaultInjector, CountsWhatARuleMatches) {
  EXPECT_THAT(Fires("api_error:nth=3", CallId::alloc, 6), ElementsAre(3));
  EXPECT_THAT(Fires("api_error:nth=3:times=2", CallId::alloc, 6),
              ElementsAre(3, 4));
  EXPECT_THAT(Fires("api_error:nth=5:times=0", CallId::alloc, 6),
              ElementsAre(5, 6));
  EXPECT_THAT(Fires("api_error:call=dealloc", CallId::alloc, 6), ElementsAre());
  EXPECT_THAT(Fires("oom", CallId::event_create, 6), ElementsAre());
  // Two rules count on their own; one fault hits a call.
  EXPECT_THAT(
      Fires("oom:nth=2+api_error:nth=2+api_error:nth=4", CallId::alloc, 6),
      ElementsAre(2, 4));
}

TEST(FaultInjector, DevicesBytesAndBackendsAreMatched) {
  Injector injector("mtia");
  injector.Set(Parsed("oom:device=1:bytes=100:times=0"));
  EXPECT_FALSE(Judge(&injector, CallId::alloc, 100, 0).fails);
  EXPECT_FALSE(Judge(&injector, CallId::alloc, 99, 1).fails);
  EXPECT_TRUE(Judge(&injector, CallId::alloc, 100, 1).fails);
  // A stream is of the device for which it was made.
  int stream = 0;
  injector.Set(Parsed("api_error:device=1:times=0"));
  injector.NoteMade(CallId::stream_create, &stream, 1);
  Facts facts{CallId::stream_sync};
  facts.object = &stream;
  const Verdict verdict = injector.Judge(facts, {});
  EXPECT_TRUE(verdict.fails);
  EXPECT_EQ(verdict.device, 1);
  // A call that fails to end it restores what is known.
  const std::optional<int32_t> device = injector.ForgetDevice(&stream);
  EXPECT_EQ(device, 1);
  EXPECT_FALSE(injector.Judge(facts, {}).fails);
  injector.NoteDevice(&stream, *device);
  EXPECT_TRUE(injector.Judge(facts, {}).fails);
  EXPECT_EQ(injector.Live().streams, 1u);
  injector.ForgetDevice(&stream);
  injector.NoteEnded(CallId::stream_destroy);
  EXPECT_EQ(injector.Live().streams, 0u);
  EXPECT_EQ(injector.ForgetDevice(&stream), std::nullopt);
  injector.Set(Parsed("api_error:backend=cuda:times=0"));
  EXPECT_FALSE(Judge(&injector, CallId::alloc).fails);
}

TEST(FaultInjector, AProbabilityDrawsBySeed) {
  const std::vector<int> a =
      Fires("api_error:p=0.25:seed=1", CallId::alloc, 1000);
  EXPECT_EQ(a, Fires("api_error:p=0.25:seed=1", CallId::alloc, 1000));
  EXPECT_NE(a, Fires("api_error:p=0.25:seed=2", CallId::alloc, 1000));
  EXPECT_GT(a.size(), 200u);
  EXPECT_LT(a.size(), 300u);
}

TEST(FaultInjector, RecordsPointsAndWhatFired) {
  Injector injector("mtia");
  injector.Record(true);
  Judge(&injector, CallId::alloc, 16);
  Judge(&injector, CallId::dealloc, 16);
  Judge(&injector, CallId::alloc, 32, 1);
  const std::vector<devrt_fault_point_v0> points = injector.Points();
  ASSERT_EQ(points.size(), 3u);
  EXPECT_STREQ(points[2].call, "alloc");
  EXPECT_EQ(points[2].index, 2u);
  EXPECT_EQ(points[2].bytes, 32u);
  EXPECT_EQ(points[2].device, 1);
  EXPECT_EQ(points[2].forms, DEVRT_FAULT_EARLY | DEVRT_FAULT_OOM);
  injector.Record(false);
  injector.Set(Parsed("oom"));
  devrt_fault_point_v0 last = {};
  EXPECT_EQ(injector.Fired(&last), 0u);
  const Verdict verdict = Judge(&injector, CallId::alloc, 64);
  EXPECT_EQ(verdict.code, DEVRT_RESOURCE_EXHAUSTED);
  EXPECT_EQ(verdict.text, "alloc: injected fault \"oom\", at match 1");
  EXPECT_EQ(injector.Fired(&last), 1u);
  EXPECT_EQ(last.bytes, 64u);
}

}  // namespace
}  // namespace devrt::faults
