// SPDX-License-Identifier: Apache-2.0
//
// EngineTest: the backend's table, opened directly and started afresh for each
// test.
//
//   TEST_F(Order, Fifo) {
//     Reset("strategy=random,seed=1");
//     devrt_stream s = NewStream();
//     ...
//     OK(ops().stream_sync(self(), s));
//   }
//
// Threads: OK, Take and the small helpers may be used from any thread.
#ifndef DEVRT_TESTS_MTIA_ENGINE_FIXTURE_H_
#define DEVRT_TESTS_MTIA_ENGINE_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "devrt/backends/abi/devrt_launch.h"
#include "devrt/backends/abi/devrt_plugin.h"
#include "devrt/backends/abi/devrt_probe.h"
#include "devrt/backends/abi/devrt_sim.h"
#include "tests/support/fake_host.h"

namespace devrt::test {

// The status that a call returned, copied.
struct Result {
  devrt_code code = DEVRT_OK;
  int64_t native_code = 0;
  uint32_t flags = 0;
  int32_t device = -1;
  std::string text;
};
// Ends `status`.
Result Take(devrt_status status);

// A closure as a kernel.
using Body = std::function<void(const devrt_kernel_context_v0*)>;

inline constexpr const char* kStrategies[] = {"hw",     "asap", "alap", "lifo",
                                              "random", "pos",  "pct"};

class EngineTest : public ::testing::Test {
 protected:
  void SetUp() override { Reset(""); }
  void TearDown() override {
    Reset("");
    EXPECT_EQ(host().live_errors(), 0);
  }

  static FakeHost& host();
  static void* self() { return backend().self; }
  static const devrt_ops_v0& ops() { return *backend().ops; }
  template <class Table>
  static const Table& Extension(const char* name) {
    return *static_cast<const Table*>(ops().get_extension(self(), name));
  }
  static const devrt_launch_v0& launch() {
    return Extension<devrt_launch_v0>(DEVRT_LAUNCH_EXTENSION);
  }
  static const devrt_probe_v0& probe() {
    return Extension<devrt_probe_v0>(DEVRT_PROBE_EXTENSION);
  }
  static const devrt_sim_v1& sim() {
    return Extension<devrt_sim_v1>(DEVRT_SIM_EXTENSION);
  }

  // `config` on top of the defaults with a watchdog of 200 ms.
  static void Reset(const std::string& config);
  static void OK(devrt_status status) {
    const Result result = Take(status);
    EXPECT_EQ(result.code, DEVRT_OK) << result.text;
  }
  static void ExpectCode(devrt_status status, devrt_code code) {
    const Result result = Take(status);
    EXPECT_EQ(result.code, code) << result.text;
  }

  static devrt_stream NewStream(uint32_t device = 0, uint32_t flags = 0,
                                int32_t priority = 0);
  static devrt_stream Special(uint32_t kind, uint32_t device = 0);
  static devrt_stream Legacy(uint32_t device = 0) {
    return Special(DEVRT_STREAM_LEGACY, device);
  }
  static devrt_event NewEvent(uint32_t device = 0,
                              uint32_t flags = DEVRT_EVENT_TIMING);
  static devrt_flag NewFlag(uint32_t device = 0);
  static bool Done(devrt_stream stream);
  static bool EventDone(devrt_event event);
  static void Sync(devrt_stream stream) {
    OK(ops().stream_sync(self(), stream));
  }
  static void Wait(devrt_stream stream, devrt_event event) {
    OK(ops().stream_wait_event(self(), stream, event));
  }
  static void Record(devrt_event event, devrt_stream stream) {
    OK(ops().event_record(self(), event, stream));
  }
  // An event recorded on `stream` now.
  static devrt_event Mark(devrt_stream stream, uint32_t device = 0);
  // Holds the stream until Set(flag).
  static void Hold(devrt_stream stream, devrt_flag flag) {
    OK(probe().flag_wait(self(), stream, flag, 0));
  }
  static void Set(devrt_flag flag) { OK(probe().flag_set(self(), flag, 1)); }

  // A kernel; `accesses` declared, none: in place.
  static void Launch(devrt_stream stream, Body body,
                     const std::vector<devrt_access_v0>& accesses = {},
                     const char* name = "test kernel");
  static devrt_status TryLaunch(
      devrt_stream stream, Body body,
      const std::vector<devrt_access_v0>& accesses = {},
      const char* name = "test kernel");

  // One int64 in device memory.
  static int64_t* NewCell(uint32_t device = 0, int64_t value = 0);
  static int64_t Peek(const int64_t* cell);
  // *cell = value; *cell = *cell * factor + term, two-phase.
  static void Put(devrt_stream stream, int64_t* cell, int64_t value);
  static void MulAdd(devrt_stream stream, int64_t* cell, int64_t factor,
                     int64_t term);

  // Until the thread sleeps; one that is in a call then waits for the device.
  static void UntilAsleep(const std::atomic<int>& tid);

  static std::string Text(devrt_status (*get)(void*, char*, uint64_t,
                                              uint64_t*));
  static devrt_sim_stats_v1 Stats();
  static uint64_t TraceHash();

 private:
  static const devrt_backend_v0& backend();
};

}  // namespace devrt::test

#endif  // DEVRT_TESTS_MTIA_ENGINE_FIXTURE_H_
