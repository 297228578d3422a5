// SPDX-License-Identifier: Apache-2.0
//
// The order of the validation layer: each rule by a small program, and random
// programs against sets of operations, which need no clocks.
#include <gtest/gtest.h>

#include <bitset>
#include <map>
#include <random>
#include <vector>

#include "layers/validate/order.h"

namespace devrt::race {
namespace {

constexpr StreamTraits kLegacy = {0, StreamKind::kLegacy};
constexpr StreamTraits kBlocking = {0, StreamKind::kBlocking};
constexpr StreamTraits kFree = {0, StreamKind::kNonBlocking};

struct Program : Order {
  Actor host = AddThread();
  Actor Stream(StreamTraits traits) { return AddStream(host, traits); }
  Epoch On(Actor stream) { return Submit(host, stream); }
  bool Ordered(Epoch earlier, Actor later) const {
    return ClockOf(later).Knows(earlier);
  }
};

TEST(ValidateOrder, StreamsWithoutAWaitAreUnordered) {
  Program p;
  const Actor a = p.Stream(kFree), b = p.Stream(kFree);
  const Epoch work = p.On(a);
  p.On(b);
  EXPECT_FALSE(p.Ordered(work, b));
  p.On(a);
  EXPECT_TRUE(p.Ordered(work, a));
}

TEST(ValidateOrder, AWaitOrdersWorkBeforeTheRecordOnly) {
  Program p;
  const Actor a = p.Stream(kFree), b = p.Stream(kFree);
  const Epoch before = p.On(a);
  const Mark mark = p.Record(p.host, a);
  const Epoch after = p.On(a);
  p.Wait(p.host, b, mark);
  p.On(b);
  EXPECT_TRUE(p.Ordered(before, b));
  EXPECT_FALSE(p.Ordered(after, b));
}

TEST(ValidateOrder, ANewRecordLeavesEarlierWaitsAsTheyAre) {
  Program p;
  const Actor a = p.Stream(kFree), b = p.Stream(kFree);
  Mark event = p.Record(p.host, a);
  p.Wait(p.host, b, event);
  const Epoch work = p.On(a);
  event = p.Record(p.host, a);
  p.On(b);
  EXPECT_FALSE(p.Ordered(work, b));
}

TEST(ValidateOrder, AMarkPassesOrderOnThroughAThirdStream) {
  Program p;
  const Actor a = p.Stream(kFree), b = p.Stream(kFree), c = p.Stream(kFree);
  const Epoch work = p.On(a);
  p.Wait(p.host, b, p.Record(p.host, a));
  // The record covers the wait although no operation lies between them.
  p.Wait(p.host, c, p.Record(p.host, b));
  p.On(c);
  EXPECT_TRUE(p.Ordered(work, c));
}

TEST(ValidateOrder, TheLegacyStreamIsOrderedWithBlockingStreamsOnly) {
  Program p;
  const Actor legacy = p.Stream(kLegacy), a = p.Stream(kBlocking),
              b = p.Stream(kBlocking), c = p.Stream(kFree);
  const Epoch in_a = p.On(a);
  const Epoch in_c = p.On(c);
  const Epoch in_legacy = p.On(legacy);
  EXPECT_TRUE(p.Ordered(in_a, legacy));
  EXPECT_FALSE(p.Ordered(in_c, legacy));
  p.On(b);
  p.On(c);
  EXPECT_TRUE(p.Ordered(in_a, b));
  EXPECT_TRUE(p.Ordered(in_legacy, b));
  EXPECT_FALSE(p.Ordered(in_legacy, c));
}

TEST(ValidateOrder, AWaitOnTheLegacyStreamIsABarrierOfBlockingStreams) {
  Program p;
  const Actor legacy = p.Stream(kLegacy), a = p.Stream(kBlocking),
              b = p.Stream(kBlocking), c = p.Stream(kFree);
  const Epoch in_a = p.On(a);
  const Epoch in_c = p.On(c);
  p.Wait(p.host, legacy, p.Record(p.host, c));
  p.On(b);
  EXPECT_TRUE(p.Ordered(in_a, b));
  EXPECT_TRUE(p.Ordered(in_c, b));
}

TEST(ValidateOrder, LegacyStreamsOfTwoDevicesAreUnordered) {
  Program p;
  const Actor zero = p.Stream(kLegacy);
  const Actor one = p.Stream({1, StreamKind::kLegacy});
  const Epoch work = p.On(zero);
  p.On(one);
  EXPECT_FALSE(p.Ordered(work, one));
}

TEST(ValidateOrder, AHostWaitCoversWhatWasSubmittedBeforeIt) {
  Program p;
  const Actor a = p.Stream(kFree), b = p.Stream(kFree);
  const Epoch work = p.On(a);
  const Mark mark = p.MarkOfStream(a);
  const Epoch later = p.On(a);
  p.HostWait(p.host, mark);
  p.On(b);
  EXPECT_TRUE(p.Ordered(work, b));
  EXPECT_FALSE(p.Ordered(later, b));
}

TEST(ValidateOrder, AHostWaitForADeviceCoversRemovedStreamsOfThatDevice) {
  Program p;
  const Actor a = p.Stream(kFree), other = p.Stream({1, StreamKind::kBlocking}),
              b = p.Stream(kFree);
  const Epoch work = p.On(a);
  const Epoch elsewhere = p.On(other);
  p.RemoveStream(a);
  p.HostWait(p.host, p.MarkOfDevice(0));
  p.On(b);
  EXPECT_TRUE(p.Ordered(work, b));
  EXPECT_FALSE(p.Ordered(elsewhere, b));
}

TEST(ValidateOrder, WorkOfARemovedBlockingStreamComesBeforeLegacyWork) {
  Program p;
  const Actor legacy = p.Stream(kLegacy), a = p.Stream(kBlocking);
  const Epoch work = p.On(a);
  p.RemoveStream(a);
  p.On(legacy);
  EXPECT_TRUE(p.Ordered(work, legacy));
}

TEST(ValidateOrder, AThreadComesAfterItsParentAndNotAfterOthers) {
  Program p;
  const Actor a = p.Stream(kFree), b = p.Stream(kFree);
  const Epoch before = p.HostAction(p.host);
  const Actor child = p.AddThread(p.host);
  const Epoch after = p.HostAction(p.host);
  p.Submit(child, b);
  EXPECT_TRUE(p.Ordered(before, b));
  EXPECT_FALSE(p.Ordered(after, b));
  // A stream that two threads use knows both.
  p.Submit(p.host, a);
  p.Submit(child, a);
  EXPECT_TRUE(p.Ordered(after, a));
}

TEST(ValidateOrder, ClocksThatLearnFromEachOtherDoNotGrow) {
  Program p;
  std::vector<Actor> streams;
  for (int i = 0; i < 30; ++i) streams.push_back(p.Stream(kFree));
  std::mt19937 random(1);
  for (int i = 0; i < 3000; ++i) {
    p.Wait(p.host, streams[random() % 30],
           p.Record(p.host, streams[random() % 30]));
  }
  for (const Actor stream : streams) {
    // The times of up to 32 actors, and what each array begins with.
    EXPECT_LE(p.ClockOf(stream).bytes(), 32 * sizeof(uint64_t) + 16);
  }
}

TEST(ValidateOrder, AStreamTakesTheNumberOfOneWhoseWorkIsKnown) {
  Program p;
  const Actor a = p.Stream(kFree), b = p.Stream(kFree);
  const Epoch before = p.On(a);
  p.RemoveStream(a);
  const Actor c = p.Stream(kFree);
  EXPECT_NE(c, a);
  p.HostWait(p.host, p.MarkOfDevice(0));
  const Actor d = p.Stream({1, StreamKind::kBlocking});
  EXPECT_EQ(d, a);
  const Epoch after = p.On(d);
  EXPECT_FALSE(p.MarkOfDevice(0).Knows(after));
  p.On(b);
  EXPECT_TRUE(p.Ordered(before, b));
  EXPECT_FALSE(p.Ordered(after, b));
  EXPECT_FALSE(p.MarkOfDevice(0).Knows(after));
}

TEST(ValidateOrder, ManyShortStreamsNeedFewNumbers) {
  Program p;
  for (int i = 0; i < 10'000; ++i) {
    const Actor stream = p.Stream(kFree);
    p.On(stream);
    if (i % 8 == 0) p.HostWait(p.host, p.MarkOfDevice(0));
    p.RemoveStream(stream);
  }
  EXPECT_LE(p.size(), 32u);
}

// ---- Random programs ------------------------------------------------------

constexpr size_t kOps = 256;
using Set = std::bitset<kOps>;  // operations that come before

// Performs each action on an Order and on sets of operations.  After each
// stream come `idle` others without work, so that clocks have many parts.
class Both {
 public:
  explicit Both(uint32_t seed, uint32_t idle = 0) : random_(seed), idle_(idle) {
    for (int i = 0; i < 2; ++i) AddThread();
    for (uint32_t device = 0; device < 2; ++device) {
      AddStream({device, StreamKind::kLegacy});
      for (int i = 0; i < 3; ++i) {
        AddStream({device, StreamKind::kBlocking});
        AddStream({device, StreamKind::kNonBlocking});
      }
    }
  }

