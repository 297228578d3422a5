// SPDX-License-Identifier: Apache-2.0
//
// MtiaTest: four simulated devices, started afresh for every test.
//
//   using EventRerecord = MtiaTest;   // the suite is named after its subject
//
//   // C27                            // the item of docs/semantics.md, if any
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
// A body gives up its streams, events and memory before it returns: the
// simulator is reset between two runs of it, and what is left over is reported.
//
// What may come out either way is asserted with ExpectOutcomes: every outcome
// must be reached within 1,000 schedules, and none but those.
//
// Threads: the fixture belongs to the main thread; what it makes may be used
// from any.
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
  // Its value now, without order: for final comparisons.
  int64_t Peek() const;
  void Poke(int64_t value) const;

 private:
  Device device_;
  int64_t* ptr_;
};

// Kernels.  Each reads at its begin and writes at its end.
absl::Status Put(StreamRef stream, const Cell& x, int64_t value);
// to := from + plus, of one device.
absl::Status Add(StreamRef stream, const Cell& to, const Cell& from,
                 int64_t plus = 0);

// What ran, in order: kernels that write a letter each.
class OpLog {
 public:
  // An operation of `stream`; the log must outlive it.
  absl::Status Mark(StreamRef stream, char letter);
  std::string text() const;
  // Whether both ran, `a` before `b`.
  bool Before(char a, char b) const;

 private:
  mutable std::mutex mu_;
  std::string text_;
};

// What the log sink got while this object lives.
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
  // Lines of at least `level`.
  int Count(LogLevel level = LogLevel::kWarning) const;

 private:
  const LogLevel level_;
};

// Runs `body(i)` in `count` threads that begin together; rethrows the first
// exception.
void InThreads(int count, const std::function<void(int)>& body);

class MtiaTest : public ::testing::Test {
 public:
  static constexpr int kDevices = 4;

  static Device dev(int index = 0);
  static Simulator sim();
  // Starts afresh with `config` ("mode=threaded,seed=3").
  static void Reset(const std::string& config);

  static Stream NewStream(Device device = dev(), StreamOptions options = {});
  static Stream NewBlocking(Device device = dev());
  static Event NewEvent(Device device = dev(), EventOptions options = {});
  static Flag NewFlag(Device device = dev());

  // `body` under hw, asap, alap, lifo, random with several seeds, and in
  // threaded mode; `extra` is added to each configuration.
  static void InEverySchedule(const std::function<void()>& body,
                              const std::string& extra = "");
  // The same without threaded mode, for what only a virtual clock can show.
  static void InVirtualSchedules(const std::function<void()>& body,
                                 const std::string& extra = "");
  // Fails unless `body` returns each of `outcomes` within 1,000 schedules, and
  // nothing else.
  static void ExpectOutcomes(const std::set<int64_t>& outcomes,
                             const std::function<int64_t()>& body,
                             const std::string& extra = "");

 protected:
  void SetUp() override;
  void TearDown() override;
};

}  // namespace devrt::testing

#endif  // DEVRT_TESTS_SUPPORT_MTIA_FIXTURE_H_
