// SPDX-License-Identifier: Apache-2.0
//
// Queries that devrt makes for itself: they make the reuse of memory right, and
// are no wait of the program.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/layers/validate_streams.h"

namespace devrt::testing {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Lets all work end, without a wait of the program.
void LetEnd() {
  const Simulator sim = Must(Simulator::Get());
  for (int i = 0; i < 100; ++i) EXPECT_OK(sim.Yield());
}

// A block of s.a's pool that s.b has used, freed and handed out again after
// devrt has found by a query that the work of s.b is complete.
void* ReuseAfterOwnQuery(const TwoStreams& s) {
  void* const first = Must(AllocateMemory(s.a, kBytes));
  EXPECT_OK(s.b.Wait(s.a));
  Use(s.b, Write(first, kBytes), "first owner");
  EXPECT_OK(RecordStream(first, s.b));
  EXPECT_OK(FreeMemory(first));
  LetEnd();
  void* const second = Must(AllocateMemory(s.a, kBytes));
  EXPECT_EQ(first, second);
  return second;
}

TEST(ValidateOwnQueries, TheReuseOfABlockIsRight) {
  InChild([] {
    const TwoStreams s;
    const validate::Scope scope;
    void* const block = ReuseAfterOwnQuery(s);
    Use(s.a, Write(block, kBytes), "second owner");
    EXPECT_THAT(KindsOf(scope), IsEmpty());
    EXPECT_OK(FreeMemory(block));
    EXPECT_THAT(KindsOf(scope), IsEmpty());
  });
}

TEST(ValidateOwnQueries, TheProgramHasNotWaited) {
  InChild([] {
    const TwoStreams s;
    const validate::Scope scope;
    Use(s.b, Write(s.block, kBytes), "write");
    void* const block = ReuseAfterOwnQuery(s);
    Use(s.a, Read(s.block, kBytes), "read");
    EXPECT_THAT(KindsOf(scope), ElementsAre("read-after-write"));
    EXPECT_OK(FreeMemory(block));
  });
}

TEST(ValidateOwnQueries, AQueryOfTheProgramIsAWait) {
  InChild([] {
    const TwoStreams s;
    const validate::Scope scope;
    Use(s.b, Write(s.block, kBytes), "write");
    LetEnd();
    EXPECT_TRUE(Must(s.b.Query()));
    Use(s.a, Read(s.block, kBytes), "read");
    EXPECT_THAT(KindsOf(scope), IsEmpty());
  });
}

TEST(ValidateOwnQueries, OperationsOnArraysWaitForWhatDevrtDoesNotKnow) {
  InChild([] {
    const TwoStreams s;
    const validate::Scope scope;
    const StreamGuard on_b(s.b);
    const Array x = Must(Array::Full({64}, kFloat32, 1.0F, s.device));
    LetEnd();
    EXPECT_TRUE(Must(x.IsReady()));
    {
      const StreamGuard on_a(s.a);
      EXPECT_OK(x.Fill(2.0F));
    }
    EXPECT_THAT(KindsOf(scope), IsEmpty());
  });
}

TEST(ValidateOwnQueries, APinnedBlockIsHandedOutAgain) {
  InChild([] {
    const TwoStreams s;
    const validate::Scope scope;
    void* const first = Must(AllocatePinned(s.device, kBytes));
    EXPECT_OK(CopyAsync(s.a, first, s.block, kBytes));
    EXPECT_OK(FreePinned(first));  // the copy is noted
    LetEnd();
    auto* const second =
        static_cast<char*>(Must(AllocatePinned(s.device, kBytes)));
    if (second == first) {
      second[0] = 1;
    } else {
      EXPECT_OK(FreePinned(second));
    }
    EXPECT_THAT(KindsOf(scope), IsEmpty());
  });
}

TEST(ValidateOwnQueries, APinnedBlockIsNotUsedAfterItWasGivenBack) {
  InChild([] {
    const TwoStreams s;
    const validate::Scope scope;
    void* const host = Must(AllocatePinned(s.device, kBytes));
    EXPECT_OK(FreePinned(host));
    Use(s.a, Read(host, kBytes), "late kernel");
    EXPECT_THAT(KindsOf(scope), ElementsAre("use-after-free"));
  });
}

TEST(ValidateOwnQueries, AUseOfAPinnedBlockThatNobodyNoted) {
  InChild([] {
    const TwoStreams s;
    const validate::Scope scope;
    void* const first = Must(AllocatePinned(s.device, kBytes));
    EXPECT_OK(validate::AnnotateWork(s.a, {Read(first, kBytes)}, "native"));
    EXPECT_OK(FreePinned(first));
    EXPECT_EQ(Must(AllocatePinned(s.device, kBytes)), first);
    EXPECT_THAT(KindsOf(scope), Contains("reuse-while-used"));
  });
}

}  // namespace
}  // namespace devrt::testing
