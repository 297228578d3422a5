// SPDX-License-Identifier: Apache-2.0
//
// One event, stream or pool used by many threads at once (C39, R4).

#include <atomic>
#include <memory>

#include "tests/support/mtia_fixture.h"

namespace devrt::testing {
namespace {

using EventThreads = MtiaTest;

constexpr int kThreads = 8;
const char* const kEventModes[] = {"mode=threaded", "mode=virtual",
                                   "mode=virtual,strategy=random,seed=3"};

// One thread records; each wait of the seven others sees the capture of a
// record that took effect before it.
// C39
TEST_F(EventThreads, WaitsSeeARecordThatTookEffect) {
  constexpr int kRecords = 200;
  for (const char* mode : kEventModes) {
    SCOPED_TRACE(mode);
    Reset(mode);
    std::vector<std::unique_ptr<Cell>> x;  // set before the i-th record
    for (int i = 0; i < kRecords; ++i) {
      x.push_back(std::make_unique<Cell>(dev()));
    }
    Event e = NewEvent();
    std::atomic<int> recorded{0};
    InThreads(kThreads, [&](int thread) {
      Stream s = NewStream();
      if (thread == 0) {
        for (int i = 0; i < kRecords; ++i) {
          Must(Put(s, *x[static_cast<size_t>(i)], 1));
          Must(e.Record(s));
          recorded.store(i + 1);
        }
        Must(s.Synchronize());
        return;
      }
      Cell y(dev());
      for (int i = 0; i < 50; ++i) {
        const int before = recorded.load();
        Must(s.Wait(e));
        if (before == 0) continue;
        Must(Add(s, y, *x[static_cast<size_t>(before - 1)]));
        Must(s.Synchronize());
        ASSERT_EQ(y.Peek(), 1);
      }
    });
  }
}

// C39
TEST_F(EventThreads, EveryCallFromEveryThread) {
  EventOptions timing;
  timing.timing = true;
  for (const char* mode : kEventModes) {
    SCOPED_TRACE(mode);
    Reset(mode);
    Event e = NewEvent(dev(), timing);
    InThreads(kThreads, [&](int thread) {
      Stream s = NewStream(), far = NewStream(dev(1));
      Event own = NewEvent(dev(), timing);
      for (int i = 0; i < 40; ++i) {
        Must(Spin(s, 100));
        switch ((thread + i) % 6) {
          case 0:
            Must(e.Record(s));
            break;
          case 1:
            Must(s.Wait(e));
            break;
          case 2:
            Must(e.Query());
            break;
          case 3:
            Must(e.Synchronize());
            break;
          case 4:
            Must(far.Wait(e));
            Must(Spin(far, 1));
            break;
          case 5: {
            Must(own.Record(s));
            Must(own.Synchronize());
            // The other may be recorded anew meanwhile.
            const auto elapsed = ElapsedMilliseconds(e, own);
            if (!elapsed.ok()) {
              EXPECT_THAT(
                  MessageOf(elapsed.status()),
                  ::testing::AnyOf(::testing::HasSubstr("must be recorded"),
                                   ::testing::HasSubstr("must be completed")));
            }
            break;
          }
        }
      }
      Must(s.Synchronize());
      Must(far.Synchronize());
    });
    EXPECT_NE(e.id(), 0u);
    EXPECT_OK(e.Synchronize());
  }
}

// The native event is made once, whoever records first.
// C39
TEST_F(EventThreads, FirstRecordsRace) {
  Reset("mode=threaded");
  for (int round = 0; round < 20; ++round) {
    const uint64_t before = Must(sim().Stats()).live_events;
    {
      EventOptions timing;
      timing.timing = round % 2 == 0;
      Event e = NewEvent(dev(), timing);
      std::vector<uint64_t> ids(kThreads);
      InThreads(kThreads, [&](int thread) {
        Stream s = NewStream();
        Must(e.Record(s));
        ids[static_cast<size_t>(thread)] = e.id();
        Must(e.Synchronize());
      });
      for (uint64_t id : ids) EXPECT_EQ(id, e.id());
    }
    EXPECT_LE(Must(sim().Stats()).live_events, before + 1);
  }
}

// C39
TEST_F(EventThreads, ManyThreadsShareAStream) {
  for (const char* mode : kEventModes) {
    SCOPED_TRACE(mode);
    Reset(mode);
    Stream s = NewStream();
    Cell x(dev());
    InThreads(kThreads, [&](int) {
      for (int i = 0; i < 50; ++i) Must(Add(s, x, x, 1));
      Must(s.Query());
      Must(s.Synchronize());
    });
    ASSERT_OK(s.Synchronize());
    EXPECT_EQ(x.Peek(), kThreads * 50);
  }
}

// Threads record and wait for one event of devrt's own at once, and each stream
// waits for what its thread has submitted.
// C39
TEST_F(EventThreads, ManyStreamsWaitForOne) {
  for (const char* mode : kEventModes) {
    SCOPED_TRACE(mode);
    Reset(mode);
    Stream producer = NewStream();
    Must(NewStream().Wait(producer));  // makes the event
    const uint64_t events = Must(sim().Stats()).live_events;
    InThreads(kThreads, [&](int) {
      Stream s = NewStream();
      Cell x(dev()), y(dev());
      for (int i = 1; i <= 50; ++i) {
        Must(Put(producer, x, i));
        Must(s.Wait(producer));
        Must(Add(s, y, x));
        Must(s.Synchronize());
        ASSERT_EQ(y.Peek(), i);
      }
    });
    EXPECT_EQ(Must(sim().Stats()).live_events, events);
  }
}

// Streams and events come and go in all threads, some of them busy.
// C39
TEST_F(EventThreads, CreationAndDestructionFromManyThreads) {
  for (const char* mode : kEventModes) {
    SCOPED_TRACE(mode);
    Reset(mode);
    InThreads(kThreads, [&](int thread) {
      for (int i = 0; i < 40; ++i) {
        Device device = dev((thread + i) % 2);
        StreamOptions options;
        options.blocking = i % 3 == 0;
        Stream s = NewStream(device, options);
        Event e = NewEvent(device);
        Must(Spin(s, 100));
        Must(e.Record(s));
        Stream other = NewStream(device);
        Must(other.Wait(e));
        if (i % 4 == 0) Must(other.Synchronize());
      }
    });
    ASSERT_OK(dev(0).Synchronize());
    ASSERT_OK(dev(1).Synchronize());
  }
}

}  // namespace
}  // namespace devrt::testing
