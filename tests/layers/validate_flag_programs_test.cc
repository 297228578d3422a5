// SPDX-License-Identifier: Apache-2.0
//
// The validate layer on programs that order work by flags.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/layers/validate_streams.h"

namespace devrt::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Work without memory is work: that of the legacy stream puts its later work,
// and that of blocking streams, behind all that came before.
TEST(ValidateProbes, ASpinOfTheLegacyStreamOrdersBlockingStreams) {
  InChild([] {
    const TwoStreams s;
    StreamOptions blocking;
    blocking.blocking = true;
    const Stream c = Must(Stream::Create(s.device, blocking));
    const Stream d = Must(Stream::Create(s.device, blocking));
    const validate::Scope scope;
    Use(c, Write(s.block, kBytes), "write");
    EXPECT_OK(Spin(DefaultStream(s.device), 1));
    Use(d, Read(s.block, kBytes), "read");
    EXPECT_THAT(KindsOf(scope), IsEmpty());
    EXPECT_OK(s.device.Synchronize());
  });
}

TEST(ValidateFlag, AStreamThatWaitsForAFlagComesAfterTheSet) {
  InChild([] {
    const TwoStreams s;
    const Flag flag = Must(Flag::Create(s.device));
    const validate::Scope scope;
    Use(s.a, Write(s.block, kBytes), "write");
    EXPECT_OK(flag.SetOn(s.a));
    EXPECT_OK(flag.WaitOn(s.b));
    Use(s.b, Read(s.block, kBytes), "read");
    EXPECT_THAT(KindsOf(scope), IsEmpty());
    EXPECT_OK(s.device.Synchronize());
  });
}

TEST(ValidateFlag, TheWaitMayBeEnqueuedFirst) {
  for (const bool mended : {false, true}) {
    InChild([&] {
      const TwoStreams s;
      const Flag flag = Must(Flag::Create(s.device));
      const validate::Scope scope;
      EXPECT_OK(flag.WaitOn(s.b));
      Use(s.b, Read(s.block, kBytes), "read");
      if (!mended) {
        EXPECT_OK(flag.SetOn(s.a));
      }
      Use(s.a, Write(s.block, kBytes), "write");
      if (mended) {
        EXPECT_OK(flag.SetOn(s.a));
      }
      EXPECT_OK(s.device.Synchronize());
      if (mended) {
        EXPECT_THAT(KindsOf(scope), IsEmpty());
      } else {
        EXPECT_THAT(KindsOf(scope), ElementsAre("write-after-read"));
      }
    });
  }
}

TEST(ValidateFlag, TheHostSetsAFlagThatHoldsUnorderedWork) {
  InChild([] {
    const TwoStreams s;
    const Flag gate = Must(Flag::Create(s.device));
    const validate::Scope scope;
    EXPECT_OK(gate.WaitOn(s.b));
    s.Race("held");
    EXPECT_OK(gate.Set());
    EXPECT_THAT(KindsOf(scope), ElementsAre("write-after-write"));
    EXPECT_OK(s.device.Synchronize());
  });
}

TEST(ValidateFlag, AHostFunctionSetsAFlag) {
  InChild([] {
    const TwoStreams s;
    const Flag flag = Must(Flag::Create(s.device));
    const validate::Scope scope;
    EXPECT_OK(flag.WaitOn(s.b));
    Use(s.b, Read(s.block, kBytes), "read");
    Use(s.a, Write(s.block, kBytes), "write");
    EXPECT_OK(LaunchHostFunc(
        s.a, [&](const absl::Status&) { EXPECT_OK(flag.Set()); }));
    EXPECT_OK(s.device.Synchronize());
    EXPECT_THAT(KindsOf(scope), IsEmpty());
  });
}

}  // namespace
}  // namespace devrt::testing
