// SPDX-License-Identifier: Apache-2.0
//
// The coverage of queries and synchronisation, and that a true answer makes
// writes visible (C5, C19, C20, C37).

#include <memory>
#include <optional>
#include <thread>

#include "tests/support/mtia_fixture.h"

namespace devrt::testing {
namespace {

using DeviceSync = MtiaTest;
using StreamQuery = MtiaTest;
using QueryVisibility = MtiaTest;

// Pinned host memory: `T`s, the host's to read.
template <typename T>
class Pinned {
 public:
  explicit Pinned(size_t count) {
    ptr_ =
        static_cast<T*>(Must(AllocateHost(MtiaTest::dev(), count * sizeof(T))));
    std::fill(ptr_, ptr_ + count, T());
  }
  ~Pinned() { EXPECT_OK(FreeHost(ptr_)); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  T* get() const { return ptr_; }

 private:
  T* ptr_;
};

// All streams of one device, and of no other.
// C5
TEST_F(DeviceSync, CoversAllStreamsOfTheDevice) {
  InEverySchedule([] {
    constexpr int kKinds = 6;
    Flag gate = NewFlag(dev(1));
    std::vector<std::unique_ptr<Cell>> x;
    for (int i = 0; i < kKinds; ++i) {
      x.push_back(std::make_unique<Cell>(dev(1)));
    }
    int next = 0;
    const auto work = [&](StreamRef s) {
      Must(gate.WaitOn(s));
      Must(Put(s, *x[static_cast<size_t>(next++)], 1));
    };
    Stream free = NewStream(dev(1)), blocking = NewBlocking(dev(1));
    Stream foreign = NewStream(dev(1));
    Stream adopted = Must(Stream::FromNative(dev(1), Must(foreign.Native())));
    work(free);
    work(blocking);
    work(adopted);
    std::thread([&] { work(Must(PerThreadDefaultStream(dev(1)))); }).join();
    work(NewStream(dev(1)));  // destroyed at once
    work(DefaultStream(dev(1)));
    // Another device is not held up, and does not wait for this one.
    ASSERT_OK(dev(0).Synchronize());
    EXPECT_THAT(free.Query(), IsOkAndHolds(false));
    ASSERT_OK(gate.Set());
    ASSERT_OK(dev(1).Synchronize());
    for (const auto& cell : x) EXPECT_EQ(cell->Peek(), 1);
    EXPECT_THAT(free.Query(), IsOkAndHolds(true));
    EXPECT_THAT(blocking.Query(), IsOkAndHolds(true));
    EXPECT_THAT(adopted.Query(), IsOkAndHolds(true));
  });
}

// C5
TEST_F(DeviceSync, CoversPendingWaits) {
  InEverySchedule([] {
    Cell x(dev(0));
    Stream writer = NewStream(dev(0)), waiting = NewStream(dev(1));
    Event e = NewEvent(dev(0));
    ASSERT_OK(Spin(writer, kLong));
    ASSERT_OK(Put(writer, x, 1));
    ASSERT_OK(e.Record(writer));
    ASSERT_OK(waiting.Wait(e));
    ASSERT_OK(dev(1).Synchronize());
    EXPECT_EQ(x.Peek(), 1);
    ASSERT_OK(dev(0).Synchronize());
  });
}

// C19
TEST_F(StreamQuery, RunningOperationCounts) {
  InEverySchedule([] {
    Flag gate = NewFlag();
    Stream s = NewStream();
    EXPECT_THAT(s.Query(), IsOkAndHolds(true));
    ASSERT_OK(gate.WaitOn(s));
    for (int i = 0; i < 5; ++i) EXPECT_THAT(s.Query(), IsOkAndHolds(false));
    ASSERT_OK(gate.Set());
    ASSERT_OK(s.Synchronize());
    EXPECT_THAT(s.Query(), IsOkAndHolds(true));
  });
}

// A record behind work of the legacy stream counts, on a blocking stream.
// C19
TEST_F(StreamQuery, RecordsAndWaitsCount) {
  InEverySchedule([] {
    Flag gate = NewFlag();
    Stream blocking = NewBlocking(), waiting = NewStream();
    Event e = NewEvent();
    ASSERT_OK(gate.WaitOn(DefaultStream(dev())));
    ASSERT_OK(e.Record(blocking));
    ASSERT_OK(waiting.Wait(e));
    EXPECT_THAT(blocking.Query(), IsOkAndHolds(false));
    EXPECT_THAT(waiting.Query(), IsOkAndHolds(false));
    EXPECT_THAT(e.Query(), IsOkAndHolds(false));
    ASSERT_OK(gate.Set());
    ASSERT_OK(waiting.Synchronize());
    EXPECT_THAT(e.Query(), IsOkAndHolds(true));
    EXPECT_THAT(waiting.Query(), IsOkAndHolds(true));
    EXPECT_THAT(blocking.Query(), IsOkAndHolds(true));
  });
}

// C19
TEST_F(StreamQuery, TrueStaysTrue) {
  InEverySchedule([] {
    Stream s = NewStream();
    ASSERT_OK(Spin(s, kShort));
    while (!Must(s.Query())) {
    }
    for (int i = 0; i < 10; ++i) EXPECT_THAT(s.Query(), IsOkAndHolds(true));
  });
}

// C20
TEST_F(StreamQuery, NotReadyIsNoError) {
  LogCapture log;
  InEverySchedule([] {
    Flag gate = NewFlag();
    Stream s = NewStream();
    Event e = NewEvent();
    ASSERT_OK(gate.WaitOn(s));
    ASSERT_OK(e.Record(s));
    EXPECT_THAT(s.Query(), IsOkAndHolds(false));
    EXPECT_THAT(e.Query(), IsOkAndHolds(false));
    // Nothing is left behind for the next call.
    EXPECT_OK(dev().Health());
    EXPECT_OK(Spin(s, 1));
    EXPECT_OK(NewStream().Synchronize());
    ASSERT_OK(gate.Set());
    ASSERT_OK(s.Synchronize());
  });
  EXPECT_EQ(log.Count(), 0);
}

// C37
TEST_F(QueryVisibility, TrueStreamQueryShowsPinnedWrites) {
  InEverySchedule([] {
    constexpr size_t kCount = 1'000;
    Stream s = NewStream();
    Pinned<int64_t> host(kCount);
    void* block = Must(Allocate(dev(), kCount * 8));
    ASSERT_OK(Spin(s, kShort));
    ASSERT_OK(FillAsync(s, block, 0x11, kCount * 8));
    ASSERT_OK(CopyAsync(s, host.get(), block, kCount * 8));
    while (!Must(s.Query())) {
    }
    for (size_t i = 0; i < kCount; ++i) {
      ASSERT_EQ(host.get()[i], 0x1111111111111111);
    }
    ASSERT_OK(Free(dev(), block));
  });
}

// The flag is written after the payload; who sees an event sees both.
// C37
TEST_F(QueryVisibility, TrueEventQueryShowsFlagAndPayload) {
  InEverySchedule([] {
    Stream s = NewStream();
    Event e = NewEvent();
    Pinned<int64_t> host(2);
    int64_t* const payload = host.get();
    for (int round = 1; round <= 20; ++round) {
      ASSERT_OK(
          Launch(s, {ReadWrite(payload, 16)}, [=](const LaunchContext& k) {
            int64_t* p = k.Local(payload, 2);
            p[0] = round * 7;
            p[1] = round;
          }));
      ASSERT_OK(e.Record(s));
      while (!Must(e.Query())) {
      }
      ASSERT_EQ(payload[1], round);
      ASSERT_EQ(payload[0], round * 7);
    }
  });
}

// C37
TEST_F(QueryVisibility, SeenFromAnotherThread) {
  InEverySchedule([] {
    Stream s = NewStream();
    Event e = NewEvent();
    Cell x(dev());
    Pinned<int64_t> host(1);
    ASSERT_OK(Put(s, x, 42));
    ASSERT_OK(CopyAsync(s, host.get(), x.ptr(), 8));
    ASSERT_OK(e.Record(s));
    std::thread([&] {
      while (!Must(e.Query())) {
      }
      EXPECT_EQ(*host.get(), 42);
    }).join();
    ASSERT_OK(s.Synchronize());
  });
}

}  // namespace
}  // namespace devrt::testing
