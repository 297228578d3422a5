// SPDX-License-Identifier: Apache-2.0
//
// What devrt.stream_number/0 tells a plugin of the streams of the calling
// thread's present call.

#include <optional>

#include "devrt/backends/abi/devrt_stream_number.h"
#include "runtime/plugins/host_table.h"
#include "streams/objects/held_stream.h"
#include "streams/objects/ordering.h"
#include "streams/objects/stream_record.h"
#include "tests/support/spy_backend.h"
#include "tests/support/status_matchers.h"

namespace devrt::testing {
namespace {

class StreamNumbers : public ::testing::Test {
 protected:
  void SetUp() override { spy_.Reset(); }
  Stream NewStream() const { return Must(Stream::Create(spy_.device(0))); }
  static devrt_stream HandleOf(StreamRef stream) {
    return stream.record()->handle.load();
  }
  uint64_t NumberOf(devrt_stream handle) const {
    return numbers_->number(host_->host, handle);
  }
  bool MayBeCaptured(devrt_stream handle) const {
    return numbers_->may_be_captured(host_->host, handle) != 0;
  }

  SpyBackend& spy_ = SpyBackend::Get();
  const devrt_host_v0* const host_ = internal::HostTable();
  const devrt_stream_number_v0* const numbers_ =
      static_cast<const devrt_stream_number_v0*>(
          host_->get_extension(host_->host, DEVRT_STREAM_NUMBER_EXTENSION));
};

TEST_F(StreamNumbers, ACallKnowsItsTwoStreams) {
  const Stream a = NewStream(), b = NewStream();
  int asked = 0;
  spy_.OnNext("stream_wait_event", [&] {
    for (const StreamRef s : {a.ref(), b.ref()}) {
      EXPECT_EQ(NumberOf(HandleOf(s)), s.id() + 1);
      EXPECT_FALSE(MayBeCaptured(HandleOf(s)));
      ++asked;
    }
  });
  ASSERT_OK(a.Wait(b));
  EXPECT_EQ(asked, 2);
}

// Another stream may have the handle by then, and calls of devrt's own name no
// stream.
TEST_F(StreamNumbers, NothingIsKnownOfTheHandleOfAStreamThatEnded) {
  std::optional<Stream> s = NewStream();
  const devrt_stream handle = HandleOf(*s);
  Must(s->Native());  // so that the native stream ends with it
  EXPECT_EQ(NumberOf(handle), s->id() + 1);
  EXPECT_FALSE(MayBeCaptured(handle));
  s.reset();
  EXPECT_EQ(NumberOf(handle), 0u);
  EXPECT_TRUE(MayBeCaptured(handle));
}

TEST_F(StreamNumbers, ANativeStreamThatIsUsedAgainHasTheNewNumber) {
  std::optional<Stream> s = NewStream();
  const devrt_stream handle = HandleOf(*s);
  ASSERT_OK(s->Synchronize());
  EXPECT_EQ(NumberOf(handle), s->id() + 1);
  s.reset();
  EXPECT_EQ(NumberOf(handle), 0u);
  const Stream successor = NewStream();
  ASSERT_EQ(HandleOf(successor), handle);
  EXPECT_EQ(NumberOf(handle), successor.id() + 1);
}

TEST_F(StreamNumbers, AnOrderInACaptureKnowsItsStreams) {
  const Stream a = NewStream(), b = NewStream();
  const Stream c = NewStream(), d = NewStream();
  const internal::HeldStream later(a), earlier(b);
  ASSERT_OK(c.Wait(d));
  uint64_t recorded_on = 0, waited_on = 0;
  spy_.OnNext("event_record",
              [&] { recorded_on = NumberOf(earlier.handle()); });
  spy_.OnNext("stream_wait_event",
              [&] { waited_on = NumberOf(later.handle()); });
  ASSERT_OK(internal::OrderInCapture(later, earlier, CallSite{}));
  EXPECT_EQ(recorded_on, b.id() + 1);
  EXPECT_EQ(waited_on, a.id() + 1);
}

}  // namespace
}  // namespace devrt::testing
