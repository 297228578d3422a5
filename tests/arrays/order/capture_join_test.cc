// SPDX-License-Identifier: Apache-2.0
//
// Streams that nobody has the handle of and that become part of a capture of
// another library all the same: they wait for what belongs to one (C84).

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "devrt/arrays/operations.h"
#include "devrt/streams/event.h"
#include "streams/captures/captures.h"
#include "streams/objects/may_capture.h"
#include "streams/objects/ordering.h"
#include "tests/arrays/order/capture_fixture.h"

namespace devrt::testing {
namespace {

class JoinedCaptures : public CapturesTest {
 protected:
  void SetUp() override {
    CapturesTest::SetUp();
    g_destroyed = 0;
    // CapturesTest restores this slot.
    dev().record()->backend->ops.stream_destroy = [](void* self,
                                                     devrt_stream s) {
      ++g_destroyed;
      g_captures->of.erase(s);
      return g_real.stream_destroy(self, s);
    };
  }
  // Memory for the arrays of the stream's captures.
  static void Warm(StreamRef stream) {
    const StreamGuard on(stream);
    NewArray(dev());
    EXPECT_OK(stream.Synchronize());
  }
  static Event RecordedOn(StreamRef stream) {
    Event event = Must(Event::Create(dev()));
    EXPECT_OK(event.Record(stream));
    return event;
  }
  static bool MayCapture(StreamRef stream) {
    return internal::MayBeCaptured(stream);
  }
  // The graph keeps the memory that `stream` uses. The host does not wait for
  // it.
  void ExpectItsMemoryIsTheGraphs(StreamRef stream) {
    g_records = g_waits = g_questions = 0;
    const StreamGuard on(stream);
    const int64_t before = internal::CountStorages().captured;
    const void* used = nullptr;
    {
      const Array x = NewArray(dev());
      used = x.data();
      EXPECT_OK(x.Fill(3));
      EXPECT_STATUS(x.To(Place::Host()).status(), kFailedPrecondition,
                    "is capturing");
    }
    EXPECT_EQ(internal::CountStorages().captured, before + 1);
    Expect(0, 0);
    EndCapture(stream);
    EXPECT_NE(NewArray(dev()).data(), used);
    DestroyGraphs();
    EXPECT_EQ(NewArray(dev()).data(), used);
  }

