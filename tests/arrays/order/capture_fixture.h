// SPDX-License-Identifier: Apache-2.0
//
// CapturesTest: streams that another library captures into a graph, and what
// arrays ask of the backend then.  The simulator captures nothing: it is made
// to say that it does, and what is enqueued runs.

#ifndef DEVRT_TESTS_ARRAYS_ORDER_CAPTURE_FIXTURE_H_
#define DEVRT_TESTS_ARRAYS_ORDER_CAPTURE_FIXTURE_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "streams/objects/device_streams.h"
#include "streams/objects/stream_record.h"
#include "tests/arrays/arrays_fixture.h"

namespace devrt::testing {

// The captures of the backend, and which streams and events are in them.
class Captures {
 public:
  void Begin(devrt_stream stream) { of[stream] = ++last_; }
  // `stream` becomes part of the capture of `other`.
  void Join(devrt_stream stream, devrt_stream other) {
    of[stream] = of.at(other);
  }
  // Acts as the driver: a stream that waits for an event of a capture joins
  // that capture.
  void Record(devrt_event event, devrt_stream stream) {
    const auto found = of.find(stream);
    if (found != of.end()) {
      events[event] = found->second;
    } else {
      events.erase(event);
    }
  }
  void Wait(devrt_stream stream, devrt_event event) {
    const auto found = events.find(event);
    if (found != events.end() && IsUnderWay(found->second)) {
      of[stream] = found->second;
    }
  }
  bool IsUnderWay(uint64_t id) const {
    return std::any_of(of.begin(), of.end(),
                       [id](const auto& each) { return each.second == id; });
  }
  // Ends the capture that `stream` is in, for all streams of that capture.
  void End(devrt_stream stream) {
    const uint64_t id = of.at(stream);
    absl::erase_if(of, [id](const auto& each) { return each.second == id; });
  }
  // Graphs of captures that have ended are no more.
  void DestroyGraphs() {
    for (auto hold = holds.begin(); hold != holds.end();) {
      if (IsUnderWay(hold->first)) {
        ++hold;
        continue;
      }
      for (const Hold& h : hold->second) h.release(h.arg);
      hold = holds.erase(hold);
    }
  }

  struct Hold {
    void (*release)(void*);
    void* arg;
  };
  absl::flat_hash_map<devrt_stream, uint64_t> of;  // who captures, into which
  std::map<uint64_t, std::vector<Hold>> holds;
  absl::flat_hash_map<devrt_event, uint64_t> events;