  void Act() {
    const Actor thread = threads_[Pick(threads_.size())];
    const size_t stream = live_[Pick(live_.size())];
    switch (Pick(16)) {
      case 0:
        marks_.emplace_back(order_.MarkOfStream(ActorOf(stream)),
                            Frontier(stream));
        break;
      case 1:
        marks_.emplace_back(order_.MarkOfDevice(TraitsOf(stream).device),
                            OfDevice(TraitsOf(stream).device));
        break;
      case 2:
        if (live_.size() > 8 && TraitsOf(stream).kind != StreamKind::kLegacy) {
          order_.RemoveStream(ActorOf(stream));
          live_.erase(std::find(live_.begin(), live_.end(), stream));
        }
        break;
      case 3:
        if (threads_.size() < 4) AddThread(thread);
        break;
      case 4:
        if (live_.size() < 20) {
          AddStream(
              {static_cast<uint32_t>(Pick(2)),
               Pick(2) ? StreamKind::kBlocking : StreamKind::kNonBlocking},
              thread);
        }
        break;
      case 5:
      case 6:
        if (!marks_.empty()) {
          const auto& [mark, set] = marks_[Pick(marks_.size())];
          order_.HostWait(thread, mark);
          known_to_[thread] |= set;
        }
        break;
      case 7:
      case 8:
      case 9:
      case 10:
        if (!marks_.empty()) {
          const auto& [mark, set] = marks_[Pick(marks_.size())];
          order_.Wait(thread, ActorOf(stream), mark);
          KnownTo(stream) |= set;
          if (TraitsOf(stream).kind == StreamKind::kLegacy) {
            KnownTo(stream) |= Enqueue(thread, stream);
          }
        }
        break;
      case 11:
      case 12: {
        const Mark mark = order_.Record(thread, ActorOf(stream));
        KnownTo(stream) |= Enqueue(thread, stream);
        marks_.emplace_back(mark, KnownTo(stream));
        break;
      }
      default:
        if (epochs_.size() == kOps) break;
        const Epoch epoch = order_.Submit(thread, ActorOf(stream));
        KnownTo(stream) |= Enqueue(thread, stream);
        Compare(stream);
        KnownTo(stream).set(epochs_.size());
        epochs_.push_back(epoch);
    }
  }

