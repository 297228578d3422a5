// SPDX-License-Identifier: Apache-2.0
//
// Which native calls timelines make, and what happens inside of a look: uses
// that come in while a record or query is under way are not covered by it (F18,
// F23), and two recorders of one event make its capture unknown (C39).

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "streams/objects/event_record.h"
#include "streams/objects/stream_record.h"
#include "streams/objects/use_hooks.h"
#include "streams/timelines/checkpoint_list.h"
#include "tests/support/mtia_fixture.h"
#include "tests/support/spy_backend.h"
#include "tests/support/status_matchers.h"

namespace devrt::testing {
namespace {

using internal::CheckpointList;
using internal::OrderPoint;
using internal::Timeline;
using internal::TimelineOf;
using internal::UsedRange;

OrderPoint PointOf(StreamRef stream) {
  return {TimelineOf(stream), TimelineOf(stream)->Now()};
}

bool IsComplete(const OrderPoint& p) { return p.timeline->IsComplete(p.epoch); }

struct Used {
  StreamRef stream;
  std::vector<const void*> pointers;
  std::vector<uint64_t> sizes;
};
std::vector<Used>* g_used = nullptr;
std::vector<uint64_t>* g_ended = nullptr;

class TimelineLooks : public ::testing::Test {
 protected:
  void SetUp() override {
    spy_.Reset();
    spy_.SetBusy(false);
    g_used = &used_;
    g_ended = &ended_;
    internal::SetUseHook([](StreamRef stream, const UsedRange* r, size_t n) {
      Used used{stream, {}, {}};
      for (size_t i = 0; i < n; ++i) {
        used.pointers.push_back(r[i].pointer);
        used.sizes.push_back(r[i].bytes);
      }
      g_used->push_back(used);
    });
    internal::SetStreamEndHook([](StreamRef stream) {
      EXPECT_FALSE(internal::InHostFunction());
      g_ended->push_back(stream.serial());
    });
  }
  void TearDown() override {
    internal::SetUseHook(nullptr);
    internal::SetStreamEndHook(nullptr);
    spy_.SetBusy(false);
    ASSERT_OK(dev().Synchronize());
  }

  Device dev() const { return spy_.device(0); }
  Stream NewStream() const { return Must(Stream::Create(dev())); }
  // The recycler may ask busy streams; calls are counted from here on.
  Stream NewCounted() const {
    Stream s = NewStream();
    spy_.Reset();
    return s;
  }
  Event NewEvent() const { return Must(Event::Create(dev())); }

