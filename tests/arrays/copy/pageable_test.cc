// SPDX-License-Identifier: Apache-2.0
//
// Plain host memory: a driver may hold the caller of a copy up until its turn
// comes.  The memory is locked during that call, so all that it could be held
// up for has to be over.

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/arrays/arrays_fixture.h"
#include "tests/arrays/copy/probe.h"

namespace devrt::testing {
namespace {

class PageableTest : public ArraysTest {
 protected:
  Array Host() { return Must(Array::FromPointer(host_.data(), {64}, kInt32)); }

  std::vector<int32_t> host_ = std::vector<int32_t>(64, 5);
};

absl::Status CopyOn(StreamRef stream, const Array& target,
                    const Array& source) {
  CopyOptions options;
  options.stream = stream;
  return CopyArray(target, source, options);
}

TEST_F(PageableTest, CopyCallFindsItsStreamIdle) {
  InEverySchedule([this] {
    host_.assign(64, 5);
    Stream a = NewStream();
    Stream b = NewStream();
    const Array x = Filled(dev(), 1);
    const Array y = Filled(dev(), 2);
    BackendProbe probe;
    int busy = 0;
    probe.before_copy = [&](devrt_stream s) { busy += !probe.IsIdle(s); };
    ASSERT_OK(Spin(a, kLong));
    ASSERT_OK(x.NoteUse(a));
    ASSERT_OK(CopyOn(b, x, Host()));
    ASSERT_OK(Spin(a, kLong));
    ASSERT_OK(y.NoteUse(a));
    ASSERT_OK(CopyOn(b, Host(), y));
    EXPECT_EQ(probe.calls(), "rcrc");
    EXPECT_EQ(busy, 0);
    EXPECT_TRUE(IsAll(x, 5));
    EXPECT_TRUE(IsAll(Host(), 2));
  });
}

// Another thread's use that comes while the host waits.
TEST_F(PageableTest, CopyCallFindsItsStreamIdleAfterLateUses) {
  Stream a = NewStream();
  Stream b = NewStream();
  Stream c = NewStream();
  const Array x = Filled(dev(), 1);
  BackendProbe probe;
  int busy = 0;
  probe.before_copy = [&](devrt_stream s) { busy += !probe.IsIdle(s); };
  int waits = 0;
  probe.before_wait = [&] {
    if (++waits > 1) return;
    Must(Spin(c, kLong));
    Must(x.NoteUse(c));
  };
  ASSERT_OK(Spin(a, kLong));
  ASSERT_OK(x.NoteUse(a));
  ASSERT_OK(CopyOn(b, x, Host()));
  EXPECT_EQ(probe.calls(), "rrc");
  EXPECT_EQ(busy, 0);
}

// The rule of the default stream (C8) leaves nothing on the stream itself.
TEST_F(PageableTest, CopyCallFindsTheDefaultStreamIdle) {
  Stream b = NewBlocking();
  const StreamRef legacy = DefaultStream(dev());
  const Array x = Filled(dev(), 1);
  BackendProbe probe;
  int busy = 0;
  probe.before_copy = [&](devrt_stream) {
    busy += !probe.IsIdle(legacy.record()->handle.load());
    busy += !probe.IsIdle(b.ref().record()->handle.load());
  };
  ASSERT_OK(Spin(legacy, kLong));
  ASSERT_OK(CopyOn(b, x, Host()));
  ASSERT_OK(Spin(b, kLong));
  ASSERT_OK(CopyOn(legacy, x, Host()));
  EXPECT_EQ(busy, 0);
}

// A host function may wait for a thread that asks for the array.
TEST_F(PageableTest, QueriesDoNotWaitForTheCopy) {
  Reset("mode=threaded,pageable=sync");
  std::mutex mutex;
  std::condition_variable changed;
  bool copying = false;
  bool asked = false;
  const auto set = [&](bool* what) {
    const std::lock_guard<std::mutex> lock(mutex);
    *what = true;
    changed.notify_all();
  };
  const auto wait = [&](const bool* what) {
    std::unique_lock<std::mutex> lock(mutex);
    return changed.wait_for(lock, std::chrono::seconds(3),
                            [what] { return *what; });
  };
  {
    Stream a = NewStream();
    Stream b = NewStream();
    const Array x = Filled(dev(), 1);
    BackendProbe probe;
    probe.before_copy = [&](devrt_stream) { set(&copying); };
    probe.before_wait = [&] { set(&copying); };
    std::atomic<bool> in_time{false};
    ASSERT_OK(LaunchHostFunc(
        a, [&](const absl::Status&) { in_time = wait(&asked); }));
    ASSERT_OK(x.NoteUse(a));
    std::thread asks([&] {
      EXPECT_TRUE(wait(&copying));
      EXPECT_THAT(x.IsReady(), IsOkAndHolds(false));
      set(&asked);
    });
    EXPECT_OK(CopyOn(b, x, Host()));
    asks.join();
    ASSERT_OK(a.Synchronize());
    EXPECT_TRUE(in_time);
  }
  ASSERT_OK(dev().Synchronize());
}

}  // namespace
}  // namespace devrt::testing
