// SPDX-License-Identifier: Apache-2.0
//
// The times of many actors that clocks share (shared_times.h), against maps,
// and what clocks of 10,000 streams cost.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <vector>

#include "layers/validate/order.h"
#include "layers/validate/shared_times.h"

namespace devrt::race {
namespace {

constexpr StreamTraits kNonBlocking = {0, StreamKind::kNonBlocking};

// Actors on both sides of where parts begin, and far from each other.
constexpr std::array<Actor, 14> kActors = {0,     7,     8,       63,     127,
                                           128,   300,   2047,    2048,   2049,
                                           32767, 32768, 100'000, 900'000};

TEST(ValidateSharedTimes, RandomUsesAgreeWithMaps) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::array<SharedTimes, 6> times;
    std::array<std::map<Actor, uint64_t>, 6> maps;
    // Most objects know few of the actors.
    const size_t actors = 2 + random() % (kActors.size() - 1);
    for (int step = 0; step < 300; ++step) {
      const size_t at = random() % times.size();
      const size_t other = random() % times.size();
      if (const uint32_t what = random() % 8; what == 0) {
        times[at] = times[other];
        maps[at] = maps[other];
      } else if (what < 4) {
        times[at].Join(times[other]);
        for (const auto& [actor, time] : maps[other]) {
          maps[at][actor] = std::max(maps[at][actor], time);
        }
      } else {
        const Actor actor = kActors[random() % actors];
        const uint64_t time = maps[at][actor] + random() % 4;
        times[at].Set(actor, time);
        maps[at][actor] = time;
      }
      // A change of one object must not be seen in another one.
      for (size_t i = 0; i < times.size(); ++i) {
        for (const Actor actor : kActors) {
          ASSERT_EQ(times[i].Of(actor), maps[i][actor])
              << "object " << i << ", actor " << actor << ", step " << step;
        }
      }
    }
  }
}

TEST(ValidateSharedTimes, ATimeThatWasNeverSetIsZero) {
  SharedTimes times;
  EXPECT_TRUE(times.empty());
  EXPECT_EQ(times.Of(kNoActor), 0u);
  times.Set(3, 1);
  EXPECT_EQ(times.Of(kNoActor), 0u);
  times.Set(5000, 1);
  EXPECT_EQ(times.Of(kNoActor), 0u);
  EXPECT_EQ(times.Of(4999), 0u);
  EXPECT_EQ(times.Of(40'000), 0u);
}

TEST(ValidateSharedTimes, AJoinWithAllThatIsKnownSharesIt) {
  SharedTimes few, many;
  few.Set(5000, 2);
  many = few;
  many.Set(9, 1);
  few.Join(many);
  EXPECT_TRUE(few.IsSharedWith(many));
  many.Join(few);
  EXPECT_TRUE(few.IsSharedWith(many));
}

// Two actions of a thread that learned of actor 5 before the first of them.
struct TwoActions {
  VectorClock thread{0};
  VectorClock first;
  TwoActions() {
    thread.Learn({5, 1});
    thread.Publish();
    first = thread;
    thread.Publish();
  }
};

TEST(ValidateClock, WhoHasAnEarlierActionLearnsTheLaterOneFromACopy) {
  TwoActions t;
  VectorClock copy, other(1);
  copy.Join(t.thread);
  other.Join(t.first);
  other.Join(copy);
  EXPECT_TRUE(other.Knows({0, 2}));
  EXPECT_TRUE(other.Knows({5, 1}));
}

TEST(ValidateClock, WhatAStreamLearnsAfterItsActionIsNotPartOfIt) {
  TwoActions t;
  VectorClock stream(1);
  stream.Join(t.first);
  stream.Publish();
  VectorClock other(2);
  other.Join(stream);
  stream.Join(t.thread);
  other.Join(stream);
  EXPECT_TRUE(other.Knows({0, 2}));
  stream.Learn({7, 3});
  other.Join(stream);
  EXPECT_TRUE(other.Knows({7, 3}));
}

// Each stream waits for the stream before it, so all streams know all others.
TEST(ValidateClock, ARingOfTenThousandStreamsNeedsLittleMemory) {
  constexpr size_t kStreams = 10'000;
  const size_t before = mallinfo2().uordblks;
  Order order;
  const Actor host = order.AddThread();
  std::vector<Actor> streams;
  for (size_t i = 0; i < kStreams; ++i) {
    streams.push_back(order.AddStream(host, kNonBlocking));
  }
  Mark mark = order.Record(host, streams.back());
  const Epoch first = mark.now();
  std::vector<Mark> events(kStreams);
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < kStreams; ++i) {
      order.Wait(host, streams[i], mark);
      mark = events[i] = order.Record(host, streams[i]);
    }
  }
  // A table of all times for each stream would be 800 MB.
  EXPECT_LT(mallinfo2().uordblks - before, size_t{30} << 20);
  for (const Actor stream : streams) {
    const VectorClock& clock = order.ClockOf(stream);
    ASSERT_TRUE(clock.Knows(first));
    // The streams after it in the ring have its work of this round or of the
    // one before.
    ASSERT_GE(clock.TimeOf(streams.front()), 2u);
    ASSERT_GE(clock.TimeOf(streams.back()), 2u);
  }
}

TEST(ValidateClock, AStreamThatKnowsFewOfManyNeedsLittleMemory) {
  Order order;
  const Actor host = order.AddThread();
  std::vector<Actor> streams;
  for (int i = 0; i < 10'000; ++i) {
    streams.push_back(order.AddStream(host, kNonBlocking));
  }
  for (size_t i = 0; i < streams.size(); i += 2) {
    order.Wait(host, streams[i], order.Record(host, streams[i + 1]));
    order.Submit(host, streams[i]);
    ASSERT_LE(order.ClockOf(streams[i]).bytes(), 1500u);
  }
}

}  // namespace
}  // namespace devrt::race
