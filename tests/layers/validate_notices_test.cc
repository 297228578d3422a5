// SPDX-License-Identifier: Apache-2.0
//
// Findings of the validate layer that are not about two operations: deadlocks,
// and objects that are alive at the end.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "tests/layers/validate_findings.h"
#include "tests/layers/validate_streams.h"

namespace devrt::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::string AtLine(int line) {
  return "validate_notices_test.cc:" + std::to_string(line);
}

// A child process of a test ends without the functions of atexit.
void EndProgram() { std::exit(::testing::Test::HasFailure() ? 1 : 0); }

TEST(ValidateDeadlock, AWaitForAFlagThatNobodySets) {
  InChild([] {
    const TwoStreams s;
    const Flag flag = Must(Flag::Create(s.device));
    const validate::Scope scope;
    const int line = __LINE__;
    EXPECT_OK(flag.WaitOn(s.a));
    EXPECT_FALSE(s.a.Synchronize().ok());
    ASSERT_THAT(KindsOf(scope), ElementsAre("deadlock"));
    const validate::Finding found = scope.Findings()[0];
    EXPECT_THAT(found.text,
                AllOf(HasSubstr(AtLine(line + 1)), HasSubstr(AtLine(line + 2)),
                      HasSubstr("which no submitted operation sets")));
    const nlohmann::json json = nlohmann::json::parse(found.json);
    EXPECT_THAT(std::string(json.at("participants")[0].at("site")),
                HasSubstr(AtLine(line + 2)));
    EXPECT_THAT(std::string(json.at("participants")[1].at("site")),
                HasSubstr(AtLine(line + 1)));
    EXPECT_OK(flag.Set());
    EXPECT_OK(s.a.Synchronize());
  });
}

TEST(ValidateDeadlock, AnotherErrorAfterADeadlockIsNoFinding) {
  InChild([] {
    const TwoStreams s;
    const Flag flag = Must(Flag::Create(s.device));
    EXPECT_OK(flag.WaitOn(s.a));
    EXPECT_FALSE(s.a.Synchronize().ok());
    EXPECT_OK(flag.Set());
    const validate::Scope scope;
    EXPECT_OK(s.a.Synchronize());
    int unknown = 0;
    EXPECT_FALSE(Free(s.device, &unknown).ok());
    EXPECT_THAT(KindsOf(scope), IsEmpty());
  });
}

TEST(ValidateLeak, ShutdownNamesWhatIsAliveByItsLine) {
  InChild([] {
    const TwoStreams s;  // two streams and a block
    const validate::Scope scope;
    const int line = __LINE__;
    const Event event = Must(Event::Create(s.device));
    void* const cached = Must(AllocateMemory(s.a, kBytes));
    void* const pinned = Must(AllocatePinned(s.device, kBytes));
    EXPECT_FALSE(Shutdown().ok());
    std::string all;
    for (const validate::Finding& f : scope.Findings()) {
      EXPECT_EQ(f.kind, "leak");
      all += f.text + "\n";
    }
    EXPECT_THAT(scope.Findings(), SizeIs(5)) << all;
    for (const int made : {1, 2, 3}) {
      EXPECT_THAT(all, HasSubstr(AtLine(line + made)));
    }
    EXPECT_THAT(all, HasSubstr("1 event of mtia:0 is alive at the end"));
    EXPECT_THAT(all, HasSubstr("2 streams of mtia:0 are alive at the end"));
    EXPECT_THAT(all, HasSubstr("1 block of mtia:0 with 4096 bytes is alive"));
    EXPECT_THAT(all, HasSubstr("1 pinned block of mtia:0 with 4096 bytes"));
    EXPECT_OK(FreeMemory(cached));
    EXPECT_OK(FreePinned(pinned));
  });
}

TEST(ValidateLeak, OneLineHasOneFinding) {
  InChild([] {
    EXPECT_OK(EnableQuietly());
    const Device device = Must(GetDevice("mtia:0"));
    std::vector<Stream> streams;
    for (int i = 0; i < 3; ++i) streams.push_back(Must(Stream::Create(device)));
    streams.pop_back();
    const validate::Scope scope;
    EXPECT_FALSE(Shutdown().ok());
    ASSERT_THAT(scope.Findings(), SizeIs(1));
    EXPECT_THAT(scope.Findings()[0].text,
                HasSubstr("2 streams of mtia:0 are alive at the end"));
  });
}

TEST(ValidateLeak, WhatDevrtKeepsIsNoLeak) {
  InChild([] {
    EXPECT_OK(EnableQuietly());
    const Device device = Must(GetDevice("mtia:0"));
    const validate::Scope scope;
    {
      const Stream stream = Must(Stream::Create(device));
      const Stream other = Must(Stream::Create(device));
      EXPECT_OK(stream.Wait(other));
      EXPECT_OK(FreeMemory(Must(AllocateMemory(stream, kBytes))));
      EXPECT_OK(FreePinned(Must(AllocatePinned(device, kBytes))));
      EXPECT_OK(Must(PerThreadDefaultStream(device)).Synchronize());
      EXPECT_OK(device.Synchronize());
    }
    EXPECT_OK(Shutdown());
  });
  const FindingsFile file;
  const ProcessResult result = file.RunInChild([] {
    setenv("DEVRT_RACE_LEAKS", "on", 1);
    const Device device = Must(GetDevice("mtia:0"));
    {
      const Stream stream = Must(Stream::Create(device));
      EXPECT_OK(FreeMemory(Must(AllocateMemory(stream, kBytes))));
      EXPECT_OK(FreePinned(Must(AllocatePinned(device, kBytes))));
      EXPECT_OK(device.Synchronize());
    }
    EndProgram();
  });
  EXPECT_EQ(result.exit_code, 0) << result;
  EXPECT_EQ(file.Text(), "");
}

TEST(ValidateLeak, TheEndOfAProgramIsNoShutdownUnlessItIsAskedFor) {
  for (const bool asked : {false, true}) {
    const FindingsFile file;
    file.RunInChild([&] {
      if (asked) setenv("DEVRT_RACE_LEAKS", "on", 1);
      const Device device = Must(GetDevice("mtia:0"));
      Must(Allocate(device, kBytes));
      EndProgram();
    });
    if (asked) {
      EXPECT_THAT(file.Kinds(), ElementsAre("leak"));
    } else {
      EXPECT_THAT(file.Kinds(), IsEmpty());
    }
  }
}

}  // namespace
}  // namespace devrt::testing
