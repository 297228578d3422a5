// SPDX-License-Identifier: Apache-2.0
//
// Call stacks in findings, of programs whose calls of devrt have one line: they
// go through one helper.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "devrt/runtime/thread_state.h"
#include "devrt/sim/explore.h"
#include "tests/layers/validate_findings.h"
#include "tests/layers/validate_streams.h"
#include "tests/support/libdw.h"
#include "tests/support/sanitizers.h"

namespace devrt::testing {
namespace {

using nlohmann::json;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

// Names of local functions come from debug information.
class ValidateStacks : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!testing::HasLibdw()) GTEST_SKIP() << testing::kNoLibdw;
  }
};

// Keeps the frame of the caller, which a call at the end of a function would
// replace.
void StayHere() { asm volatile(""); }

[[gnu::noinline]] void Produce(const TwoStreams& s) {
  Use(s.a, Write(s.block, kBytes), "work");
  StayHere();
}
[[gnu::noinline]] void Consume(const TwoStreams& s) {
  Use(s.b, Write(s.block, kBytes), "work");
  StayHere();
}
[[gnu::noinline]] void Deep(const TwoStreams& s, int depth) {
  depth == 0 ? Consume(s) : Deep(s, depth - 1);
  StayHere();
}

// The only finding of the program, with DEVRT_RACE_STACKS.
json FindingOf(const char* stacks, const std::function<void()>& program) {
  FindingsFile file;
  const ProcessResult done = file.RunInChild([&] {
    setenv("DEVRT_RACE_STACKS", stacks, 1);
    program();
  });
  const std::vector<json> findings = file.Findings();
  EXPECT_THAT(findings, SizeIs(1)) << done;
  return findings.empty() ? json() : findings[0];
}

std::vector<std::string> FunctionsOf(const json& operation) {
  std::vector<std::string> functions;
  for (const json& frame : operation.value("stack", json::array())) {
    const std::string function = frame.at("function");
    functions.push_back(function.substr(function.rfind(':') + 1));
  }
  return functions;
}

void RaceOfTwoUses() {
  const TwoStreams s;
  Produce(s);
  Consume(s);
}

TEST_F(ValidateStacks, TellCallsOfOneLineApart) {
  const json finding = FindingOf("on", &RaceOfTwoUses);
  const json& earlier = finding.at("earlier");
  const json& later = finding.at("later");
  EXPECT_EQ(earlier.at("site"), later.at("site"));
  ASSERT_THAT(FunctionsOf(earlier), Contains("Produce"));
  ASSERT_THAT(FunctionsOf(later), Contains("Consume"));
  EXPECT_THAT(FunctionsOf(earlier), Not(Contains("Consume")));
  EXPECT_THAT(FunctionsOf(later), Not(Contains("Produce")));
  // The program's call is the first frame.
  EXPECT_EQ(FunctionsOf(later)[0], "Use");
  EXPECT_EQ(FunctionsOf(later)[1], "Consume");
  // Without optimization GoogleTest has more functions than a report.
  if (!later.contains("stack_left_out")) {
    EXPECT_EQ(FunctionsOf(later).back(), "main");
  }

  const json& frame = later.at("stack")[0];
  const std::string file = frame.at("file");
  const std::string site = later.at("site");
  EXPECT_EQ(file, site.substr(0, site.rfind(':')));
  const std::string text = finding.at("text");
  EXPECT_THAT(text, HasSubstr("\n    in devrt::testing::Use, " + file + ":"));
  EXPECT_THAT(text, HasSubstr("::Produce, "));
}

TEST_F(ValidateStacks, DoNotChangeIds) {
  const json with = FindingOf("on", &RaceOfTwoUses);
  const json without = FindingOf("off", &RaceOfTwoUses);
  EXPECT_EQ(with.at("id"), without.at("id"));
  EXPECT_EQ(with.at("later").at("site"), without.at("later").at("site"));
  EXPECT_FALSE(without.at("later").contains("stack"));
  EXPECT_THAT(std::string(without.at("text")), Not(HasSubstr("called by")));
}

[[gnu::noinline]] void* MakeBlock(const Device& device) {
  void* const block = Must(Allocate(device, kBytes));
  StayHere();
  return block;
}
[[gnu::noinline]] void LeakOne(const Device& device) {
  MakeBlock(device);
  StayHere();
}
[[gnu::noinline]] void LeakTwo(const Device& device) {
  for (volatile int i = 0; i < 2; i = i + 1) MakeBlock(device);
  StayHere();
}