  SpyBackend& spy_ = SpyBackend::Get();
  std::vector<Used> used_;
  std::vector<uint64_t> ended_;
};

// Every look: what is noted while the native call is under way comes later.
TEST_F(TimelineLooks, UsesInsideALookAreNotCovered) {
  Stream s = NewStream();
  Event e = NewEvent();
  ASSERT_OK(e.Record(s));
  OrderPoint inside;
  const auto note = [&] { inside = PointOf(s); };
  const struct {
    const char* slot;
    std::function<void()> look;
  } looks[] = {
      {"stream_query", [&] { EXPECT_THAT(s.Query(), IsOkAndHolds(true)); }},
      {"stream_sync", [&] { EXPECT_OK(s.Synchronize()); }},
      {"device_sync", [&] { EXPECT_OK(dev().Synchronize()); }},
      {"event_record",
       [&] {
         EXPECT_OK(e.Record(s));
         EXPECT_THAT(e.Query(), IsOkAndHolds(true));
       }},
      {"event_record",
       [&] {
         EXPECT_OK(TimelineOf(s)->Checkpoint(TimelineOf(s)->Now()));
         EXPECT_TRUE(TimelineOf(s)->Poll(false));
       }},
      {"stream_query", [&] { EXPECT_TRUE(TimelineOf(s)->Poll(true)); }},
  };
  for (const auto& [slot, look] : looks) {
    SCOPED_TRACE(slot);
    const OrderPoint before = PointOf(s);
    spy_.OnNext(slot, note);
    look();
    EXPECT_TRUE(IsComplete(before));
    EXPECT_FALSE(IsComplete(inside));
  }
}

// An event's query says nothing of a capture that came while it was asked.
TEST_F(TimelineLooks, RecordInsideAnEventsLook) {
  for (const char* slot : {"event_query", "event_sync"}) {
    SCOPED_TRACE(slot);
    Stream s = NewStream(), other = NewStream();
    Event e = NewEvent();
    ASSERT_OK(e.Record(s));
    const OrderPoint former = PointOf(s);
    OrderPoint use;
    spy_.OnNext(slot, [&] {
      use = PointOf(other);
      EXPECT_OK(e.Record(other));
    });
    ASSERT_OK(slot == std::string("event_sync") ? e.Synchronize()
                                                : e.Query().status());
    EXPECT_FALSE(IsComplete(use));
    EXPECT_FALSE(IsComplete(former));
    ASSERT_OK(e.Synchronize());
    EXPECT_TRUE(IsComplete(use));
  }
}

// A wait does not know which of the two records it covered.
TEST_F(TimelineLooks, RecordInsideAWait) {
  Stream s = NewStream(), other = NewStream(), taker = NewStream();
  Event e = NewEvent();
  const OrderPoint use = PointOf(s), its = PointOf(other);
  ASSERT_OK(e.Record(s));
  spy_.OnNext("stream_wait_event", [&] { EXPECT_OK(e.Record(other)); });
  ASSERT_OK(taker.Wait(e));
  EXPECT_FALSE(TimelineOf(taker)->IsAfter(use));
  EXPECT_FALSE(TimelineOf(taker)->IsAfter(its));
  ASSERT_OK(taker.Wait(e));
  EXPECT_TRUE(TimelineOf(taker)->IsAfter(its));
}

// C39: unknown, until a record that is alone.
TEST_F(TimelineLooks, TwoRecordersAtOnce) {
  Stream s = NewStream(), other = NewStream(), taker = NewStream();
  Event e = NewEvent();
  const OrderPoint use = PointOf(s), its = PointOf(other);
  spy_.OnNext("event_record", [&] { EXPECT_OK(e.Record(other)); });
  ASSERT_OK(e.Record(s));
  ASSERT_OK(taker.Wait(e));
  EXPECT_FALSE(TimelineOf(taker)->IsAfter(use));
  EXPECT_FALSE(TimelineOf(taker)->IsAfter(its));
  EXPECT_THAT(e.Query(), IsOkAndHolds(true));
  EXPECT_FALSE(IsComplete(use));
  EXPECT_FALSE(IsComplete(its));
  ASSERT_OK(e.Record(s));
  EXPECT_THAT(e.Query(), IsOkAndHolds(true));
  EXPECT_TRUE(IsComplete(use));
  EXPECT_FALSE(IsComplete(its));
}

// A wait that comes between a stream's record and the end of it is not part of
// the capture.
TEST_F(TimelineLooks, WaitInsideARecord) {
  Stream s = NewStream(), other = NewStream(), taker = NewStream();
  Event e = NewEvent(), theirs = NewEvent();
  const OrderPoint use = PointOf(other);
  ASSERT_OK(theirs.Record(other));
  spy_.OnNext("event_record", [&] { EXPECT_OK(s.Wait(theirs)); });
  ASSERT_OK(e.Record(s));
  ASSERT_OK(taker.Wait(e));
  EXPECT_TRUE(TimelineOf(s)->IsAfter(use));
  EXPECT_FALSE(TimelineOf(taker)->IsAfter(use));
}

TEST_F(TimelineLooks, FailedCallsSayNothing) {
  Stream s = NewStream(), taker = NewStream();
  Event e = NewEvent();
  const OrderPoint use = PointOf(s);
  const auto code = absl::StatusCode::kResourceExhausted;
  spy_.Fail("event_record", code);
  EXPECT_FALSE(e.Record(s).ok());
  EXPECT_OK(taker.Wait(e));
  EXPECT_FALSE(TimelineOf(taker)->IsAfter(use));
  ASSERT_OK(e.Record(s));
  for (const char* slot : {"event_query", "event_sync", "stream_query",
                           "stream_sync", "device_sync"}) {
    spy_.Fail(slot, code);
  }
  EXPECT_FALSE(e.Query().ok());
  EXPECT_FALSE(e.Synchronize().ok());
  EXPECT_FALSE(s.Query().ok());
  EXPECT_FALSE(s.Synchronize().ok());
  EXPECT_FALSE(dev().Synchronize().ok());
  EXPECT_FALSE(IsComplete(use));
  spy_.Fail("stream_wait_event", code);
  EXPECT_FALSE(taker.Wait(e).ok());
  EXPECT_FALSE(TimelineOf(taker)->IsAfter(use));
}

// A checkpoint whose query fails leaves its epoch open; a later look may still
// see the end.
TEST_F(TimelineLooks, FailedCheckpoints) {
  Stream s = NewStream();
  Timeline* const t = TimelineOf(s);
  const OrderPoint use = PointOf(s);
  spy_.Fail("event_record", absl::StatusCode::kResourceExhausted);
  EXPECT_FALSE(t->Checkpoint(t->Now()).ok());
  EXPECT_FALSE(t->Poll(false));
  ASSERT_OK(t->Checkpoint(t->Now()));
  spy_.Fail("event_query", absl::StatusCode::kInternal);
  EXPECT_FALSE(t->Poll(false));
  EXPECT_FALSE(IsComplete(use));
  EXPECT_FALSE(t->Poll(false)) << "it was dropped";
  ASSERT_OK(t->Checkpoint(t->Now()));
  EXPECT_TRUE(t->Poll(false));
}

// F9: a stream that is stuck costs one query a poll, in order and no more.
TEST_F(TimelineLooks, StuckStreamCostsASingleQueryPerPoll) {
  Stream s = NewCounted();
  Timeline* const t = TimelineOf(s);
  std::vector<OrderPoint> uses;
  for (int i = 0; i < 10; ++i) {
    uses.push_back(PointOf(s));
    ASSERT_OK(t->Checkpoint(t->Now()));
  }
  EXPECT_EQ(spy_.Count("event_record"), 10);
  spy_.SetBusy(true);
  for (int i = 1; i <= 5; ++i) {
    EXPECT_FALSE(t->Poll(true));
    EXPECT_EQ(spy_.Count("event_query"), i);
  }
  EXPECT_EQ(spy_.Count("stream_query"), 0);
  spy_.SetBusy(false);
  // Of ten: the first, and then those 2, 4 and the rest further on.
  EXPECT_TRUE(t->Poll(false));
  EXPECT_EQ(spy_.Count("event_query"), 9);
  for (const OrderPoint& p : uses) EXPECT_TRUE(IsComplete(p));
  EXPECT_FALSE(t->Poll(false));
  EXPECT_EQ(spy_.Count("event_query"), 9);
  EXPECT_EQ(spy_.Count("stream_query"), 0);
}

TEST_F(TimelineLooks, UseNeedsASingleCheckpoint) {
  Stream s = NewCounted();
  Timeline* const t = TimelineOf(s);
  const OrderPoint use = PointOf(s);
  EXPECT_FALSE(t->HasOpenCheckpoint());
  ASSERT_OK(t->Checkpoint(use.epoch));
  ASSERT_OK(t->Checkpoint(use.epoch));
  EXPECT_EQ(spy_.Count("event_record"), 1);
  EXPECT_TRUE(t->HasOpenCheckpoint());
  ASSERT_OK(t->Checkpoint(t->Now()));
  EXPECT_EQ(spy_.Count("event_record"), 2);
  const int created = spy_.Count("event_create");
  EXPECT_TRUE(t->Poll(false));
  EXPECT_FALSE(t->HasOpenCheckpoint());
  ASSERT_OK(t->Checkpoint(use.epoch));
  EXPECT_EQ(spy_.Count("event_record"), 2) << "it is complete";
  ASSERT_OK(t->Checkpoint(t->Now()));
  EXPECT_EQ(spy_.Count("event_create"), created) << "they are used again";
}

// Beyond the bound uses are covered later, but they are.
TEST_F(TimelineLooks, CheckpointsLeftOutAreMadeUpFor) {
  Stream s = NewCounted();
  Timeline* const t = TimelineOf(s);
  spy_.SetBusy(true);
  const int most = static_cast<int>(CheckpointList::kMost);
  for (int i = 0; i < most; ++i) ASSERT_OK(t->Checkpoint(t->Now()));
  const OrderPoint use = PointOf(s);
  ASSERT_OK(t->Checkpoint(t->Now()));
  EXPECT_EQ(spy_.Count("event_record"), most);
  EXPECT_FALSE(t->Poll(false));
  spy_.SetBusy(false);
  EXPECT_TRUE(t->Poll(false));
  EXPECT_FALSE(IsComplete(use));
  EXPECT_EQ(spy_.Count("event_record"), most + 1);
  EXPECT_TRUE(t->Poll(false));
  EXPECT_TRUE(IsComplete(use));
}

// The program's objects are counted; events of devrt's own are not.
TEST_F(TimelineLooks, CheckpointsAreNotCountedAsEvents) {
  internal::DeviceRecord* const record = dev().record();
  const int64_t events = record->live_events.load();
  Stream s = NewStream();
  ASSERT_OK(TimelineOf(s)->Checkpoint(TimelineOf(s)->Now()));
  EXPECT_EQ(record->live_events.load(), events);
  EXPECT_TRUE(TimelineOf(s)->Poll(false));
}

// A native stream is not destroyed while somebody asks it; then at once.
TEST_F(TimelineLooks, DestructionWaitsForALook) {
  std::optional<Stream> s = NewStream();
  Must(s->Native());
  Timeline* const t = TimelineOf(*s);
  spy_.OnNext("stream_query", [&] {
    s.reset();
    EXPECT_EQ(spy_.Count("stream_destroy"), 0);
  });
  t->Poll(true);
  EXPECT_EQ(spy_.Count("stream_destroy"), 1);
  EXPECT_EQ(spy_.bad_handles(), 0);
  EXPECT_FALSE(t->Poll(true) && t->Poll(true));
  EXPECT_EQ(spy_.bad_handles(), 0);
}

TEST_F(TimelineLooks, TheLastOfSeveralBorrowersDestroysTheStream) {
  for (int round = 0; round < 100; ++round) {
    std::optional<Stream> s = NewStream();
    Must(s->Native());
    internal::NativeHandle& handle = TimelineOf(*s)->native();
    spy_.Reset();
    std::atomic<bool> ended{false};
    InThreads(4, [&](int thread) {
      if (thread == 0) {
        s.reset();
        ended = true;
      }
      do {
        if (handle.Borrow() != nullptr) handle.Return();
      } while (!ended);
    });
    EXPECT_EQ(spy_.Count("stream_destroy"), 1);
    EXPECT_EQ(spy_.bad_handles(), 0);
    EXPECT_FALSE(handle.IsBorrowed());
  }
}

// A poll ends, though another thread may record as fast as it asks.
TEST_F(TimelineLooks, APollAsksNoCheckpointOfAfterItsBeginning) {
  Stream s = NewCounted();
  Timeline* const t = TimelineOf(s);
  ASSERT_OK(t->Checkpoint(t->Now()));
  int recorded = 1;
  const std::function<void()> record = [&] {
    if (++recorded > 20) return;
    EXPECT_OK(t->Checkpoint(t->Now()));
    spy_.OnNext("event_query", record);
  };
  spy_.OnNext("event_query", record);
  EXPECT_TRUE(t->Poll(false));
  EXPECT_EQ(spy_.Count("event_query"), 2);
  // The others are complete by the next polls.
  while (t->Poll(false)) {
  }
  EXPECT_TRUE(t->IsComplete(t->Now() - 1));
}

// Another thread's look may have answered already.
TEST_F(TimelineLooks, WhatIsKnownIsNotAsked) {
  Stream s = NewCounted();
  Timeline* const t = TimelineOf(s);
  const OrderPoint use = PointOf(s);
  ASSERT_OK(t->Checkpoint(use.epoch));
  ASSERT_OK(s.Synchronize());
  EXPECT_FALSE(t->PollOnceFor(use.epoch));
  EXPECT_EQ(spy_.Count("event_query"), 0);
  EXPECT_EQ(spy_.Count("stream_query"), 0);
}

// The last checkpoint of a stream has the epoch after its record.  Another
// thread that frees a block during that record makes one of that epoch, too.
TEST_F(TimelineLooks, APollEndsWithTwoCheckpointsOfOneEpoch) {
  std::optional<Stream> s = NewStream();
  Must(s->Native());  // so that the native stream ends with it
  Timeline* const t = TimelineOf(*s);
  t->Poll(false);  // the stream may have had checkpoints of other tests
  ASSERT_OK(t->Checkpoint(t->Now()));
  spy_.Reset();
  spy_.OnNext("event_record",
              [&] { EXPECT_OK(t->CheckpointUnlessDestroyed(t->Now())); });
  s.reset();
  ASSERT_EQ(spy_.Count("event_record"), 2);
  EXPECT_TRUE(t->Poll(false));
  EXPECT_EQ(spy_.Count("event_query"), 2);
  EXPECT_TRUE(t->IsSpent());
}

// Two polls at once are one.
TEST_F(TimelineLooks, PollInsideAPoll) {
  Stream s = NewCounted();
  Timeline* const t = TimelineOf(s);
  ASSERT_OK(t->Checkpoint(t->Now()));
  spy_.OnNext("event_query", [&] { EXPECT_FALSE(t->Poll(true)); });
  EXPECT_TRUE(t->Poll(false));
  EXPECT_EQ(spy_.Count("event_query"), 1);
  EXPECT_EQ(spy_.Count("stream_query"), 0);
}

// Without memory/ the end of a stream costs nothing.
TEST_F(TimelineLooks, StreamEndWithoutAHookRecordsNoCheckpoint) {
  internal::SetStreamEndHook(nullptr);
  {
    Stream s = NewStream();
    Must(s.Native());
  }
  EXPECT_EQ(spy_.Count("event_record"), 0);
  EXPECT_EQ(spy_.Count("stream_destroy"), 1);
}

TEST_F(TimelineLooks, EndsOfStreamsAreReported) {
  Stream s = NewStream();
  const uint64_t id = s.id();
  s = NewStream();
  EXPECT_EQ(ended_, std::vector<uint64_t>{id});
  // Inside of a host function it comes later.
  auto held = std::make_shared<Stream>(NewStream());
  const uint64_t second = held->id();
  ASSERT_OK(LaunchHostFunc(s, [held = std::move(held)](absl::Status) mutable {
    held.reset();
    EXPECT_EQ(g_ended->size(), 1u);
  }));
  ASSERT_OK(s.Synchronize());
  EXPECT_EQ(ended_, (std::vector<uint64_t>{id, second}));
}

// The memory layer learns the ranges of an operation once it is enqueued, and
// only then.
TEST_F(TimelineLooks, EnqueuedUsesAreReported) {
  Stream s = NewStream();
  void* const a = Must(Allocate(dev(), 256));
  void* const b = Must(Allocate(dev(), 256));
  char host[16] = {};
  ASSERT_OK(CopyAsync(s, a, b, 64));
  ASSERT_OK(FillAsync(s, b, 1, 32));
  ASSERT_OK(Copy(s, a, host, sizeof host));
  ASSERT_EQ(used_.size(), 3u);
  EXPECT_EQ(used_[0].pointers, (std::vector<const void*>{a, b}));
  EXPECT_EQ(used_[0].sizes, (std::vector<uint64_t>{64, 64}));
  EXPECT_EQ(used_[1].pointers, std::vector<const void*>{b});
  EXPECT_EQ(used_[2].pointers, (std::vector<const void*>{a, host}));
  for (const Used& used : used_) EXPECT_EQ(used.stream, s.ref());
  spy_.Fail("fill_async", absl::StatusCode::kInternal);
  EXPECT_FALSE(FillAsync(s, b, 1, 32).ok());
  EXPECT_EQ(used_.size(), 3u);
  ASSERT_OK(CopyAsync(s, a, b, 0));
  EXPECT_EQ(used_.size(), 3u);
  ASSERT_OK(Free(dev(), a));
  ASSERT_OK(Free(dev(), b));
}

}  // namespace
}  // namespace devrt::testing
