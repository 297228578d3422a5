// SPDX-License-Identifier: Apache-2.0
//
// Calls that wait before they return and are told that nobody can go on: they
// have done nothing.
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tests/mtia/engine_fixture.h"

namespace devrt::test {
namespace {

using ::testing::HasSubstr;

constexpr const char* kRefusedModes[] = {"", ",strategy=random,seed=4",
                                         ",mode=threaded"};

class RefusedWait : public EngineTest {
 protected:
  static devrt_status Copy(devrt_stream s, void* dst, const void* src) {
    return ops().copy_async(self(), s, dst, src, sizeof(int64_t),
                            DEVRT_COPY_INFER);
  }
};

// A copy that was refused touches the caller's memory neither then nor
// later; what was enqueued before and after it is in order.
// C53
TEST_F(RefusedWait, PageableCopy) {
  for (const std::string mode : kRefusedModes) {
    for (const bool to_device : {true, false}) {
      SCOPED_TRACE(mode);
      Reset("watchdog=20ms,pageable=sync" + mode);
      devrt_stream s = NewStream();
      devrt_flag flag = NewFlag();
      int64_t* const x = NewCell(0, 5);
      int64_t host = 1;
      Hold(s, flag);
      MulAdd(s, x, 10, 1);
      devrt_status status = to_device ? Copy(s, x, &host) : Copy(s, &host, x);
      EXPECT_THAT(Take(status).text, HasSubstr("repeat this call"));
      devrt_event after = Mark(s);
      MulAdd(s, x, 10, 2);
      host = 2;
      Set(flag);
      Sync(s);
      EXPECT_TRUE(EventDone(after));
      EXPECT_EQ(Peek(x), 512);
      EXPECT_EQ(host, 2);
      OK(to_device ? Copy(s, x, &host) : Copy(s, &host, x));
      Sync(s);
      EXPECT_EQ(Peek(x), host);
    }
  }
}

// A call that was refused because the queue is full touches the caller's memory
// neither then nor later.
// C6
TEST_F(RefusedWait, FullQueue) {
  for (const std::string mode : kRefusedModes) {
    SCOPED_TRACE(mode);
    Reset("watchdog=20ms,queue_depth=1000" + mode);
    devrt_stream s = NewStream();
    devrt_flag flag = NewFlag();
    Hold(s, flag);
    for (int i = 0; i < 999; ++i) OK(probe().spin(self(), s, 1));
    const uint64_t pending = Stats().pending_ops;
    ExpectCode(probe().spin(self(), s, 1), DEVRT_FAILED_PRECONDITION);
    EXPECT_EQ(Stats().pending_ops, pending);
    Set(flag);
    Sync(s);
  }
}

// A free that would wait for ever frees nothing and says so.
// C64
TEST_F(RefusedWait, FreesThatWouldWaitForEverFreeNothing) {
  for (const std::string mode : kRefusedModes) {
    SCOPED_TRACE(mode);
    Reset("watchdog=20ms,raw_free_syncs=yes" + mode);
    devrt_stream s = NewStream();
    devrt_flag flag = NewFlag();
    int64_t* const x = NewCell(0, 1);
    void* pinned = nullptr;
    std::vector<int64_t> range(16);
    OK(ops().host_alloc(self(), 0, 64, 0, &pinned));
    OK(ops().host_register(self(), 0, range.data(), 128));
    Hold(s, flag);
    MulAdd(s, x, 4, 1);
    for (const bool held : {true, false}) {
      const devrt_code code = held ? DEVRT_FAILED_PRECONDITION : DEVRT_OK;
      if (held) OK(ops().dealloc(self(), 1, NewCell(1), 8));
      if (!held) Set(flag);
      if (!held) Sync(s);
      EXPECT_EQ(Peek(x), held ? 1 : 5);
      ExpectCode(ops().dealloc(self(), 0, x, 8), code);
      ExpectCode(ops().host_dealloc(self(), pinned, 64), code);
      ExpectCode(ops().host_unregister(self(), range.data()), code);
      const uint64_t left = held ? 1 : 0;
      EXPECT_EQ(Stats().live_blocks, left);
      EXPECT_EQ(Stats().live_pinned, left);
      EXPECT_EQ(Stats().live_registered, left);
    }
  }
}

// Frees succeed after a device's fault.
// C94
TEST_F(RefusedWait, FreesAfterAFault) {
  Reset("raw_free_syncs=yes");
  devrt_stream s = NewStream();
  int64_t* const x = NewCell();
  OK(probe().fault(self(), s, DEVRT_FAULT_TRAP));
  OK(ops().dealloc(self(), 0, x, 8));
  EXPECT_EQ(Stats().live_blocks, 0u);
}

// A call that waits for room finds its object destroyed afterwards. A new
// object at that address is not meant.
class FullQueue : public RefusedWait {
 protected:
  // `call` on a stream that is full, `meanwhile` once it waits.
  template <class Call, class Meanwhile>
  static void Run(const std::string& mode, Call call, Meanwhile meanwhile) {
    Reset("watchdog=60s,queue_depth=1000" + mode);
    devrt_stream s = NewStream();
    devrt_flag hold = NewFlag(), flag = NewFlag();
    Hold(s, hold);
    for (int i = 0; i < 999; ++i) OK(probe().spin(self(), s, 1));
    std::atomic<int> tid{0};
    Result result;
    std::thread waiter([&] {
      tid = gettid();
      result = Take(call(s, flag));
    });
    UntilAsleep(tid);
    meanwhile(s, flag);
    Set(hold);
    waiter.join();
    EXPECT_EQ(result.code, DEVRT_INVALID_ARGUMENT) << result.text;
    OK(ops().device_sync(self(), 0));
    EXPECT_EQ(Stats().pending_ops, 0u);
  }
};

TEST_F(FullQueue, FlagDestroyedMeanwhile) {
  for (const std::string mode : {"", ",mode=threaded"}) {
    for (const bool wait : {true, false}) {
      Run(
          mode,
          [wait](devrt_stream s, devrt_flag flag) {
            return wait ? probe().flag_wait(self(), s, flag, 0)
                        : probe().flag_set_async(self(), s, flag, 1);
          },
          [](devrt_stream, devrt_flag flag) {
            OK(probe().flag_destroy(self(), flag));
            NewFlag();  // in its place
          });
    }
  }
}

TEST_F(FullQueue, StreamDestroyedMeanwhile) {
  for (const std::string mode : {"", ",mode=threaded"}) {
    Run(
        mode,
        [](devrt_stream s, devrt_flag) { return probe().spin(self(), s, 1); },
        [](devrt_stream s, devrt_flag) {
          OK(ops().stream_destroy(self(), s));
        });
  }
}

// strict=cuda requires the stream's device to be current for every kernel (S8).
TEST_F(RefusedWait, StrictLaunchesNeedTheCurrentDevice) {
  Reset("strict=cuda");
  devrt_stream s = NewStream(1);
  devrt_flag flag = NewFlag(1);
  const auto kernels = [&](devrt_code code) {
    ExpectCode(probe().spin(self(), s, 1), code);
    ExpectCode(probe().flag_set_async(self(), s, flag, 1), code);
    ExpectCode(probe().flag_wait(self(), s, flag, 0), code);
    devrt_status launched = TryLaunch(s, [](const devrt_kernel_context_v0*) {});
    ExpectCode(launched, code);
  };
  kernels(DEVRT_INVALID_ARGUMENT);
  ExpectCode(probe().fault(self(), s, DEVRT_FAULT_TRAP),
             DEVRT_INVALID_ARGUMENT);
  OK(ops().fill_async(self(), s, NewCell(1), 0, 8));  // C16: no launch
  devrt_context before;
  OK(ops().context_enter(self(), 1, &before));
  kernels(DEVRT_OK);
  Sync(s);
  OK(ops().context_exit(self(), &before));
}

}  // namespace
}  // namespace devrt::test