// The findings of a program that leaves blocks and a stream at its end.
std::vector<json> Leaks(const char* stacks) {
  FindingsFile file;
  file.RunInChild([&] {
    setenv("DEVRT_RACE_LEAKS", "on", 1);
    setenv("DEVRT_RACE_STACKS", stacks, 1);
    const Device device = Must(GetDevice("mtia:0"));
    static const auto* const stream = new Stream(Must(Stream::Create(device)));
    EXPECT_OK(stream->Synchronize());
    LeakOne(device);
    LeakTwo(device);
    std::exit(0);
  });
  return file.Findings();
}

TEST_F(ValidateStacks, DoNotSplitLeaks) {
  const std::vector<json> with = Leaks("on");
  const std::vector<json> without = Leaks("off");
  ASSERT_THAT(with, SizeIs(2));
  ASSERT_THAT(without, SizeIs(2));
  for (int i = 0; i < 2; ++i) EXPECT_EQ(with[i]["id"], without[i]["id"]);
  EXPECT_FALSE(without[0].at("participants")[0].contains("stack"));
  EXPECT_THAT(std::string(without[0].at("text")),
              Not(HasSubstr("by these calls")));
}

TEST_F(ValidateStacks, OfALeakAreThoseThatMadeMostOfTheObjects) {
  const std::vector<json> leaks = Leaks("on");
  ASSERT_THAT(leaks, SizeIs(2));
  EXPECT_THAT(std::string(leaks[0].at("heading")),
              HasSubstr("3 blocks of mtia:0"));
  const json& blocks = leaks[0].at("participants")[0];
  EXPECT_THAT(FunctionsOf(blocks), Contains("LeakTwo"));
  const std::string text = leaks[0].at("text");
  EXPECT_THAT(text, HasSubstr("\n  made, 2 of 3 by these calls,  "));
  EXPECT_THAT(text, HasSubstr("\n    in devrt::testing::"));
  EXPECT_THAT(text, HasSubstr("MakeBlock, "));
  const json& stream = leaks[1].at("participants")[0];
  EXPECT_EQ(stream.at("name"), "stream");
  EXPECT_THAT(FunctionsOf(stream), Not(IsEmpty()));
  EXPECT_THAT(std::string(leaks[1].at("text")), HasSubstr("\n  made  "));
}

[[gnu::noinline]] void HoldStream(const Flag& flag, const Stream& stream) {
  EXPECT_OK(flag.WaitOn(stream));
  StayHere();
}
[[gnu::noinline]] void WaitForStream(const Stream& stream) {
  EXPECT_FALSE(stream.Synchronize().ok());
  StayHere();
}
[[gnu::noinline]] void WaitInThread(const Flag& flag, const Stream& stream) {
  HoldStream(flag, stream);
  WaitForStream(stream);
  StayHere();
}
[[gnu::noinline]] void WaitInMain(const Flag& flag, const Stream& stream) {
  HoldStream(flag, stream);
  WaitForStream(stream);
  StayHere();
}

TEST_F(ValidateStacks, OfADeadlockAreThoseOfItsWaits) {
  FindingsFile file;
  file.RunInChild([] {
    setenv("DEVRT_RACE_STACKS", "on", 1);
    const TwoStreams s;
    const Flag flag = Must(Flag::Create(s.device));
    sync::Thread other([&] { WaitInThread(flag, s.b); });
    WaitInMain(flag, s.a);
    other.join();
    EXPECT_OK(flag.Set());
  });
  json found;
  for (const json& finding : file.Findings()) {
    if (finding.at("participants").size() >= 6) found = finding;
  }
  ASSERT_FALSE(found.is_null()) << file.Text();
  // A wait of a thread, the work that the thread waits for, and the flag.
  const json& parts = found.at("participants");
  ASSERT_THAT(parts, SizeIs(6));
  std::vector<std::string> waits;
  for (const int wait : {0, 3}) {
    const std::vector<std::string> host = FunctionsOf(parts[wait]);
    const std::vector<std::string> work = FunctionsOf(parts[wait + 1]);
    ASSERT_GT(host.size(), 1) << found;
    ASSERT_GT(work.size(), 1) << found;
    EXPECT_EQ(host[0], "WaitForStream");
    EXPECT_EQ(work[0], "HoldStream");
    EXPECT_EQ(host[1], work[1]);
    waits.push_back(host[1]);
    EXPECT_FALSE(parts[wait + 2].contains("stack"));
  }
  EXPECT_THAT(waits, UnorderedElementsAre("WaitInMain", "WaitInThread"));
  EXPECT_THAT(std::string(found.at("text")),
              HasSubstr("\n    in devrt::testing::"));
}

