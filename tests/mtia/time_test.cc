// SPDX-License-Identifier: Apache-2.0
//
// Durations and timeouts as large as callers can name.
#include <string>

#include "tests/mtia/engine_fixture.h"

namespace devrt::test {
namespace {

constexpr uint64_t kHuge[] = {UINT64_MAX, UINT64_MAX - 1, UINT64_MAX >> 1,
                              uint64_t{1} << 62};

class Times : public EngineTest {
 protected:
  static int64_t Elapsed(devrt_event begin, devrt_event end) {
    int64_t ns = -1;
    OK(ops().event_elapsed_ns(self(), begin, end, &ns));
    return ns;
  }
};

// A hold that may last for centuries holds, and starves nobody.
TEST_F(Times, HoldWithAHugeTimeout) {
  for (const uint64_t timeout : kHuge) {
    Reset("mode=threaded");
    devrt_stream s = NewStream();
    devrt_flag flag = NewFlag();
    OK(probe().flag_wait(self(), s, flag, timeout));
    for (int i = 0; i < 1000; ++i) ASSERT_FALSE(Done(s));
    // It is no event that will come.
    ExpectCode(ops().stream_sync(self(), s), DEVRT_FAILED_PRECONDITION);
    Set(flag);
    Sync(s);
  }
}

TEST_F(Times, SpinForCenturies) {
  for (const uint64_t duration : kHuge) {
    Reset("mode=threaded");
    devrt_stream s = NewStream();
    OK(probe().spin(self(), s, duration));
    for (int i = 0; i < 1000; ++i) ASSERT_FALSE(Done(s));
  }
}

// C35: the virtual clock passes its horizon; elapsed time is never negative.
TEST_F(Times, VirtualClockDoesNotWrap) {
  for (const std::string strategy : kStrategies) {
    for (const uint64_t duration : kHuge) {
      SCOPED_TRACE(strategy);
      Reset("strategy=" + strategy);
      devrt_stream s = NewStream();
      devrt_event last = Mark(s);
      for (int i = 0; i < 6; ++i) {
        OK(probe().spin(self(), s, duration));
        OK(probe().flag_wait(self(), s, NewFlag(), duration));
        OK(probe().spin(self(), s, 5));
        devrt_event next = Mark(s);
        Sync(s);
        const int64_t elapsed = Elapsed(last, next);
        EXPECT_GT(elapsed, i == 0 ? int64_t{1} << 60 : 0);
        last = next;
      }
    }
  }
}

}  // namespace
}  // namespace devrt::test
