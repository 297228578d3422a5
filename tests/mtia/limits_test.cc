// SPDX-License-Identifier: Apache-2.0
//
// Durations, timeouts and sizes as large as callers can name.
#include <string>

#include "tests/mtia/engine_fixture.h"

namespace devrt::test {
namespace {

constexpr uint64_t kHuge[] = {UINT64_MAX, UINT64_MAX - 1, UINT64_MAX >> 1,
                              uint64_t{1} << 62};

class HugeDurations : public EngineTest {
 protected:
  static int64_t Elapsed(devrt_event begin, devrt_event end) {
    int64_t ns = -1;
    OK(ops().event_elapsed_ns(self(), begin, end, &ns));
    return ns;
  }
};

// A hold that may last for centuries holds, and starves nobody.
TEST_F(HugeDurations, AHoldLastsForItsTimeout) {
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

TEST_F(HugeDurations, ASpinLastsForCenturies) {
  for (const uint64_t duration : kHuge) {
    Reset("mode=threaded");
    devrt_stream s = NewStream();
    OK(probe().spin(self(), s, duration));
    for (int i = 0; i < 1000; ++i) ASSERT_FALSE(Done(s));
  }
}

// C35: the virtual clock passes its horizon; elapsed time is never negative.
TEST_F(HugeDurations, VirtualClockDoesNotWrap) {
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

class HugeSizes : public EngineTest {
 protected:
  static std::byte* At(int64_t* cell, size_t offset) {
    return reinterpret_cast<std::byte*>(cell) + offset;
  }
};

TEST_F(HugeSizes, PeekAndPokeRefuseHugeSizes) {
  int64_t* const x = NewCell(0, 9);
  int64_t host = 1;
  for (const uint64_t size : kHuge) {
    for (const size_t offset : {0u, 1u, 7u}) {
      ExpectCode(sim().peek(self(), At(x, offset), &host, size),
                 DEVRT_INVALID_ARGUMENT);
      ExpectCode(sim().poke(self(), At(x, offset), &host, size),
                 DEVRT_INVALID_ARGUMENT);
    }
  }
  ExpectCode(sim().peek(self(), x, nullptr, sizeof *x), DEVRT_INVALID_ARGUMENT);
  ExpectCode(sim().poke(self(), x, nullptr, sizeof *x), DEVRT_INVALID_ARGUMENT);
  OK(sim().peek(self(), x, nullptr, 0));
  OK(sim().poke(self(), x, nullptr, 0));
  EXPECT_EQ(host, 1);
  EXPECT_EQ(Peek(x), 9);
}

// A body that accesses more than it declared is a fault, also if the range
// wraps.
TEST_F(HugeSizes, UndeclaredRangesOfABodyAreAFault) {
  for (const uint64_t size : kHuge) {
    Reset("");
    devrt_stream s = NewStream();
    int64_t* const x = NewCell();
    const void* local = &size;
    Launch(s,
           [&](const devrt_kernel_context_v0* context) {
             local = context->local(context, At(x, 1), size, DEVRT_ACCESS_READ);
           },
           {{x, sizeof *x, DEVRT_ACCESS_READ, 0}});
    EXPECT_EQ(Take(ops().stream_sync(self(), s)).native_code, 700);
    EXPECT_EQ(local, nullptr);
  }
}

TEST_F(HugeSizes, DeclaredRangesThatWrapAreRefused) {
  devrt_stream s = NewStream();
  int64_t* const x = NewCell();
  ExpectCode(TryLaunch(s, [](const devrt_kernel_context_v0*) {},
                       {{At(x, 1), UINT64_MAX, DEVRT_ACCESS_READ, 0}}),
             DEVRT_INVALID_ARGUMENT);
  Sync(s);
}

}  // namespace
}  // namespace devrt::test