TEST_F(ValidateStacks, OfWorkAreUnknownIfItsLineHasTwo) {
  const json found = FindingOf("on", [] {
    const TwoStreams s;
    const Flag flag = Must(Flag::Create(s.device));
    HoldStream(flag, s.a);
    WaitInMain(flag, s.a);
    EXPECT_OK(flag.Set());
  });
  const json& parts = found.at("participants");
  ASSERT_THAT(parts, SizeIs(3));
  EXPECT_THAT(FunctionsOf(parts[0]), Contains("WaitInMain"));
  EXPECT_THAT(std::string(parts[1].at("site")), Not(IsEmpty()));
  EXPECT_FALSE(parts[1].contains("stack"));
}

TEST_F(ValidateStacks, ALongStackSaysHowManyFramesAreLeftOut) {
  constexpr int kDepth = 60;
  const json finding = FindingOf("on", [] {
    const TwoStreams s;
    Produce(s);
    Deep(s, kDepth);
  });
  const json& later = finding.at("later");
  EXPECT_THAT(later.at("stack"), SizeIs(32));
  // Use, Consume and Deep, and at least what calls them here.
  EXPECT_GT(later.at("stack_left_out"), kDepth + 3 - 32);
  EXPECT_THAT(std::string(finding.at("text")),
              HasSubstr("\n    called by " +
                        std::to_string(later.at("stack_left_out").get<int>()) +
                        " more\n"));
}

TEST_F(ValidateStacks, AVeryLongStackIsNotCountedToItsEnd) {
  const json finding = FindingOf("on", [] {
    const TwoStreams s;
    Produce(s);
    Deep(s, 500);
  });
  EXPECT_THAT(std::string(finding.at("text")),
              HasSubstr("\n    called by at least "));
  EXPECT_TRUE(finding.at("later").value("stack_is_cut", false));
}

TEST_F(ValidateStacks, OfAThreadBeginWithItsFunction) {
  if (DEVRT_TEST_TSAN) GTEST_SKIP() << "the program has a thread's start";
  const json finding = FindingOf("on", [] {
    const TwoStreams s;
    Produce(s);
    std::thread([&] {
      Consume(s);
      StayHere();
    }).join();
  });
  const std::vector<std::string> functions = FunctionsOf(finding.at("later"));
  ASSERT_THAT(functions, SizeIs(3));
  EXPECT_EQ(functions[1], "Consume");
  EXPECT_THAT(finding.at("later").at("stack")[2].at("file"),
              HasSubstr("validate_stacks_test.cc"));
}

// Frames of an interpreter's program are noted only while stacks are wanted.
uint32_t Wants() { return internal::GetProgramStacks().wants; }

TEST_F(ValidateStacks, EnableAsksForThemAndAnExplorationDoesNot) {
  InChild([] {
    EXPECT_OK(EnableQuietly());
    Must(GetDevice("mtia:0"));
    sim::Options options;
    options.runs = 2;
    std::vector<uint32_t> wants;
    const sim::Result result =
        sim::Explore(options, [&] { wants.push_back(Wants()); });
    EXPECT_OK(result.status);
    EXPECT_THAT(wants, Not(IsEmpty()));
    EXPECT_THAT(wants, Not(Contains(1)));
    EXPECT_EQ(Wants(), 1);
  });
}

TEST_F(ValidateStacks, TheUserMayRefuseThem) {
  InChild([] {
    setenv("DEVRT_RACE_STACKS", "off", 1);
    const TwoStreams s;
    EXPECT_EQ(Wants(), 0);
    const validate::Scope scope;
    s.Race("work");
    EXPECT_THAT(scope.Findings()[0].text, Not(HasSubstr("    in ")));
  });
}

TEST_F(ValidateStacks, TheLayerAloneTakesNone) {
  InChild([] {
    setenv("DEVRT_LAYERS", "validate", 1);
    setenv("DEVRT_LOG", "off", 1);
    const Device device = Must(GetDevice("mtia:0"));
    const Stream stream = Must(Stream::Create(device));
    EXPECT_TRUE(validate::IsActive());
    EXPECT_EQ(Wants(), 0);
  });
}

}  // namespace
}  // namespace devrt::testing
