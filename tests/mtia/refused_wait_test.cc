// SPDX-License-Identifier: Apache-2.0
//
// Calls that wait before they return and are told that nobody can go on: they
// have done nothing.
#include <cstring>
#include <string>
#include <vector>

#include "tests/mtia/engine_fixture.h"

namespace devrt::test {
namespace {

using ::testing::HasSubstr;

constexpr const char* kModes[] = {"", ",strategy=random,seed=4",
                                  ",mode=threaded"};

class RefusedWait : public EngineTest {
 protected:
  static devrt_status Copy(devrt_stream s, void* dst, const void* src) {
    return ops().copy_async(self(), s, dst, src, sizeof(int64_t),
                            DEVRT_COPY_INFER);
  }
};

// C53: a copy that was refused touches the caller's memory neither then nor
// later; what was enqueued before and after it is in order.
TEST_F(RefusedWait, C53PageableCopy) {
  for (const std::string mode : kModes) {
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

// C6: the same of what finds the queue full.
TEST_F(RefusedWait, C6FullQueue) {
  for (const std::string mode : kModes) {
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

// C64: a free that would wait for ever frees nothing and says so.
TEST_F(RefusedWait, C64Frees) {
  for (const std::string mode : kModes) {
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

// C94: what a device's fault leaves is freed all the same.
TEST_F(RefusedWait, C94FreesAfterAFault) {
  Reset("raw_free_syncs=yes");
  devrt_stream s = NewStream();
  int64_t* const x = NewCell();
  OK(probe().fault(self(), s, DEVRT_FAULT_TRAP));
  OK(ops().dealloc(self(), 0, x, 8));
  EXPECT_EQ(Stats().live_blocks, 0u);
}

}  // namespace
}  // namespace devrt::test
