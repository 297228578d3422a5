// SPDX-License-Identifier: Apache-2.0
//
// The order that flags make, in the detector without a backend.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "layers/validate/detector.h"

namespace devrt::race {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint64_t kFlagsAt = 0x10000;
constexpr uint64_t kFlagsSize = 4096;
constexpr uint64_t kFlag = 1, kOtherFlag = 2;

// A host thread, three streams, a block, and the findings.
struct Flags {
  std::vector<FindingKind> kinds;
  Detector detector{[this](const Finding& f) { kinds.push_back(f.kind); }};
  Actor host = detector.order().AddThread();
  Actor a = NewStream(), b = NewStream(), c = NewStream();

  Flags() {
    detector.Allocate({host}, kFlagsAt, kFlagsSize, MemoryKind::kDevice, 0);
  }
  Actor NewStream() {
    return detector.order().AddStream(host, {0, StreamKind::kNonBlocking});
  }
  void Write(Actor stream) {
    detector.Enqueue({host}, stream, {{kFlagsAt, kFlagsSize, Mode::kWrite}});
  }
  void Read(Actor stream) {
    detector.Enqueue({host}, stream, {{kFlagsAt, kFlagsSize, Mode::kRead}});
  }
  void Wait(Actor stream, uint64_t flag = kFlag) {
    detector.WaitForFlag({host}, stream, flag);
  }
  void Set(Actor stream, uint64_t flag = kFlag) {
    detector.SetFlag({host}, stream, flag);
  }
  void Follow(Actor later, Actor earlier) {
    const Mark mark = detector.Record({host}, earlier, 7);
    detector.Wait({host}, later, 7, &mark);
  }
  void Sync(Actor stream) {
    detector.HostWait(host, detector.order().MarkOfStream(stream));
  }
};

TEST(ValidateFlags, AWaitComesAfterAnEarlierSet) {
  Flags f;
  f.Write(f.a);
  f.Set(f.a);
  f.Wait(f.b);
  f.Read(f.b);
  EXPECT_THAT(f.kinds, IsEmpty());
}

TEST(ValidateFlags, WorkAfterTheSetIsNotCovered) {
  Flags f;
  f.Set(f.a);
  f.Write(f.a);
  f.Wait(f.b);
  f.Read(f.b);
  EXPECT_THAT(f.kinds, ElementsAre(FindingKind::kReadAfterWrite));
}

TEST(ValidateFlags, AnotherFlagOrdersNothing) {
  Flags f;
  f.Write(f.a);
  f.Set(f.a);
  f.Set(f.c, kOtherFlag);
  f.Wait(f.b, kOtherFlag);
  f.Read(f.b);
  EXPECT_THAT(f.kinds, ElementsAre(FindingKind::kReadAfterWrite));
}

TEST(ValidateFlags, TheSetMayBeEnqueuedAfterTheWait) {
  Flags f;
  f.Wait(f.b);
  f.Read(f.b);
  f.Write(f.a);  // the read comes after it, by the set
  f.Set(f.a);
  EXPECT_THAT(f.kinds, IsEmpty());
  f.Write(f.b);
  EXPECT_THAT(f.kinds, IsEmpty());
}

TEST(ValidateFlags, AFindingIsMadeOnceTheSetDoesNotOrderIt) {
  Flags f;
  f.Wait(f.b);
  f.Read(f.b);
  f.Write(f.a);
  EXPECT_THAT(f.kinds, IsEmpty());
  f.Set(f.c);
  EXPECT_THAT(f.kinds, ElementsAre(FindingKind::kWriteAfterRead));
}

TEST(ValidateFlags, TheSetOfTheHostEndsAWait) {
  Flags f;
  f.Write(f.a);
  f.Wait(f.b);
  f.Write(f.b);
  EXPECT_THAT(f.kinds, IsEmpty());
  f.Set(kNoActor);  // the host did not wait for the first write
  EXPECT_THAT(f.kinds, ElementsAre(FindingKind::kWriteAfterWrite));
}

TEST(ValidateFlags, TheHostMaySetAfterItWaited) {
  Flags f;
  f.Wait(f.b);
  f.Write(f.b);
  f.Write(f.a);
  f.Sync(f.a);
  f.Set(kNoActor);
  EXPECT_THAT(f.kinds, IsEmpty());
}

TEST(ValidateFlags, AStreamBehindTheWaitComesAfterTheSet) {
  Flags f;
  f.Wait(f.b);
  f.Follow(f.c, f.b);
  f.Write(f.a);
  f.Read(f.c);
  f.Set(f.a);
  EXPECT_THAT(f.kinds, IsEmpty());
  f.Read(f.c);
  f.Sync(f.c);
  f.Read(f.b);
  EXPECT_THAT(f.kinds, IsEmpty());
}

TEST(ValidateFlags, AChainOfFlagsOrders) {
  Flags f;
  f.Wait(f.c, kOtherFlag);
  f.Read(f.c);
  f.Wait(f.b);
  f.Set(f.b, kOtherFlag);
  f.Write(f.a);
  f.Set(f.a);
  EXPECT_THAT(f.kinds, IsEmpty());
  f.Sync(f.c);
  f.Write(f.c);
  EXPECT_THAT(f.kinds, IsEmpty());
}

TEST(ValidateFlags, WorkBeforeTheWaitOfItsStreamIsNotOrdered) {
  Flags f;
  f.Read(f.b);
  f.Wait(f.b);
  f.Write(f.a);
  f.Set(f.a);
  EXPECT_THAT(f.kinds, ElementsAre(FindingKind::kWriteAfterRead));
}

TEST(ValidateFlags, AWaitThatEndsUnseenLeavesItsFindingsOut) {
  Flags f;
  f.Wait(f.b);
  f.Read(f.b);
  f.Write(f.a);
  f.Sync(f.b);  // its time ran out, or a kernel has set the flag
  f.Set(f.c);
  EXPECT_THAT(f.kinds, IsEmpty());
}

TEST(ValidateFlags, AFlagDoesNotMendAFreeThatComesTooEarly) {
  Flags f;
  f.detector.HandOut({f.host}, f.c, kFlagsAt, kFlagsSize, MemoryKind::kDevice,
                     0);
  f.Wait(f.b);
  f.Read(f.b);
  f.detector.TakeBack({f.host}, f.c, kFlagsAt);
  f.Set(kNoActor);  // the read comes after the free
  EXPECT_THAT(f.kinds, ElementsAre(FindingKind::kFreeWhileUsed));
}

TEST(ValidateFlags, AWaitThatAStreamLearnsOfLaterDoesNotOrderEarlierWork) {
  for (const bool waits_first : {false, true}) {
    Flags f;
    const Actor d = f.NewStream();
    if (waits_first) f.Wait(d);
    f.Write(f.a);
    if (!waits_first) f.Wait(d);
    f.Follow(f.a, d);
    f.Write(f.b);
    f.Set(f.b);
    EXPECT_THAT(f.kinds, ElementsAre(FindingKind::kWriteAfterWrite));
  }
}

TEST(ValidateFlags, WorkBehindAStreamThatWaitsComesAfterALaterSet) {
  Flags f;
  f.Wait(f.c);
  f.Follow(f.a, f.c);
  f.Write(f.a);
  f.Write(f.b);
  f.Set(f.b);
  EXPECT_THAT(f.kinds, IsEmpty());
}

TEST(ValidateFlags, PairsThatNoSetDecidesAreCounted) {
  Flags f;
  f.Wait(f.b);
  f.Read(f.b);
  f.Write(f.a);
  EXPECT_EQ(f.detector.undecided(), 1U);
  f.Set(f.c);
  EXPECT_EQ(f.detector.undecided(), 0U);
  f.Wait(f.c, kOtherFlag);
  f.Write(f.c);
  EXPECT_EQ(f.detector.undecided(), 1U);
  f.detector.ForgetFlags();
  EXPECT_EQ(f.detector.undecided(), 1U);
}

TEST(ValidateFlags, PairsThatAreTooManyAreCounted) {
  constexpr size_t kMostHeld = 1024;
  Flags f;
  f.Wait(f.b);
  for (size_t i = 0; i <= kMostHeld; ++i) {
    f.Write(f.a);
    f.Write(f.b);
  }
  const uint64_t all = f.detector.undecided();
  EXPECT_GT(all, kMostHeld);
  f.Set(f.c);
  EXPECT_EQ(f.kinds.size(), kMostHeld);
  EXPECT_EQ(f.detector.undecided(), all - kMostHeld);
}

TEST(ValidateFlags, AClearedFlagHoldsTheNextWait) {
  Flags f;
  f.Set(f.c);
  f.detector.ClearFlag(kFlag);
  f.Wait(f.b);
  f.Read(f.b);
  f.Write(f.a);
  f.Set(f.a);
  EXPECT_THAT(f.kinds, IsEmpty());
}

// ---- Many waits -------------------------------------------------------------

TEST(ValidateFlags, WaitsThatTheHostNeverWaitsForNeedNoMemoryOfTheirOwn) {
  Order order;
  const Actor host = order.AddThread();
  const Actor a = order.AddStream(host, {}), b = order.AddStream(host, {});
  FlagWaits waits;
  VectorClock clock;
  const Epoch first = order.Submit(host, b);
  waits.Wait(kFlag, first, &clock);
  for (int i = 0; i < 300'000; ++i) {
    order.Submit(host, a);
    waits.Set(kFlag, order.ClockOf(a));
    waits.Unset(kFlag);
    waits.Wait(kFlag, order.Submit(host, b), &clock);
  }
  EXPECT_EQ(waits.streams(), 1U);
  EXPECT_EQ(waits.waits(), 64U);
  // The newest wait is open, and the one before it is not.
  VectorClock late = order.ClockOf(b);
  EXPECT_EQ(waits.Complete(&late), FlagWaits::State::kOpen);
  EXPECT_TRUE(late.Knows(order.ClockOf(a).now()));
  late = VectorClock();
  late.Learn({b, order.ClockOf(b).now().time - 1});
  EXPECT_EQ(waits.Complete(&late), FlagWaits::State::kKnown);
  // What comes before the first wait comes after no set.
  late = VectorClock();
  late.Learn({b, first.time - 1});
  waits.Complete(&late);
  EXPECT_EQ(late.TimeOf(a), 0U);
  order.HostWait(host, order.MarkOfStream(b));
  waits.Forget(order.ClockOf(host));
  EXPECT_TRUE(waits.empty());
  EXPECT_EQ(waits.waits(), 0U);
}

TEST(ValidateFlags, FlagsThatAreGoneNeedLittleMemory) {
  Order order;
  const Actor host = order.AddThread();
  const Actor a = order.AddStream(host, {}), b = order.AddStream(host, {});
  FlagWaits waits;
  VectorClock clock;
  for (uint64_t flag = 1; flag <= 10'000; ++flag) {
    order.Submit(host, a);
    waits.Set(flag, order.ClockOf(a));
    waits.Wait(flag, order.Submit(host, b), &clock);
    waits.Remove(flag);
  }
  EXPECT_LE(waits.waits(), 100U);
  VectorClock late = order.ClockOf(b);
  EXPECT_EQ(waits.Complete(&late), FlagWaits::State::kKnown);
  EXPECT_TRUE(late.Knows(order.ClockOf(a).now()));
}

// A list of all waits, each with its own sets.
class ListOfWaits {
 public:
  using State = FlagWaits::State;
  void Set(uint64_t flag, const VectorClock& clock) {
    flags_[flag].first = true;
    flags_[flag].second.Join(clock);
    for (One& wait : waits_) {
      if (wait.flag != flag) continue;
      wait.sets.Join(clock);
      wait.state = State::kKnown;
    }
  }
  void Unset(uint64_t flag) { flags_[flag].first = false; }
  void Wait(uint64_t flag, Epoch at) {
    const auto& [is_set, sets] = flags_[flag];
    waits_.push_back({flag, at, is_set ? State::kKnown : State::kOpen, sets});
  }
  void Remove(uint64_t flag) {
    flags_.erase(flag);
    for (One& wait : waits_) {
      if (wait.flag != flag) continue;
      wait.flag = 0;
      if (wait.state == State::kOpen) wait.state = State::kUnseen;
    }
  }
  void EndKnown(const VectorClock& host) {
    for (One& wait : waits_) {
      if (wait.state == State::kOpen && host.Knows(wait.at)) {
        wait.state = State::kUnseen;
      }
    }
  }
  void Forget(const VectorClock& host) {
    waits_.erase(
        std::remove_if(waits_.begin(), waits_.end(),
                       [&](const One& wait) { return host.Knows(wait.at); }),
        waits_.end());
  }
  State Complete(VectorClock* clock) const {
    State state = State::kKnown;
    for (size_t round = 0; round <= waits_.size(); ++round) {
      for (const One& wait : waits_) {
        if (!clock->Knows(wait.at)) continue;
        clock->Join(wait.sets);
        state = std::max(state, wait.state);
      }
    }
    return state;
  }

