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

TEST_F(ValidateStacks, DoNotSplitLeaks) {
  const auto leak_two = [] {
    const TwoStreams s;
    const auto make = [&] {
      void* const block = Must(Allocate(s.device, kBytes));
      StayHere();
      return block;
    };
    EXPECT_OK(Free(s.device, s.block));
    static void* const first = make();
    static void* const second = make();
    EXPECT_NE(first, second);
    std::exit(0);
  };
  setenv("DEVRT_RACE_LEAKS", "on", 1);
  FindingsFile file;
  file.RunInChild([&] {
    setenv("DEVRT_RACE_STACKS", "on", 1);
    leak_two();
  });
  unsetenv("DEVRT_RACE_LEAKS");
  std::vector<std::string> headings;
  for (const json& finding : file.Findings()) {
    headings.push_back(finding.value("heading", ""));
  }
  EXPECT_THAT(headings, Contains(HasSubstr("2 blocks of mtia:0")));
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