 private:
  inline static uint64_t last_ = 0;  // of the process
};
inline Captures* g_captures = nullptr;
inline thread_local uint32_t t_capture_mode = DEVRT_CAPTURE_GLOBAL;
inline int g_records = 0;
inline int g_waits = 0;
inline int g_questions = 0;  // each of them would end a capture
inline int g_looks = 0;      // whether a stream captures
inline devrt_ops_v0 g_real;

inline devrt_status IsInCapture(void*, devrt_stream stream, uint32_t* yes) {
  ++g_looks;
  *yes = g_captures->of.contains(stream) ? 1 : 0;
  return nullptr;
}
inline devrt_status GetCaptureId(void*, devrt_stream stream, uint64_t* id) {
  *id = g_captures->of.at(stream);
  return nullptr;
}
inline devrt_status RetainCapture(void*, devrt_stream stream,
                                  void (*release)(void*), void* arg) {
  g_captures->holds[g_captures->of.at(stream)].push_back({release, arg});
  return nullptr;
}
inline devrt_status ExchangeMode(void*, uint32_t* mode) {
  std::swap(*mode, t_capture_mode);
  return nullptr;
}
inline constexpr devrt_capture_v0 kCapture = {sizeof(devrt_capture_v0),
                                              0,
                                              &IsInCapture,
                                              &GetCaptureId,
                                              &RetainCapture,
                                              &ExchangeMode};
// A backend of before these were told.
inline constexpr devrt_capture_v0 kOldCapture = {
    sizeof(devrt_capture_v0), 0, &IsInCapture, nullptr, nullptr, nullptr};

class CapturesTest : public ArraysTest {
 protected:
  void SetUp() override {
    ArraysTest::SetUp();
    g_captures = &captures_;
    SetTable(&kCapture);
    ops_ = &dev().record()->backend->ops;
    g_real = *ops_;
    ops_->event_record = [](void* self, devrt_event e, devrt_stream s) {
      ++g_records;
      g_captures->Record(e, s);
      return g_real.event_record(self, e, s);
    };
    ops_->stream_wait_event = [](void* self, devrt_stream s, devrt_event e) {
      ++g_waits;
      g_captures->Wait(s, e);
      return g_real.stream_wait_event(self, s, e);
    };
    ops_->event_query = [](void* self, devrt_event e, uint32_t* done) {
      g_questions += t_capture_mode != DEVRT_CAPTURE_RELAXED;
      return g_real.event_query(self, e, done);
    };
    ops_->stream_query = [](void* self, devrt_stream s, uint32_t* done) {
      g_questions +=
          t_capture_mode != DEVRT_CAPTURE_RELAXED || g_captures->of.contains(s);
      return g_real.stream_query(self, s, done);
    };
    ops_->event_sync = [](void* self, devrt_event e) {
      g_questions += t_capture_mode != DEVRT_CAPTURE_RELAXED;
      return g_real.event_sync(self, e);
    };
    ops_->stream_sync = [](void* self, devrt_stream s) {
      ++g_questions;
      return g_real.stream_sync(self, s);
    };
    ops_->device_sync = [](void* self, uint32_t device) {
      ++g_questions;
      return g_real.device_sync(self, device);
    };
  }
  void TearDown() override {
    captures_.of.clear();
    DestroyGraphs();
    *ops_ = g_real;
    ArraysTest::TearDown();
    SetTable(nullptr);
  }

  // Begins a capture, with memory in the stream's cache.
  void Begin(StreamRef stream) {
    Warm(stream);
    BeginBare(stream);
  }
  // Puts memory into the cache of `stream`, because the driver gives none to a
  // capture.  As long as the array lives, no other stream takes the rest of its
  // segment.
  static Array Warm(StreamRef stream) {
    const StreamGuard on(stream);
    return NewArray(stream.device());
  }
  void BeginBare(StreamRef stream) {
    captures_.Begin(Handle(stream));
    g_records = g_waits = g_questions = 0;
  }
  // `stream` becomes part of the capture of `of`.
  void Join(StreamRef stream, StreamRef of) {
    captures_.Join(Handle(stream), Handle(of));
  }
  void End(StreamRef stream) { captures_.of.erase(Handle(stream)); }
  // Waits for the stream's work without telling devrt.
  static void Finish(StreamRef stream) {
    auto* const device = stream.record()->device;
    EXPECT_EQ(g_real.stream_sync(device->self, Handle(stream)), nullptr);
  }
  // Graphs of captures that have ended are no more.
  void DestroyGraphs() { captures_.DestroyGraphs(); }
  static void Expect(int records, int waits) {
    EXPECT_EQ(g_records, records);
    EXPECT_EQ(g_waits, waits);
    EXPECT_EQ(g_questions, 0);
    g_records = g_waits = g_questions = 0;
  }

  // Returns true if the driver captures `stream`.  Does not take the handle
  // from devrt.
  bool IsInCapture(StreamRef stream) const {
    return captures_.of.contains(stream.record()->handle.load());
  }
  // Ends the capture that `stream` is in, for all streams of that capture.
  void EndCapture(StreamRef stream) {
    captures_.End(stream.record()->handle.load());
  }

  static void SetTable(const devrt_capture_v0* table) {
    for (int i = 0; i < kDevices; ++i) {
      auto* const streams = internal::DeviceStreams::Of(dev(i).record());
      streams->capture.table = table;
    }
  }

 private:
  static devrt_stream Handle(StreamRef stream) {
    Must(stream.Native());  // as who captures it has it
    return stream.record()->handle.load();
  }

  Captures captures_;
  devrt_ops_v0* ops_ = nullptr;
};

}  // namespace devrt::testing

#endif  // DEVRT_TESTS_ARRAYS_ORDER_CAPTURE_FIXTURE_H_
