// SPDX-License-Identifier: Apache-2.0
//
// MtiaTest: a fixture with four simulated devices that are reset for every
// test.
//
//   using EventRerecord = MtiaTest;   // the suite is named after its subject
//
//   // C27                            // the item of semantics.md, if any
//   TEST_F(EventRerecord, LeavesIssuedWaits) {
//     InEverySchedule([&] {               // both modes, every strategy
//       Stream s = NewStream();
//       Cell x(dev());
//       Put(s, x, 1);
//       ASSERT_OK(s.Synchronize());
//       EXPECT_EQ(x.Peek(), 1);
//     });
//   }
//
// A body destroys its streams, events and memory before it returns.  The
// fixture resets the simulator between two runs, and reports objects that are
// left.
//
// ExpectOutcomes asserts results that depend on the schedule: 1,000 schedules
// must reach every outcome of a list, and no other one.
//
// Threads: the fixture belongs to the main thread.  Any thread may use the
// objects that it makes.
#ifndef DEVRT_TESTS_SUPPORT_MTIA_FIXTURE_H_
#define DEVRT_TESTS_SUPPORT_MTIA_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "devrt/devrt.h"
#include "tests/support/status_matchers.h"

namespace devrt::testing {

// Nanoseconds of the device's clock: short in real time, long for an engine.
inline constexpr uint64_t kShort = 1'000;
inline constexpr uint64_t kLong = 200'000;

// An integer in device memory, 0 at first.
class Cell {
 public:
  explicit Cell(Device device);
  Cell(const Cell&) = delete;
  Cell& operator=(const Cell&) = delete;
  ~Cell();

  Device device() const { return device_; }
  int64_t* ptr() const { return ptr_; }
  // The value now, not ordered after any stream: for final comparisons.
  int64_t Peek() const;
  void Poke(int64_t value) const;

 private:
  Device device_;
  int64_t* ptr_;
};

// Kernels.  Each reads when it begins and writes when it ends.
absl::Status Put(StreamRef stream, const Cell& x, int64_t value);
// Sets to = from + plus; both are on one device.
absl::Status Add(StreamRef stream, const Cell& to, const Cell& from,
                 int64_t plus = 0);

// The order in which operations ran: kernels that write a letter each.
class OpLog {
 public:
  // Enqueues an operation on `stream`.  The log must outlive the operation.
  absl::Status Mark(StreamRef stream, char letter);
  std::string text() const;
  // True if both ran, and `a` before `b`.
  bool Before(char a, char b) const;

 private:
  mutable std::mutex mu_;
  std::string text_;
};

// The lines that are logged during the life of this object.
class LogCapture {
 public:
  LogCapture();
  ~LogCapture();
  LogCapture(const LogCapture&) = delete;
  LogCapture& operator=(const LogCapture&) = delete;

  struct Line {
    LogLevel level;
    std::string text;
  };
  std::vector<Line> lines() const;
  // The number of lines of at least `level`.
  int Count(LogLevel level = LogLevel::kWarning) const;

 private:
  const LogLevel level_;
};

// Runs `body(i)` in `count` threads that start together, and rethrows the first
// exception.
void InThreads(int count, const std::function<void(int)>& body);

class MtiaTest : public ::testing::Test {
 public:
  static constexpr int kDevices = 4;

  static Device dev(int index = 0);
  // The current device of this thread.
  static Device Current(const char* backend = "mtia");
  static Simulator sim();
  // Resets the simulator with `config`, such as "mode=threaded,seed=3".
  static void Reset(const std::string& config);

  static Stream NewStream(Device device = dev(), StreamOptions options = {});
  static Stream NewBlocking(Device device = dev());
  static Event NewEvent(Device device = dev(), EventOptions options = {});
  static Flag NewFlag(Device device = dev());

  // Runs `body` with the strategies hw, asap, alap, lifo and random with
  // several seeds, and in threaded mode.  `extra` is added to each
  // configuration.
  static void InEverySchedule(const std::function<void()>& body,
                              const std::string& extra = "");
  // Like InEverySchedule, without threaded mode: for tests that need a virtual
  // clock.
  static void InVirtualSchedules(const std::function<void()>& body,
                                 const std::string& extra = "");
  // Fails unless `body` returns each of `outcomes` within 1,000 schedules, and
  // never anything else.
  static void ExpectOutcomes(const std::set<int64_t>& outcomes,
                             const std::function<int64_t()>& body,
                             const std::string& extra = "");

 protected:
  void SetUp() override;
  void TearDown() override;
};

}  // namespace devrt::testing

#endif  // DEVRT_TESTS_SUPPORT_MTIA_FIXTURE_H_
