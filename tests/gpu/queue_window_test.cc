// SPDX-License-Identifier: Apache-2.0
#include "backends/gpu/queue_window.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>

namespace devrt::gpu {
namespace {

// The window is kept to its depth at every 20th operation.
constexpr uint64_t kMostPending = kQueueDepth + 20;

// A driver with one stream: operations are numbered, an event is behind those
// that were submitted before its record.
struct Driver {
  using Error = int;
  using Event = int;
  using Stream = int;
  static constexpr int kSuccess = 0;
  static constexpr int kNotReady = 600;

  int CreateEvent(bool /*timing*/, bool /*blocking*/, bool /*ipc*/,
                  int* event) const {
    *event = ++events;
    return kSuccess;
  }
  int DestroyEvent(int /*event*/) const {
    --events;
    return kSuccess;
  }
  int Record(int event, int /*stream*/) const {
    ++records;
    behind[event] = submitted;
    return kSuccess;
  }
  int QueryEvent(int event) const {
    return behind[event] <= complete ? kSuccess : kNotReady;
  }
  int SynchronizeEvent(int event) const {
    ++waits;
    if (complete < behind[event]) complete = behind[event];
    return kSuccess;
  }

  mutable std::map<int, uint64_t> behind;
  mutable int events = 0, waits = 0, records = 0;
  mutable uint64_t submitted = 0, complete = 0;
};

class QueueWindowTest : public testing::Test {
 protected:
  ~QueueWindowTest() override {
    window_.Destroy(driver_);
    EXPECT_EQ(driver_.events, 0);
  }

  // As an operation does; returns how many are pending then.
  uint64_t Submit() {
    const uint64_t number = window_.Count();
    if (window_.IsMark(number)) {
      EXPECT_EQ(window_.Mark(driver_, 0, number), Driver::kSuccess);
    }
    ++driver_.submitted;
    return driver_.submitted - driver_.complete;
  }

  Driver driver_;
  QueueWindow<Driver> window_;
};

TEST_F(QueueWindowTest, ADeviceThatStandsStillIsWaitedFor) {
  for (uint32_t i = 0; i < 5 * kQueueDepth; ++i) {
    ASSERT_LE(Submit(), kMostPending) << "operation " << i;
  }
  EXPECT_GT(driver_.waits, 0);
}

TEST_F(QueueWindowTest, ADeviceThatKeepsUpIsNeverWaitedFor) {
  for (uint32_t i = 0; i < 5 * kQueueDepth; ++i) {
    Submit();
    driver_.complete = driver_.submitted;
  }
  EXPECT_EQ(driver_.waits, 0);
  EXPECT_LE(driver_.records, static_cast<int>(5 * kQueueDepth / 100));
}

// The oldest mark is complete and the newest is not: one says nothing of the
// other.
TEST_F(QueueWindowTest, ADeviceThatStopsWithAFullQueueIsWaitedFor) {
  for (uint32_t i = 0; i < 3 * kQueueDepth; ++i) {
    if (Submit() > kQueueDepth - 30) ++driver_.complete;
  }
  for (uint32_t i = 0; i < 3 * kQueueDepth; ++i) {
    ASSERT_LE(Submit(), kMostPending) << "operation " << i;
  }
}

}  // namespace
}  // namespace devrt::gpu