 private:
  struct One {
    uint64_t flag;
    Epoch at;
    State state;
    VectorClock sets;
  };
  std::map<uint64_t, std::pair<bool, VectorClock>> flags_;
  std::vector<One> waits_;
};

TEST(ValidateFlags, RandomProgramsAgreeWithAListOfAllWaits) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    Order order;
    // Two threads, since a wait of one may end what the other does not know.
    const Actor threads[] = {order.AddThread(), order.AddThread()};
    std::vector<Actor> streams;
    for (int i = 0; i < 4; ++i) {
      streams.push_back(order.AddStream(threads[0], {}));
    }
    FlagWaits waits;
    ListOfWaits list;
    std::vector<VectorClock> seen;
    for (int step = 0; step < 80; ++step) {
      const Actor stream = streams[random() % streams.size()];
      const Actor thread = threads[random() % 2];
      const uint64_t flag = 1 + random() % 3;
      switch (random() % 10) {
        case 0:
        case 1:
        case 2: {
          const Epoch at = order.Submit(thread, stream);
          VectorClock sets;
          waits.Wait(flag, at, &sets);
          list.Wait(flag, at);
          order.Wait(thread, stream, sets);
          break;
        }
        case 3:
        case 4:
          order.Submit(thread, stream);
          waits.Set(flag, order.ClockOf(stream));
          list.Set(flag, order.ClockOf(stream));
          break;
        case 5:
          waits.Unset(flag);
          list.Unset(flag);
          break;
        case 6:
          if (random() % 4 != 0) break;
          waits.Remove(flag);
          list.Remove(flag);
          break;
        case 7:
          if (seen.empty()) break;
          order.HostWait(thread, seen[random() % seen.size()]);
          waits.EndKnown(order.ClockOf(thread));
          list.EndKnown(order.ClockOf(thread));
          if (random() % 2 == 0) break;
          waits.Forget(order.ClockOf(thread));
          list.Forget(order.ClockOf(thread));
          break;
        default:
          order.Wait(thread, stream,
                     order.Record(thread, streams[random() % streams.size()]));
      }
      seen.push_back(order.ClockOf(stream));
      VectorClock mine = seen[random() % seen.size()];
      VectorClock expected = mine;
      ASSERT_EQ(waits.Complete(&mine), list.Complete(&expected)) << step;
      for (Actor actor = 0; actor < order.size(); ++actor) {
        ASSERT_EQ(mine.TimeOf(actor), expected.TimeOf(actor)) << step;
      }
    }
  }
}

}  // namespace
}  // namespace devrt::race