  static inline int g_destroyed = 0;
};

TEST_F(JoinedCaptures, AWaitForAnEventIsAJoin) {
  Stream a = NewStream();
  Stream b = NewStream();
  Warm(b);
  BeginBare(a);
  const Event event = RecordedOn(a);
  EXPECT_OK(b.Wait(event));
  ASSERT_TRUE(IsInCapture(b));
  ExpectItsMemoryIsTheGraphs(b);
}

TEST_F(JoinedCaptures, AWaitForAStreamIsAJoin) {
  Stream a = NewStream();
  Stream b = NewStream();
  Warm(b);
  BeginBare(a);
  EXPECT_OK(b.Wait(a));
  ASSERT_TRUE(IsInCapture(b));
  ExpectItsMemoryIsTheGraphs(b);
}

TEST_F(JoinedCaptures, WaitForAJoinedStreamIsAJoin) {
  Stream a = NewStream();
  Stream b = NewStream();
  Stream c = NewStream();
  Warm(c);
  BeginBare(a);
  EXPECT_OK(b.Wait(a));
  EXPECT_OK(c.Wait(b));
  ASSERT_TRUE(IsInCapture(c));
  ExpectItsMemoryIsTheGraphs(c);
}

// Where nobody has a stream's handle but an event's.
TEST_F(JoinedCaptures, OthersMayRecordAnEventThatTheyHave) {
  Stream a = NewStream();
  Stream b = NewStream();
  Stream c = NewStream();
  Warm(b);
  const Event event = RecordedOn(c);
  Must(event.Native());
  BeginBare(a);
  auto* const device = dev().record();
  ASSERT_EQ(device->ops->event_record(device->self,
                                      event.ref().record()->handle.load(),
                                      StreamRef(a).record()->handle.load()),
            nullptr);
  EXPECT_OK(b.Wait(event));
  ASSERT_TRUE(IsInCapture(b));
  ExpectItsMemoryIsTheGraphs(b);
}

// An event that nobody captures leaves its waiters as they were, and they are
// used again.
TEST_F(JoinedCaptures, OtherWaitsAreNone) {
  Stream a = NewStream();
  Must(a.Native());
  devrt_stream handle = nullptr;
  {
    Stream b = NewStream();
    EXPECT_OK(b.Wait(a));
    EXPECT_FALSE(MayCapture(b));
    EXPECT_OK(b.Synchronize());
    handle = StreamRef(b).record()->handle.load();
  }
  const Stream next = NewStream();
  EXPECT_EQ(next.ref().record()->handle.load(), handle);
  EXPECT_EQ(g_destroyed, 0);
}

// A graph's edges are no order of what runs: after the capture the streams are
// as they were.
TEST_F(JoinedCaptures, AnEdgeIsNoOrderAfterwards) {
  Stream a = NewStream();
  Stream b = NewStream();
  const Array x = Filled(dev(), 1);
  ASSERT_OK(Spin(a, kLong));
  {
    const StreamGuard on(a);
    ASSERT_OK(x.Fill(2));
  }
  BeginBare(a);
  EXPECT_OK(b.Wait(a));
  ASSERT_TRUE(IsInCapture(b));
  EndCapture(a);
  DestroyGraphs();
  g_waits = 0;
  const StreamGuard on(b);
  EXPECT_OK(x.Fill(3));
  EXPECT_EQ(g_waits, 1);
  EXPECT_OK(x.Ready());
}

// Its native stream is not the next Stream's, which would capture, and is
// asked nothing.
TEST_F(JoinedCaptures, AJoinedStreamIsNotUsedAgain) {
  Stream a = NewStream();
  std::optional<Stream> b = NewStream();
  BeginBare(a);
  EXPECT_OK(b->Wait(a));
  b.reset();
  EXPECT_EQ(g_destroyed, 1);
  const Stream next = NewStream();
  EXPECT_FALSE(IsInCapture(next));
  EXPECT_FALSE(MayCapture(next));
  EXPECT_EQ(g_questions, 0);
  EndCapture(a);
}

// ---- Streams that are destroyed while devrt asks about them -----------------

// Another thread destroys a Stream while devrt calls the backend for it.  The
// native stream has to outlive that call.
class EndedMeanwhile : public JoinedCaptures {
 protected:
  void SetUp() override {
    JoinedCaptures::SetUp();
    dev().record()->backend->ops.event_record = [](void* self, devrt_event e,
                                                   devrt_stream s) {
      End(s);
      g_captures->Record(e, s);
      return g_real.event_record(self, e, s);
    };
    g_table = kCapture;
    g_table.stream_is_capturing = [](void* self, devrt_stream s,
                                     uint32_t* yes) {
      if (g_asked) End(s);
      return kCapture.stream_is_capturing(self, s, yes);
    };
    SetTable(&g_table);
  }
  void TearDown() override {
    g_victim = nullptr;
    JoinedCaptures::TearDown();
  }
  // Destroys the stream at the next record on it; with `asked` at the next
  // question whether it is captured.
  static void EndAtNext(std::optional<Stream>* stream, bool asked) {
    g_handle = StreamRef(**stream).record()->handle.load();
    g_asked = asked;
    g_within = false;
    g_destroyed = 0;
    g_victim = stream;
  }
  // Checks that the stream was destroyed during a call, and that the native
  // stream outlived that call.
  static void ExpectOutlived() {
    EXPECT_EQ(g_victim, nullptr);
    EXPECT_FALSE(g_within);
    EXPECT_EQ(g_destroyed, 1);
  }

 private:
  static void End(devrt_stream stream) {
    if (g_victim == nullptr || stream != g_handle) return;
    std::optional<Stream>* const victim = std::exchange(g_victim, nullptr);
    std::thread([victim] { victim->reset(); }).join();
    g_within = g_destroyed != 0;
  }

