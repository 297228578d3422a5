// SPDX-License-Identifier: Apache-2.0
//
// CapturesTest: streams that another library captures into a graph, and what
// arrays ask of the backend then.  The simulator captures nothing: it is made
// to say that it does, and what is enqueued runs.

#ifndef DEVRT_TESTS_ARRAYS_ORDER_CAPTURE_FIXTURE_H_
#define DEVRT_TESTS_ARRAYS_ORDER_CAPTURE_FIXTURE_H_

#include "absl/container/flat_hash_set.h"
#include "devrt/streams/internal/device_streams.h"
#include "devrt/streams/internal/stream_record.h"
#include "tests/arrays/order/arrays_fixture.h"

namespace devrt::testing {

inline absl::flat_hash_set<devrt_stream>* g_capturing = nullptr;
inline int g_records = 0;
inline int g_waits = 0;
inline int g_questions = 0;  // each of them would end a capture
inline devrt_ops_v0 g_real;

inline devrt_status IsInCapture(void*, devrt_stream stream, uint32_t* yes) {
  *yes = g_capturing->contains(stream) ? 1 : 0;
  return nullptr;
}
inline constexpr devrt_capture_v0 kCapture = {sizeof(devrt_capture_v0), 0,
                                              &IsInCapture};

class CapturesTest : public ArraysTest {
 protected:
  void SetUp() override {
    ArraysTest::SetUp();
    g_capturing = &capturing_;
    SetTable(&kCapture);
    ops_ = &dev().record()->backend->ops;
    g_real = *ops_;
    ops_->event_record = [](void* self, devrt_event e, devrt_stream s) {
      ++g_records;
      return g_real.event_record(self, e, s);
    };
    ops_->stream_wait_event = [](void* self, devrt_stream s, devrt_event e) {
      ++g_waits;
      return g_real.stream_wait_event(self, s, e);
    };
    ops_->event_query = [](void* self, devrt_event e, uint32_t* done) {
      ++g_questions;
      return g_real.event_query(self, e, done);
    };
    ops_->stream_query = [](void* self, devrt_stream s, uint32_t* done) {
      ++g_questions;
      return g_real.stream_query(self, s, done);
    };
    ops_->event_sync = [](void* self, devrt_event e) {
      ++g_questions;
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
    capturing_.clear();
    *ops_ = g_real;
    ArraysTest::TearDown();
    SetTable(nullptr);
  }

  // With memory in the stream's cache: the allocator is not told here.
  void Begin(StreamRef stream) {
    {
      const StreamGuard on(stream);
      NewArray(stream.device());
    }
    Must(stream.Native());  // as who captures it has it
    capturing_.insert(stream.record()->handle.load());
    g_records = g_waits = g_questions = 0;
  }
  void End(StreamRef stream) {
    capturing_.erase(stream.record()->handle.load());
  }
  static void Expect(int records, int waits) {
    EXPECT_EQ(g_records, records);
    EXPECT_EQ(g_waits, waits);
    EXPECT_EQ(g_questions, 0);
    g_records = g_waits = g_questions = 0;
  }

 private:
  static void SetTable(const devrt_capture_v0* table) {
    for (int i = 0; i < kDevices; ++i) {
      auto* const streams = internal::DeviceStreams::Of(dev(i).record());
      streams->capture.table = table;
    }
  }

  absl::flat_hash_set<devrt_stream> capturing_;
  devrt_ops_v0* ops_ = nullptr;
};

}  // namespace devrt::testing

#endif  // DEVRT_TESTS_ARRAYS_ORDER_CAPTURE_FIXTURE_H_
