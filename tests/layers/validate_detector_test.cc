// SPDX-License-Identifier: Apache-2.0
//
// The detector of the validation layer without a backend: the life of memory,
// and why two operations are unordered.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "layers/validate/detector.h"

namespace devrt::race {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr uint64_t kAt = 0x10000;
constexpr uint64_t kSize = 4096;

// A host thread, three streams, and the findings.
struct Watched {
  std::vector<Finding> findings;
  Detector detector{[this](const Finding& f) { findings.push_back(f); }};
  Actor host = detector.order().AddThread();
  Actor a = NewStream(), b = NewStream(), c = NewStream();
  uint32_t calls = 0;

  Actor NewStream() {
    return detector.order().AddStream(host, {0, StreamKind::kNonBlocking});
  }
  // Each call has a site of its own, its number.
  Call At() { return {host, 0, ++calls}; }

  void Allocate(uint64_t at = kAt) {
    detector.Allocate(At(), at, kSize, MemoryKind::kDevice, 0);
  }
  void Write(Actor stream, uint64_t at = kAt, uint64_t size = kSize) {
    detector.Enqueue(At(), stream, {{at, size, Mode::kWrite}});
  }
  void Read(Actor stream, uint64_t at = kAt, uint64_t size = kSize) {
    detector.Enqueue(At(), stream, {{at, size, Mode::kRead}});
  }
  void HandOut(Actor stream, uint64_t at = kAt) {
    detector.HandOut(At(), stream, at, kSize, MemoryKind::kDevice, 0);
  }
  void TakeBack(Actor stream, uint64_t at = kAt) {
    detector.TakeBack(At(), stream, at);
  }
  Mark Record(Actor stream, uint64_t event) {
    return detector.Record(At(), stream, event);
  }
  void Wait(Actor stream, uint64_t event, const Mark& mark) {
    detector.Wait(At(), stream, event, &mark);
  }
  void Sync(Actor stream) {
    detector.order().HostWait(host, detector.order().MarkOfStream(stream));
  }
  std::vector<FindingKind> Kinds() const {
    std::vector<FindingKind> kinds;
    for (const Finding& finding : findings) kinds.push_back(finding.kind);
    return kinds;
  }
};

// ---- The life of memory -----------------------------------------------------

TEST(ValidateMemory, AUseAfterTheFreeIsFoundUntilTheAddressHasANewBlock) {
  Watched w;
  w.Allocate();
  w.detector.Free(w.At(), kAt);
  w.Write(w.a);
  EXPECT_THAT(w.Kinds(), ElementsAre(FindingKind::kUseAfterFree));
  w.Allocate();
  w.Write(w.a);
  EXPECT_THAT(w.findings, SizeIs(1));
}

TEST(ValidateMemory, AFreeOfABlockEndsItsLivePartsToo) {
  Watched w;
  w.Allocate();
  w.HandOut(w.a);
  w.Write(w.a);
  EXPECT_NE(w.detector.Free(w.At(), kAt), 0U);
  EXPECT_THAT(w.Kinds(), ElementsAre(FindingKind::kFreeWhileUsed));
  EXPECT_THAT(w.detector.memory().Live(), IsEmpty());
  w.Write(w.a);
  EXPECT_THAT(w.Kinds(), ElementsAre(FindingKind::kFreeWhileUsed,
                                     FindingKind::kUseAfterFree));
}

TEST(ValidateMemory, TheSystemGivesAddressesOfAFreedBlockToTheProgram) {
  Watched w;
  w.Allocate();
  w.detector.Free(w.At(), kAt);
  MemoryAccess access = {kAt, kSize, Mode::kRead};
  access.is_programs = true;
  w.detector.Enqueue(w.At(), w.a, {access});
  EXPECT_THAT(w.findings, SizeIs(0));
  access.mode = Mode::kWrite;
  w.detector.Enqueue(w.At(), w.b, {access});
  EXPECT_THAT(w.Kinds(), ElementsAre(FindingKind::kWriteAfterRead));
}

TEST(ValidateMemory, AFreeWaitsForTheWorkThatUsesTheBlock) {
  Watched w;
  w.Allocate();
  w.Write(w.a);
  w.detector.Free(w.At(), kAt);
  EXPECT_THAT(w.Kinds(), ElementsAre(FindingKind::kFreeWhileUsed));
  w.Allocate();
  w.Write(w.a);
  w.Sync(w.a);
  w.detector.Free(w.At(), kAt);
  EXPECT_THAT(w.findings, SizeIs(1));
}

TEST(ValidateMemory, ABlockInStreamOrderIsUsableBehindItsAllocation) {
  Watched w;
  w.detector.AllocateOn(w.At(), w.a, kAt, kSize, 0);
  w.Write(w.a);
  w.Read(w.b);
  EXPECT_THAT(w.Kinds(), ElementsAre(FindingKind::kReadAfterWrite));
}

TEST(ValidateMemory, AnUntouchedBlockInStreamOrderNamesItsAllocation) {
  Watched w;
  w.detector.AllocateOn(w.At(), w.a, kAt, kSize, 0);
  w.Read(w.b);
  EXPECT_THAT(w.Kinds(), ElementsAre(FindingKind::kUseBeforeAllocation));
}

TEST(ValidateMemory, APartMayBeUsedOnAnyStreamIfItsAddressesAreFresh) {
  Watched w;
  w.Allocate();
  w.HandOut(w.a);
  w.Write(w.b);
  EXPECT_THAT(w.findings, IsEmpty());
}

TEST(ValidateMemory, APartIsTakenBackBehindTheWorkOfItsStreamOnly) {
  Watched w;
  w.Allocate();
  w.HandOut(w.a);
  w.Write(w.a);
  w.TakeBack(w.a);
  EXPECT_THAT(w.findings, IsEmpty());
  w.HandOut(w.a);
  w.Wait(w.b, 1, w.Record(w.a, 1));
  w.Write(w.b);
  w.TakeBack(w.a);
  EXPECT_THAT(w.Kinds(), ElementsAre(FindingKind::kFreeWhileUsed));
}

TEST(ValidateMemory, UsesOfThePartBeforePassToTheNextAtItsAddresses) {
  Watched w;
  w.Allocate();
  w.HandOut(w.a);
  w.Write(w.a);
  w.TakeBack(w.a);
  // On its stream the order is right, on another one it is missing.
  w.HandOut(w.a);
  w.Write(w.a);
  EXPECT_THAT(w.findings, IsEmpty());
  w.TakeBack(w.a);
  w.HandOut(w.a);
  w.Write(w.b);
  EXPECT_THAT(w.Kinds(), ElementsAre(FindingKind::kWriteAfterWrite));
}

TEST(ValidateMemory, APartForAnotherStreamIsReusedWhileItIsUsed) {
  Watched w;
  w.Allocate();
  w.HandOut(w.a);
  w.Write(w.a);
  w.TakeBack(w.a);
  w.HandOut(w.b);
  EXPECT_THAT(w.Kinds(), ElementsAre(FindingKind::kReuseWhileUsed));
}

TEST(ValidateMemory, TheLegacyRuleOrdersAPartToo) {
  Watched w;
  const Actor legacy =
      w.detector.order().AddStream(w.host, {0, StreamKind::kLegacy});
  const Actor blocking =
      w.detector.order().AddStream(w.host, {0, StreamKind::kBlocking});
  w.Allocate();
  // What the legacy stream does next comes after the work of `blocking`.
  w.HandOut(blocking);
  w.Write(blocking);
  w.TakeBack(legacy);
  w.HandOut(legacy);
  w.Write(legacy);
  w.TakeBack(blocking);
  w.HandOut(blocking);
  w.Write(blocking);
  EXPECT_THAT(w.findings, IsEmpty());
}

TEST(ValidateMemory, EachPieceOfAPartKeepsItsUses) {
  Watched w;
  w.Allocate();
  w.HandOut(w.a);
  w.Write(w.a);
  w.TakeBack(w.a);
  const auto hand_out = [&](Actor stream, uint64_t begin, uint64_t size) {
    w.detector.HandOut(w.At(), stream, kAt + begin, size, MemoryKind::kDevice,
                       0);
  };
  // The middle goes to the right stream, the pieces beside it to others.
  hand_out(w.a, 1024, 1024);
  EXPECT_THAT(w.findings, IsEmpty());
  hand_out(w.b, 0, 1024);
  EXPECT_THAT(w.Kinds(), ElementsAre(FindingKind::kReuseWhileUsed));
  hand_out(w.c, 2048, 2048);
  ASSERT_THAT(w.findings, SizeIs(2));
  EXPECT_EQ(w.findings[1].block.begin + w.findings[1].range.begin, kAt + 2048);
}

TEST(ValidateMemory, APartIsFoundBesideMemoryThatIsNoPart) {
  Watched w;
  w.Allocate();
  w.Write(w.a, kAt, 8);
  w.detector.HandOut(w.At(), w.a, kAt + 64, 64, MemoryKind::kDevice, 0);
  w.TakeBack(w.a, kAt + 64);
  w.Write(w.a, kAt, 8);
  EXPECT_THAT(w.findings, IsEmpty());
  w.Write(w.a, kAt + 64, 8);
  EXPECT_THAT(w.Kinds(), ElementsAre(FindingKind::kUseAfterFree));
}

TEST(ValidateMemory, APieceOfAPartThatWasTakenBackIsNotUsed) {
  Watched w;
  w.Allocate();
  w.HandOut(w.a);
  w.TakeBack(w.a);
  w.detector.HandOut(w.At(), w.a, kAt, 1024, MemoryKind::kDevice, 0);
  w.Write(w.a, kAt + 1024, 8);
  EXPECT_THAT(w.Kinds(), ElementsAre(FindingKind::kUseAfterFree));
}

TEST(ValidateMemory, APartThatWasTakenBackIsNotUsed) {
  Watched w;
  w.Allocate();
  w.HandOut(w.a);
  w.TakeBack(w.a);
  w.Write(w.a);
  EXPECT_THAT(w.Kinds(), ElementsAre(FindingKind::kUseAfterFree));
}

TEST(ValidateMemory, AnAccessOverTwoBlocksIsJudgedInBoth) {
  Watched w;
  w.Allocate(kAt);
  w.Allocate(kAt + kSize);
  w.Write(w.a, kAt + kSize - 8, 16);
  w.Write(w.b, kAt + kSize - 8, 16);
  ASSERT_THAT(w.findings, SizeIs(2));
  EXPECT_EQ(w.findings[0].range.begin, kSize - 8);
  EXPECT_EQ(w.findings[1].range.end, 8u);
}

TEST(ValidateMemory, RowsAreJudgedOneByOne) {
  Watched w;
  w.Allocate();
  // The columns 0 to 7 and 8 to 15 of rows of 16 bytes.
  w.detector.Enqueue(w.At(), w.a, {{kAt, 8, Mode::kWrite, 0, 16, 16}});
  w.detector.Enqueue(w.At(), w.b, {{kAt + 8, 8, Mode::kWrite, 0, 16, 16}});
  EXPECT_THAT(w.findings, IsEmpty());
  w.detector.Enqueue(w.At(), w.c, {{kAt + 4, 8, Mode::kWrite, 0, 16, 16}});
  EXPECT_FALSE(w.findings.empty());
  EXPECT_FALSE(w.findings[0].approximate);
}

TEST(ValidateMemory, TheHostUsesMemoryInFlight) {
  Watched w;
  w.detector.Allocate(w.At(), kAt, kSize, MemoryKind::kPinned, 0);
  w.Write(w.a);
  w.detector.UseByHost(w.At(), {{kAt, 8, Mode::kRead}});
  EXPECT_THAT(w.Kinds(), ElementsAre(FindingKind::kHostAccess));
  w.Sync(w.a);
  w.detector.UseByHost(w.At(), {{kAt, 8, Mode::kWrite}});
  w.Read(w.b);
  EXPECT_THAT(w.findings, SizeIs(1));
}

// ---- Why --------------------------------------------------------------------

TEST(ValidateExplanation, TheLastOrderedOperationIsTheNewestThatIsCovered) {
  Watched w;
  w.Allocate();
  w.Write(w.a);
  const uint32_t ordered = w.calls;
  w.Wait(w.b, 1, w.Record(w.a, 1));
  w.Write(w.a);
  w.Read(w.b);
  ASSERT_THAT(w.findings, SizeIs(1));
  const Explanation& why = w.findings[0].explanation;
  ASSERT_TRUE(why.last_ordered.has_value());
  EXPECT_EQ(why.last_ordered->site, ordered + 1);  // the record
  ASSERT_THAT(why.near_misses, SizeIs(1));
  EXPECT_EQ(why.near_misses[0].kind, NearMissKind::kRecordedBefore);
}

TEST(ValidateExplanation, AWaitForAnotherStreamIsANearMiss) {
  Watched w;
  w.Allocate();
  w.Write(w.a);
  w.Wait(w.b, 1, w.Record(w.c, 1));
  w.Read(w.b);
  ASSERT_THAT(w.findings, SizeIs(1));
  ASSERT_THAT(w.findings[0].explanation.near_misses, SizeIs(1));
  EXPECT_EQ(w.findings[0].explanation.near_misses[0].kind,
            NearMissKind::kOtherStream);
}

TEST(ValidateExplanation, AnEventThatWasRecordedAgainIsANearMiss) {
  Watched w;
  w.Allocate();
  w.Write(w.a);
  w.Record(w.a, 1);
  w.Wait(w.b, 1, w.Record(w.c, 1));
  w.Read(w.b);
  ASSERT_THAT(w.findings, SizeIs(1));
  EXPECT_EQ(w.findings[0].explanation.near_misses[0].kind,
            NearMissKind::kReplaced);
}

TEST(ValidateExplanation, AnEventThatNobodyWaitsForIsANearMiss) {
  Watched w;
  w.Allocate();
  w.Write(w.a);
  w.Record(w.a, 1);
  w.Read(w.b);
  ASSERT_THAT(w.findings, SizeIs(1));
  ASSERT_THAT(w.findings[0].explanation.near_misses, SizeIs(1));
  EXPECT_EQ(w.findings[0].explanation.near_misses[0].kind,
            NearMissKind::kNotWaitedFor);
}

TEST(ValidateExplanation, OfManyUnusedEventsTheFirstAreNearMisses) {
  Watched w;
  w.Allocate();
  w.Record(w.a, 99);  // before the write
  w.Write(w.a);
  for (uint64_t event = 20; event > 0; --event) w.Record(w.a, event);
  w.Read(w.b);
  ASSERT_THAT(w.findings, SizeIs(1));
  std::vector<uint64_t> events;
  for (const NearMiss& miss : w.findings[0].explanation.near_misses) {
    EXPECT_EQ(miss.kind, NearMissKind::kNotWaitedFor);
    events.push_back(miss.use.event);
  }
  EXPECT_THAT(events, ElementsAre(20, 19, 18));
}

TEST(ValidateExplanation, AFindingThatComesAgainHasNone) {
  Watched w;
  const auto race = [&] {
    w.calls = 10;  // the places are those of the call before
    w.Write(w.a);
    w.Record(w.a, 1);
    w.Read(w.b);
    return w.findings.back().explanation.near_misses.size();
  };
  w.Allocate();
  EXPECT_EQ(race(), 1u);
  w.Sync(w.b);
  w.Sync(w.a);
  EXPECT_EQ(race(), 0u);
  EXPECT_THAT(w.findings, SizeIs(2));
  w.detector.Forget(w.findings.back());
  w.Sync(w.b);
  w.Sync(w.a);
  EXPECT_EQ(race(), 1u);
}

TEST(ValidateExplanation, AWaitForAnEventThatWasNeverRecordedIsANearMiss) {
  Watched w;
  w.Allocate();
  w.Write(w.a);
  w.detector.Wait(w.At(), w.b, 1, nullptr);
  w.Read(w.b);
  ASSERT_THAT(w.findings, SizeIs(1));
  EXPECT_EQ(w.findings[0].explanation.near_misses[0].kind,
            NearMissKind::kNeverRecorded);
}

}  // namespace
}  // namespace devrt::race
