// SPDX-License-Identifier: Apache-2.0
//
// The trace layer's own events: gone before the backend's `shutdown`.

#include <atomic>

#include "tests/layers/trace_reader.h"

namespace devrt {
namespace {

using testing::FailNext;
using testing::Must;
using testing::Trace;
using testing::Traced;

struct Counts {
  std::atomic<int> made{0};
  std::atomic<int> gone{0};
  int alive() const { return made - gone; }
};
Counts events;
Counts streams;
std::atomic<int> records_of_none{0};
int events_at_shutdown = -1;
int streams_at_shutdown = -1;

// Behind the trace layer: sees what that does on its own.
class Handles {
 public:
  explicit Handles(const devrt_next_v0*) {}

  template <typename Call, typename... Args>
  devrt_status On(Call call, Args... args) noexcept {
    using layer::CallId;
    if constexpr (Call::kId == CallId::event_record) {
      if (EventOf(args...) == nullptr) ++records_of_none;
    }
    const devrt_status status = call(args...);
    if (status != nullptr) return status;
    if constexpr (Call::kId == CallId::event_create) ++events.made;
    if constexpr (Call::kId == CallId::event_destroy) ++events.gone;
    if constexpr (Call::kId == CallId::stream_create) {
      if (KindOf(args...) == DEVRT_STREAM_CREATE) ++streams.made;
    }
    if constexpr (Call::kId == CallId::stream_destroy) ++streams.gone;
    return status;
  }

  void Shutdown() noexcept {
    events_at_shutdown = events.alive();
    streams_at_shutdown = streams.alive();
  }

 private:
  template <typename Stream>
  static devrt_event EventOf(devrt_event event, Stream) {
    return event;
  }
  template <typename Device, typename Desc, typename Stream>
  static uint32_t KindOf(Device, Desc desc, Stream) {
    return desc->kind;
  }
};
DEVRT_STATIC_LAYER(Handles, handles, "handles", "devrt tests", "1.0");

// Work on two devices, with a wait between them.
void Work() {
  const Device first = Must(GetDevice("mtia:0"));
  const Device second = Must(GetDevice("mtia:1"));
  constexpr uint64_t kBlockBytes = 4096;
  void* const a = Must(Allocate(first, kBlockBytes));
  void* const b = Must(Allocate(second, kBlockBytes));
  {
    Stream s = Must(Stream::Create(first));
    Stream t = Must(Stream::Create(second));
    Event filled = Must(Event::Create(first));
    for (int i = 0; i < 8; ++i) {
      EXPECT_OK(FillAsync(s, a, i, kBlockBytes));
      EXPECT_OK(filled.Record(s));
      EXPECT_OK(t.Wait(filled));
      EXPECT_OK(FillAsync(t, b, i, kBlockBytes));
    }
    EXPECT_OK(t.Synchronize());
  }
  EXPECT_OK(Free(first, a));
  EXPECT_OK(Free(second, b));
}

void TraceBeforeHandles() {
  Must(RegisterLayer(&handles_manifest, handles_open));
  Must(SetLayers({"trace", "handles"}));
}

void NoneIsLeft(Trace*) {
  EXPECT_EQ(events_at_shutdown, 0);
  EXPECT_EQ(streams_at_shutdown, 0);
  EXPECT_EQ(records_of_none, 0);
}

TEST(TraceHandlesTest, NoneIsLeftAtShutdown) {
  Traced(
      "events",
      [] {
        Work();
        EXPECT_GT(events.made, 8) << "the trace layer takes times by events";
      },
      &NoneIsLeft, &TraceBeforeHandles);
}

// Both events of an operation whose times were taken serve the next ones: the
// layer looks after every 64 operations of a stream.
TEST(TraceHandlesTest, EventsAreUsedAgain) {
  Traced(
      "events",
      [] {
        const Device device = Must(GetDevice("mtia:0"));
        void* const memory = Must(Allocate(device, 64));
        {
          const Stream stream = Must(Stream::Create(device));
          for (int i = 0; i < 10 * 64; ++i) {
            EXPECT_OK(FillAsync(stream, memory, 1, 64));
            EXPECT_OK(stream.Synchronize());
          }
          EXPECT_LE(events.made, 2 * 2 * 64);
        }
        EXPECT_OK(Free(device, memory));
      },
      &NoneIsLeft, &TraceBeforeHandles);
}

// The event before an operation that failed serves the next one.
TEST(TraceHandlesTest, AFailedOperationKeepsNone) {
  Traced(
      "events",
      [] {
        const Device device = Must(GetDevice("mtia:0"));
        void* const memory = Must(Allocate(device, 64));
        {
          const Stream stream = Must(Stream::Create(device));
          EXPECT_OK(FillAsync(stream, memory, 1, 64));
          EXPECT_OK(stream.Synchronize());
          const int made = events.made;
          for (int i = 0; i < 4; ++i) {
            FailNext("fill_async", 46);
            EXPECT_FALSE(FillAsync(stream, memory, 1, 64).ok());
          }
          EXPECT_EQ(events.made, made);
        }
        EXPECT_OK(Free(device, memory));
      },
      &NoneIsLeft, &TraceBeforeHandles);
}

// devrt does not record an event whose creation failed.
TEST(TraceHandlesTest, AnEventThatIsNoneIsNotRecorded) {
  Traced(
      "events",
      [] {
        const Device device = Must(GetDevice("mtia:0"));
        void* const memory = Must(Allocate(device, 64));
        {
          const Stream stream = Must(Stream::Create(device));
          for (int i = 0; i < 3; ++i) {
            FailNext("event_create", 46);
            EXPECT_OK(FillAsync(stream, memory, i, 64));
          }
          EXPECT_OK(stream.Synchronize());
        }
        EXPECT_OK(Free(device, memory));
      },
      &NoneIsLeft, &TraceBeforeHandles);
}

}  // namespace
}  // namespace devrt