 private:
  // Streams have numbers of their own: actors are used again.
  struct Stream {
    Actor actor;
    StreamTraits traits;
    Set known;
  };

  size_t Pick(size_t count) { return random_() % count; }
  Actor ActorOf(size_t stream) const { return streams_[stream].actor; }
  const StreamTraits& TraitsOf(size_t stream) const {
    return streams_[stream].traits;
  }
  Set& KnownTo(size_t stream) { return streams_[stream].known; }

  void AddThread(Actor parent = kNoActor) {
    threads_.push_back(order_.AddThread(parent));
    if (parent != kNoActor) known_to_[threads_.back()] = known_to_[parent];
  }

  void AddStream(StreamTraits traits, Actor thread = 0) {
    live_.push_back(streams_.size());
    streams_.push_back(
        {order_.AddStream(thread, traits), traits, known_to_[thread]});
    for (uint32_t i = 0; i < idle_; ++i) order_.AddStream(thread, {2});
  }

  Set Frontier(size_t stream) {
    Set set = KnownTo(stream);
    if (TraitsOf(stream).kind != StreamKind::kLegacy) return set;
    for (size_t other = 0; other < streams_.size(); ++other) {
      if (TraitsOf(other).kind == StreamKind::kBlocking &&
          TraitsOf(other).device == TraitsOf(stream).device) {
        set |= KnownTo(other);
      }
    }
    return set;
  }

  Set OfDevice(uint32_t device) {
    Set set;
    for (size_t other = 0; other < streams_.size(); ++other) {
      if (TraitsOf(other).device == device) set |= KnownTo(other);
    }
    return set;
  }

  // What comes before an operation that is enqueued now.
  Set Enqueue(Actor thread, size_t stream) {
    Set set = known_to_[thread] | Frontier(stream);
    if (TraitsOf(stream).kind == StreamKind::kBlocking) {
      for (size_t other = 0; other < streams_.size(); ++other) {
        if (TraitsOf(other).kind == StreamKind::kLegacy &&
            TraitsOf(other).device == TraitsOf(stream).device) {
          set |= KnownTo(other);
        }
      }
    }
    return set;
  }

  void Compare(size_t stream) {
    for (size_t i = 0; i < epochs_.size(); ++i) {
      ASSERT_EQ(order_.ClockOf(ActorOf(stream)).Knows(epochs_[i]),
                KnownTo(stream)[i])
          << "operation " << i << " before operation " << epochs_.size();
    }
  }

  std::mt19937 random_;
  const uint32_t idle_;
  Order order_;
  std::vector<Actor> threads_;
  std::map<Actor, Set> known_to_;  // by thread
  std::vector<Stream> streams_;
  std::vector<size_t> live_;
  std::vector<std::pair<Mark, Set>> marks_;
  std::vector<Epoch> epochs_;
};

TEST(ValidateOrder, RandomProgramsAgreeWithSetsOfOperations) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    Both both(seed);
    for (int i = 0; i < 400; ++i) both.Act();
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(ValidateOrder, RandomProgramsAmongManyStreamsAgreeWithSetsOfOperations) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    Both both(seed, seed % 2 == 0 ? 40 : 400);
    for (int i = 0; i < 400; ++i) both.Act();
    if (::testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace devrt::race
