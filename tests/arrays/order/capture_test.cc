// SPDX-License-Identifier: Apache-2.0
//
// Streams that another library captures into a graph (interop.md, O5 and O6):
// what arrays ask of the backend then.  The simulator captures nothing: it is
// made to say that it does, and what is enqueued runs.

#include <memory>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "devrt/arrays/operations.h"
#include "devrt/streams/internal/device_streams.h"
#include "devrt/streams/internal/stream_record.h"
#include "tests/arrays/order/arrays_fixture.h"

namespace devrt::testing {
namespace {

absl::flat_hash_set<devrt_stream>* g_capturing = nullptr;
int g_records = 0;
int g_waits = 0;
int g_questions = 0;  // each of them would end a capture
devrt_ops_v0 g_real;

devrt_status IsInCapture(void*, devrt_stream stream, uint32_t* yes) {
  *yes = g_capturing->contains(stream) ? 1 : 0;
  return nullptr;
}
constexpr devrt_capture_v0 kCapture = {sizeof(devrt_capture_v0), 0,
                                       &IsInCapture};

class CapturesTest : public ArraysTest {
 protected:
  void SetUp() override {
    ArraysTest::SetUp();
    g_capturing = &capturing_;
    auto& extension = internal::DeviceStreams::Of(dev().record())->capture;
    extension.table = &kCapture;
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
    internal::DeviceStreams::Of(dev().record())->capture.table = nullptr;
  }

  // With memory in the stream's cache: the allocator is not told here.
  void Begin(StreamRef stream) {
    {
      const StreamGuard on(stream);
      NewArray(dev());
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
  absl::flat_hash_set<devrt_stream> capturing_;
  devrt_ops_v0* ops_ = nullptr;
};

TEST_F(CapturesTest, WhatIsCompleteIsNoMatter) {
  Stream a = NewStream();
  Stream b = NewStream();
  const Array x = Filled(dev(), 1);
  {
    const StreamGuard on(a);
    ASSERT_OK(x.Fill(2));
    ASSERT_OK(x.Ready());
  }
  const StreamGuard on(b);
  Begin(b);
  EXPECT_OK(x.Fill(3));
  EXPECT_OK(Add(x, x).status());
  Expect(0, 0);
}

// O6.
TEST_F(CapturesTest, WhatIsNotCompleteIsRefused) {
  Stream a = NewStream();
  Stream b = NewStream();
  Stream c = NewStream();
  const Array x = Filled(dev(), 1);
  const Array y = Filled(dev(), 1);
  ASSERT_OK(Spin(a, kLong));
  {
    const StreamGuard on(a);
    ASSERT_OK(x.Fill(2));
  }
  {
    // There is an event by now that could be asked.
    const StreamGuard on(c);
    ASSERT_OK(y.CopyFrom(x));
  }
  const StreamGuard on(b);
  Begin(b);
  EXPECT_STATUS(x.Fill(3), kFailedPrecondition, "before the capture begins");
  EXPECT_STATUS(Add(x, 1).status(), kFailedPrecondition, "is capturing");
  EXPECT_OK(Array::Empty({4}, kInt32, dev()).status());
  Expect(0, 0);
  End(b);
  EXPECT_OK(x.Fill(3));
  ASSERT_OK(x.Ready());
  EXPECT_TRUE(IsAll(x, 3));
}

TEST_F(CapturesTest, UsesOfOneCaptureBecomeEdges) {
  Stream a = NewStream();
  Stream b = NewStream();
  Begin(a);
  std::optional<Array> x;
  {
    // New memory, too, is used by the capture first.
    const StreamGuard on(a);
    x = NewArray(dev());
    EXPECT_OK(x->Fill(7));
    Expect(0, 0);
  }
  Begin(b);
  const StreamGuard on(b);
  const Array y = NewArray(dev());
  EXPECT_OK(y.OrderBefore(b));
  Expect(0, 0);
  EXPECT_OK(x->OrderBefore(b));
  Expect(1, 1);
}

// Work that runs has nothing to wait for: what is captured does not run.
TEST_F(CapturesTest, CapturedUsesHoldUpNobodyElse) {
  Stream a = NewStream();
  Stream b = NewStream();
  const Array x = Filled(dev(), 1);
  {
    const StreamGuard on(a);
    Begin(a);
    EXPECT_OK(x.Fill(2));
  }
  const StreamGuard on(b);
  EXPECT_OK(x.Fill(3));
  EXPECT_THAT(x.IsReady(), IsOkAndHolds(false));
  g_questions = 0;
  End(a);
  Begin(a);
  // Of an array that ends meanwhile nothing is asked either.
  { const Array view = x.Transpose(); }
  Expect(0, 0);
}

// O5.
TEST_F(CapturesTest, TheHostDoesNotWaitForACapture) {
  Stream a = NewStream();
  Stream b = NewStream();
  const Array x = Filled(Place::Pinned(dev()), 1);
  const Array y = Filled(dev(), 2);
  ASSERT_OK(Spin(a, kLong));
  {
    const StreamGuard on(a);
    ASSERT_OK(x.CopyFrom(y, true));
  }
  {
    // With an event behind it.
    const StreamGuard on(b);
    ASSERT_OK(y.CopyFrom(x, true));
  }
  Begin(a);
  EXPECT_STATUS(x.Ready(), kFailedPrecondition, "is capturing");
  EXPECT_STATUS(x.IsReady().status(), kFailedPrecondition, "is capturing");
  EXPECT_STATUS(x.To(Place::Host()).status(), kFailedPrecondition,
                "is capturing");
  Expect(0, 0);
  End(a);
  EXPECT_OK(x.Ready());
  EXPECT_TRUE(IsAll(x, 2));
}

// Owners that are kept are not asked for by an operation of the capture.
TEST_F(CapturesTest, KeptOwnersStayKept) {
  Stream a = NewStream();
  Stream b = NewStream();
  const Array memory = Filled(dev(), 1);
  auto owner = std::make_shared<int>(0);
  ASSERT_OK(Spin(a, kLong));
  {
    PointerOptions options;
    options.owner = owner;
    const StreamGuard on(a);
    const Array x = Must(
        Array::FromPointer(memory.data(), memory.shape(), kInt32, options));
    ASSERT_OK(x.Fill(2));
  }
  const Array y = Filled(dev(), 1);
  EXPECT_EQ(owner.use_count(), 2);
  const StreamGuard on(b);
  Begin(b);
  EXPECT_OK(y.Fill(2));
  const Array z = NewArray(dev());
  EXPECT_OK(z.Fill(2));
  Expect(0, 0);
}

}  // namespace
}  // namespace devrt::testing