  static inline devrt_capture_v0 g_table;
  static inline std::optional<Stream>* g_victim = nullptr;
  static inline devrt_stream g_handle = nullptr;
  static inline bool g_asked = false;
  static inline bool g_within = false;
};

TEST_F(EndedMeanwhile, AnEdgeKeepsTheNativeStream) {
  std::optional<Stream> a = NewStream();
  Stream b = NewStream();
  const Array x = Filled(dev(), 1);
  Begin(b);
  Join(*a, b);
  {
    const StreamGuard on(*a);
    EXPECT_OK(x.Fill(2));
  }
  EndAtNext(&a, false);
  const StreamGuard on(b);
  EXPECT_OK(x.Fill(3));
  ExpectOutlived();
}

TEST_F(EndedMeanwhile, TheEndOfBorrowedMemoryKeepsTheNativeStream) {
  std::optional<Stream> a = NewStream();
  Stream b = NewStream();
  const Array memory = Filled(dev(), 1);
  Begin(b);
  Join(*a, b);
  PointerOptions options;
  options.stream = b;
  std::optional<Array> x =
      Must(Array::FromPointer(memory.data(), memory.shape(), kInt32, options));
  {
    const StreamGuard on(*a);
    EXPECT_OK(x->Fill(2));
  }
  EndAtNext(&a, false);
  x.reset();
  ExpectOutlived();
}

TEST_F(EndedMeanwhile, AQuestionKeepsTheNativeStream) {
  std::optional<Stream> a = NewStream();
  const Array x = Filled(dev(), 1);
  Must(a->Native());
  {
    const StreamGuard on(*a);
    EXPECT_OK(x.Fill(2));
  }
  EndAtNext(&a, true);
  EXPECT_OK(x.Ready());
  ExpectOutlived();
}

// ---- A backend of before all was told ---------------------------------------

TEST(OlderCaptures, MissingSlotsAreNull) {
  constexpr auto kSize =
      DEVRT_SIZE_THROUGH(devrt_capture_v0, stream_is_capturing);
  devrt_capture_v0 older = kCapture;
  older.struct_size = kSize;
  const devrt_capture_v0* const whole = internal::WholeCapture(&older);
  EXPECT_EQ(whole->stream_is_capturing, &IsInCapture);
  EXPECT_EQ(whole->stream_capture_id, nullptr);
  EXPECT_EQ(whole->capture_retain, nullptr);
  EXPECT_EQ(internal::WholeCapture(&older), whole);
}

// ---- Captures that cannot be held -------------------------------------------

class UnheldCaptures : public JoinedCaptures {
 protected:
  void SetUp() override {
    JoinedCaptures::SetUp();
    g_table = kCapture;
    SetTable(&g_table);
  }

  static inline devrt_capture_v0 g_table;
};

devrt_status Refused() {
  auto* const device = MtiaTest::dev().record();
  void* none = nullptr;
  return device->ops->alloc(device->self, device->ordinal, UINT64_MAX / 4, 512,
                            &none);
}

// A capture counts as held when it is, for all threads.
TEST_F(UnheldCaptures, CaptureCountsAsHeldOnlyAfterRetain) {
  Stream a = NewStream();
  static std::optional<std::thread> other;
  static std::atomic<bool> started, asked, done;
  static absl::Status its;
  static StreamRef stream = a;
  stream = a;
  started = asked = done = false;
  g_table.stream_capture_id = [](void* self, devrt_stream s, uint64_t* id) {
    if (started) asked = true;
    return kCapture.stream_capture_id(self, s, id);
  };
  g_table.capture_retain = [](void*, devrt_stream, void (*)(void*), void*) {
    if (!started.exchange(true)) {
      other.emplace([] {
        its = internal::HoldCapture(stream).status();
        done = true;
      });
      while (!asked) std::this_thread::yield();
      // Time to find it, if it could be found.
      for (int i = 0; i < 1000 && !done; ++i) std::this_thread::yield();
    }
    return Refused();
  };
  BeginBare(a);
  EXPECT_FALSE(internal::HoldCapture(a).ok());
  other->join();
  other.reset();
  EXPECT_FALSE(its.ok());
  // And is held when that works again.
  g_table.capture_retain = kCapture.capture_retain;
  const internal::CaptureNumber number = Must(internal::HoldCapture(a));
  EXPECT_FALSE(internal::IsOver(number));
  EXPECT_EQ(Must(internal::HoldCapture(a)), number);
  EndCapture(a);
  DestroyGraphs();
  internal::RunPendingReleases();
  EXPECT_TRUE(internal::IsOver(number));
}

// Its graph may be gone before the call that holds it returns.
TEST_F(UnheldCaptures, CaptureThatEndsDuringRetainIsOver) {
  Stream a = NewStream();
  g_table.capture_retain = [](void*, devrt_stream, void (*release)(void*),
                              void* arg) -> devrt_status {
    release(arg);
    internal::RunPendingReleases();
    return nullptr;
  };
  BeginBare(a);
  const internal::CaptureNumber number = Must(internal::HoldCapture(a));
  EXPECT_TRUE(internal::IsOver(number));
  // An object that was to end with the capture ends at once.
  struct Told final : internal::DeferredObject {
    explicit Told(bool* e) : ended(e) {}
    ~Told() override { *ended = true; }
    bool* ended;
  };
  bool ended = false;
  EXPECT_FALSE(internal::KeepUntilOver(number, std::make_unique<Told>(&ended)));
  EXPECT_TRUE(ended);
  EXPECT_NE(Must(internal::HoldCapture(a)), number);
  EndCapture(a);
}

}  // namespace
}  // namespace devrt::testing
