// SPDX-License-Identifier: Apache-2.0
#include "backends/gpu/fresh_events.h"

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <set>

namespace devrt::gpu {
namespace {

// Events are numbers; the pending ones are listed.
struct Driver {
  using Error = int;
  using Event = int;
  static constexpr int kSuccess = 0;
  static constexpr int kNotReady = 600;
  static constexpr int kOutOfMemory = 2;

  int QueryEvent(int event) const {
    ++queries;
    return pending.count(event) != 0 ? kNotReady : kSuccess;
  }
  int DestroyEvent(int event) const {
    destroyed.insert(event);
    return kSuccess;
  }
  int CreateEvent(int* event) {
    if (events == limit) return kOutOfMemory;
    *event = ++events;
    return kSuccess;
  }

  std::set<int> pending;
  mutable std::set<int> destroyed;
  mutable int queries = 0;
  int events = 1;
  int limit = 10'000;
};

class FreshEventsTest : public testing::Test {
 protected:
  int Next(int* event) {
    return events_.Next(
        driver_, clock_, current_,
        [&](int* e) { return driver_.CreateEvent(e); }, event);
  }
  // As a record does; the event's number, which is pending then.
  int Record() {
    int event = 0;
    EXPECT_EQ(Next(&event), Driver::kSuccess);
    EXPECT_EQ(driver_.pending.count(event), 0u) << "it is recorded already";
    driver_.pending.insert(event);
    events_.Recorded();
    current_ = event;
    return event;
  }

  Driver driver_;
  std::shared_ptr<RecordClock> clock_ = std::make_shared<RecordClock>();
  FreshEvents<Driver> events_;
  int current_ = 1;
};

TEST_F(FreshEventsTest, FirstRecordTakesTheEventItself) {
  EXPECT_EQ(Record(), 1);
  EXPECT_EQ(driver_.queries, 0);
}

TEST_F(FreshEventsTest, PendingEventIsLeftAlone) {
  std::set<int> seen;
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(seen.insert(Record()).second);
  }
  EXPECT_TRUE(driver_.destroyed.empty());
}

TEST_F(FreshEventsTest, CompleteEventsServeAgain) {
  for (int i = 0; i < 10'000; ++i) {
    Record();
    driver_.pending.clear();
  }
  EXPECT_LE(driver_.events, static_cast<int>(RecordClock::kInterval) + 2);
  EXPECT_LE(driver_.queries,
            10'000 / static_cast<int>(RecordClock::kInterval) + 16);
}

// As behind a queue of constant length.
TEST_F(FreshEventsTest, EventsThatCompleteLateServeAgain) {
  std::deque<int> queue;
  for (int i = 0; i < 10'000; ++i) {
    queue.push_back(Record());
    if (queue.size() > 300) {
      driver_.pending.erase(queue.front());
      queue.pop_front();
    }
  }
  EXPECT_LE(driver_.events, 1'000);
  EXPECT_LE(driver_.queries, 600);
}

// Two thirds of a long queue are over: one question of the middle tells of the
// half before it.
TEST_F(FreshEventsTest, QueryOfTheMiddleEndsTheEarlierHalf) {
  constexpr int kQueued = 300, kMore = 100;
  for (int i = 0; i < kQueued; ++i) Record();
  while (driver_.pending.size() > kQueued / 3) {
    driver_.pending.erase(driver_.pending.begin());
  }
  for (int i = 0; i < kMore; ++i) Record();
  EXPECT_LT(driver_.events,
            kQueued + static_cast<int>(RecordClock::kInterval) + 2);
}

TEST_F(FreshEventsTest, KnownEndsNeedNoQuery) {
  Record();
  for (int i = 0; i < 100; ++i) {
    driver_.pending.clear();
    events_.last().SetOver();
    EXPECT_EQ(Record(), 1);
  }
  EXPECT_EQ(driver_.queries, 0);
}

// One event's answer is good for all events of the stream, but not for what was
// recorded meanwhile.
TEST_F(FreshEventsTest, EndCoversEarlierRecordsOnly) {
  RecordMark early, late;
  early.clock = late.clock = clock_;
  early.before = late.before = clock_->recorded();
  late.number = clock_->Count();
  early.number = clock_->Count();
  late.SetOver();
  EXPECT_TRUE(late.IsOver());
  EXPECT_FALSE(early.IsOver());
  RecordMark next;
  next.clock = clock_;
  next.before = clock_->recorded();
  next.number = clock_->Count();
  early.SetOver();
  EXPECT_FALSE(early.IsOver()) << "another record had its number first";
  next.SetOver();
  EXPECT_TRUE(early.IsOver());
}

TEST_F(FreshEventsTest, EachStreamHasItsOwnRecords) {
  EXPECT_EQ(Record(), 1);
  clock_ = std::make_shared<RecordClock>();
  EXPECT_NE(Record(), 1);
  driver_.pending.erase(2);
  events_.last().SetOver();
  EXPECT_EQ(Record(), 2);
}

// A query of this stream does not cover the other stream's record.
TEST_F(FreshEventsTest, RecordOnAnotherStreamIsQueriedToo) {
  Record();
  clock_ = std::make_shared<RecordClock>();
  for (int i = 0; i < 10'000; ++i) {
    Record();
    driver_.pending.clear();
  }
  EXPECT_LE(driver_.events, static_cast<int>(RecordClock::kInterval) + 3);
}

TEST_F(FreshEventsTest, RecordOnAStuckStreamHoldsUpNoOther) {
  const int stuck = Record();
  clock_ = std::make_shared<RecordClock>();
  for (int i = 0; i < 10'000; ++i) {
    Record();
    driver_.pending = {stuck};
  }
  EXPECT_LE(driver_.events, static_cast<int>(RecordClock::kInterval) + 3);
}

TEST_F(FreshEventsTest, FailedRecordChangesNothing) {
  Record();
  int event = 0;
  ASSERT_EQ(Next(&event), Driver::kSuccess);
  EXPECT_EQ(event, 2);
  int again = 0;
  ASSERT_EQ(Next(&again), Driver::kSuccess);
  EXPECT_EQ(again, 2);
  EXPECT_EQ(driver_.events, 2);
}

TEST_F(FreshEventsTest, FailedCreationQueriesAllEvents) {
  Record();
  Record();
  driver_.limit = 2;
  int event = 0;
  EXPECT_EQ(Next(&event), Driver::kOutOfMemory);
  driver_.pending.erase(1);
  ASSERT_EQ(Next(&event), Driver::kSuccess);
  EXPECT_EQ(event, 1);
}

TEST_F(FreshEventsTest, DestroysKeptEvents) {
  Record();
  Record();
  Record();
  events_.Destroy(driver_);
  EXPECT_EQ(driver_.destroyed, (std::set<int>{1, 2}));
}

TEST_F(FreshEventsTest, ForgottenEventsAreNotDestroyed) {
  Record();
  Record();
  events_.Forget();
  events_.Destroy(driver_);
  EXPECT_TRUE(driver_.destroyed.empty());
}

}  // namespace
}  // namespace devrt::gpu
