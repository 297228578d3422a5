// SPDX-License-Identifier: Apache-2.0
#include "backends/gpu/fresh_events.h"

#include <gtest/gtest.h>

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
  int events = 1;
  int limit = 100;
};

class FreshEventsTest : public testing::Test {
 protected:
  int Take(int current, int* event) {
    return others_.Take(
        driver_, current, [&](int* e) { return driver_.CreateEvent(e); },
        event);
  }

  Driver driver_;
  FreshEvents<Driver> others_;
};

TEST_F(FreshEventsTest, CompleteEventIsTakenAgain) {
  int event = 0;
  ASSERT_EQ(Take(1, &event), Driver::kSuccess);
  EXPECT_EQ(event, 1);
  EXPECT_EQ(driver_.events, 1);
}

TEST_F(FreshEventsTest, PendingEventIsLeftAlone) {
  driver_.pending = {1};
  int event = 0;
  ASSERT_EQ(Take(1, &event), Driver::kSuccess);
  EXPECT_EQ(event, 2);
  driver_.pending = {1, 2};
  ASSERT_EQ(Take(2, &event), Driver::kSuccess);
  EXPECT_EQ(event, 3);
  EXPECT_TRUE(driver_.destroyed.empty());
}

TEST_F(FreshEventsTest, KeptEventServesAgainOnceComplete) {
  driver_.pending = {1};
  int event = 0;
  ASSERT_EQ(Take(1, &event), Driver::kSuccess);
  ASSERT_EQ(event, 2);
  driver_.pending = {2};
  ASSERT_EQ(Take(2, &event), Driver::kSuccess);
  EXPECT_EQ(event, 1);
  EXPECT_EQ(driver_.events, 2);
}

TEST_F(FreshEventsTest, FailureToMakeOneKeepsNothing) {
  driver_.pending = {1};
  driver_.limit = 1;
  int event = 0;
  EXPECT_EQ(Take(1, &event), Driver::kOutOfMemory);
  others_.Destroy(driver_);
  EXPECT_TRUE(driver_.destroyed.empty());
}

TEST_F(FreshEventsTest, DestroysWhatItKeeps) {
  driver_.pending = {1, 2};
  int event = 0;
  ASSERT_EQ(Take(1, &event), Driver::kSuccess);
  ASSERT_EQ(Take(2, &event), Driver::kSuccess);
  others_.Destroy(driver_);
  EXPECT_EQ(driver_.destroyed, (std::set<int>{1, 2}));
}

}  // namespace
}  // namespace devrt::gpu
