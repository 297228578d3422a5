// SPDX-License-Identifier: Apache-2.0
//
// How far a fault reaches: docs/reference/semantics.md 2.4, C93, C95.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "tests/mtia/engine_fixture.h"

namespace devrt::test {
namespace {

class Quarantine : public EngineTest {
 protected:
  static void Crash(devrt_stream s) {
    OK(probe().fault(self(), s, DEVRT_FAULT_TRAP));
  }
  static void ExpectFault(devrt_status status, int32_t device = 0) {
    const Result r = Take(status);
    EXPECT_EQ(r.native_code, 719) << r.text;
    EXPECT_EQ(r.device, device);
  }
  // An event of device 0 whose work has failed.
  static devrt_event FailedEvent() {
    devrt_stream s = NewStream(0);
    devrt_flag flag = NewFlag();
    Hold(s, flag);
    Crash(s);
    devrt_event e = Mark(s);
    Set(flag);
    ExpectFault(ops().stream_sync(self(), s));
    return e;
  }
  static void Destroy(devrt_stream s) { OK(ops().stream_destroy(self(), s)); }
  static devrt_status DeviceSync(uint32_t device) {
    return ops().device_sync(self(), device);
  }
  static void ExpectWorks(devrt_stream s, uint32_t device) {
    int64_t* const x = NewCell(device);
    Put(s, x, 5);
    Sync(s);
    EXPECT_EQ(Peek(x), 5);
  }
};

constexpr const char* kQuarantineModes[] = {
    "", "strategy=alap", "strategy=random,seed=2", "mode=threaded"};

// The waiting stream fails, its device does not: once the stream is gone and
// has been heard of, nothing of the failure is left.
// C95
TEST_F(Quarantine, DestroyedStreamThatWaited) {
  for (const std::string config : kQuarantineModes) {
    for (const uint32_t flags : {0u, DEVRT_STREAM_BLOCKING}) {
      SCOPED_TRACE(config);
      Reset(config);
      devrt_event failed = FailedEvent();
      devrt_stream s = NewStream(1, flags);
      Wait(s, failed);
      OK(probe().spin(self(), s, 10));
      devrt_event after = NewEvent(1);
      const Result recorded = Take(ops().event_record(self(), after, s));
      ExpectFault(ops().stream_sync(self(), s));
      OK(DeviceSync(1));  // that failure is known
      Destroy(s);
      OK(DeviceSync(1));
      if (recorded.code == DEVRT_OK) {
        ExpectFault(ops().event_sync(self(), after));
      }
      ExpectWorks(Legacy(1), 1);
      ExpectWorks(NewStream(1, DEVRT_STREAM_BLOCKING), 1);
      OK(DeviceSync(1));
    }
  }
}

// No call had returned the failure before the stream was destroyed: the next
// wait that covers the stream returns it.
// C95
TEST_F(Quarantine, FailureOfADestroyedStreamIsReturnedOnce) {
  for (const std::string config : kQuarantineModes) {
    SCOPED_TRACE(config);
    Reset(config);
    devrt_stream a = NewStream(0);
    devrt_flag flag = NewFlag();
    Hold(a, flag);
    Crash(a);
    devrt_event failed = Mark(a);
    for (int i = 0; i < 3; ++i) {
      devrt_stream s = NewStream(1, DEVRT_STREAM_BLOCKING);
      Wait(s, failed);
      OK(probe().spin(self(), s, 10));
      Destroy(s);
    }
    Set(flag);
    ExpectFault(ops().stream_sync(self(), a));
    ExpectFault(DeviceSync(1));
    OK(DeviceSync(1));
    ExpectWorks(NewStream(1, DEVRT_STREAM_BLOCKING), 1);
  }
}

// A call on another stream or device that covers a failed stream returns the
// failure once.  Calls on the failed stream itself return it for ever.
// C95
TEST_F(Quarantine, CoveringCallReturnsTheFailureOnce) {
  for (const std::string config : kQuarantineModes) {
    for (const bool device : {true, false}) {
      for (const bool works : {true, false}) {
        SCOPED_TRACE(config);
        Reset(config);
        devrt_stream a = NewStream(0);
        devrt_flag flag = NewFlag();
        Hold(a, flag);
        Crash(a);
        devrt_event failed = Mark(a);
        devrt_stream s = NewStream(1, DEVRT_STREAM_BLOCKING);
        Wait(s, failed);
        if (works) OK(probe().spin(self(), s, 10));
        Set(flag);
        ExpectFault(ops().stream_sync(self(), a));
        const auto cover = [device] {
          return device ? DeviceSync(1) : ops().stream_sync(self(), Legacy(1));
        };
        ExpectFault(cover());
        OK(cover());
        ExpectFault(ops().stream_sync(self(), s));
        ExpectFault(ops().stream_sync(self(), s));
        OK(cover());
        ExpectWorks(NewStream(1, DEVRT_STREAM_BLOCKING), 1);
      }
    }
  }
}

// The legacy rule orders the streams of a device; what one of them waited for
// is no business of the others, whenever it fails.
// C95
TEST_F(Quarantine, TheLegacyRuleSpreadsNoFailure) {
  for (const std::string config : kQuarantineModes) {
    SCOPED_TRACE(config);
    Reset(config);
    devrt_stream a = NewStream(0);
    devrt_flag flag = NewFlag();
    Hold(a, flag);
    Crash(a);
    devrt_event failed = Mark(a);
    devrt_stream waits = NewStream(1, DEVRT_STREAM_BLOCKING);
    devrt_stream other = NewStream(1, DEVRT_STREAM_BLOCKING);
    int64_t* const x = NewCell(1);
    Wait(waits, failed);
    OK(probe().spin(self(), waits, 10));
    Put(Legacy(1), x, 1);  // behind `waits`, pending while it fails
    MulAdd(other, x, 3, 4);
    Set(flag);
    ExpectFault(ops().stream_sync(self(), waits));
    Sync(other);
    EXPECT_EQ(Peek(x), 7);
    // And those that begin afterwards.
    ExpectWorks(other, 1);
    ExpectWorks(NewStream(1, DEVRT_STREAM_BLOCKING), 1);
  }
}

// A wait of the default stream makes the default stream fail, nothing else.
// C95
TEST_F(Quarantine, DefaultStreamThatWaited) {
  for (const std::string config : kQuarantineModes) {
    SCOPED_TRACE(config);
    Reset(config);
    devrt_event failed = FailedEvent();
    Wait(Legacy(1), failed);
    ExpectFault(ops().stream_sync(self(), Legacy(1)));
    ExpectWorks(NewStream(1, DEVRT_STREAM_BLOCKING), 1);
    ExpectWorks(NewStream(1), 1);
    ExpectFault(ops().stream_sync(self(), Legacy(1)));
  }
}

// An event of a failed stream keeps its meaning when the stream is reused.
// C95
TEST_F(Quarantine, EventsOfADestroyedFailedStream) {
  devrt_event failed = FailedEvent();
  devrt_stream s = NewStream(1);
  Wait(s, failed);
  devrt_event after = NewEvent(1);
  OK(ops().event_record(self(), after, s));
  ExpectFault(ops().stream_sync(self(), s));
  Destroy(s);
  for (int i = 0; i < 4; ++i) ExpectWorks(NewStream(1), 1);
  ExpectFault(ops().event_sync(self(), after));
}

// docs/reference/semantics.md 2.4: who is blocked is released when the device
// is lost, without a watchdog; also who waits on another device for its work.
// C93
TEST_F(Quarantine, LostDeviceReleasesBlockedThreads) {
  constexpr std::chrono::seconds kLimit(20);
  for (const std::string config : kQuarantineModes) {
    for (const uint32_t device : {0u, 1u}) {
      SCOPED_TRACE(config);
      Reset("watchdog=60s" + (config.empty() ? "" : "," + config));
      devrt_stream s = NewStream(0), t = NewStream(1);
      Hold(s, NewFlag());
      Wait(t, Mark(s));
      OK(probe().spin(self(), t, 10));
      const auto begin = std::chrono::steady_clock::now();
      std::atomic<int> tid{0};
      std::thread waiter([&, target = device == 0 ? s : t] {
        tid = gettid();
        EXPECT_EQ(Take(ops().stream_sync(self(), target)).native_code, 46);
      });
      UntilAsleep(tid);
      devrt_sim_fault_v1 lost = {};
      lost.struct_size = sizeof lost;
      lost.kind = DEVRT_SIM_FAULT_LOST;
      lost.native_code = 46;
      OK(sim().inject(self(), &lost));
      waiter.join();
      EXPECT_LT(std::chrono::steady_clock::now() - begin, kLimit);
    }
  }
}

// A program that gets the error may free its memory: copies in flight have
// ended, whichever call returns the error.
// C93
TEST_F(Quarantine, NoCopyRunsOnAfterTheError) {
  constexpr size_t kBytes = size_t{64} << 20;
  for (const bool waits : {true, false}) {
    SCOPED_TRACE(waits);
    Reset("mode=threaded,pageable=late");
    devrt_stream s = NewStream(), t = NewStream();
    void* x = nullptr;
    OK(ops().alloc(self(), 0, kBytes, 0, &x));
    OK(ops().fill_async(self(), t, x, 3, kBytes));
    Sync(t);
    std::vector<char> host(kBytes, 1);
    OK(ops().copy_async(self(), t, host.data(), x, kBytes, DEVRT_COPY_INFER));
    Crash(s);
    int32_t code = waits ? Take(ops().stream_sync(self(), t)).code : DEVRT_OK;
    while (!waits && code == DEVRT_OK) {
      uint32_t done = 0;
      code = Take(ops().stream_query(self(), s, &done)).code;
    }
    if (code != DEVRT_OK) host.assign(kBytes, 7);
    Reset("");  // ends the workers
    const char last = host.back();
    EXPECT_EQ(std::count(host.begin(), host.end(), last),
              static_cast<std::ptrdiff_t>(kBytes));
  }
}

}  // namespace
}  // namespace devrt::test
