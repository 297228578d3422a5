// SPDX-License-Identifier: Apache-2.0
//
// Consumers whose Stream ends before they let go: what keeps the native stream
// (E8, E33, E37), what is asked about it, and what is noted in the end.

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "devrt/arrays/cuda_array_interface.h"
#include "devrt/arrays/dlpack.h"
#include "devrt/arrays/dlpack_exchange.h"
#include "streams/common/deferred_deletion.h"
#include "tests/arrays/order/capture_fixture.h"
#include "tests/arrays/order/others.h"

namespace devrt::testing {
namespace {

// Runs while devrt queries the backend if a stream captures: the test ends an
// object in it.
std::function<void()> g_when_asked;
int g_destroyed = 0;  // native streams, or what devrt has of adopted ones

devrt_status AskedMeanwhile(void*, devrt_stream, uint32_t* yes) {
  if (const auto f = std::exchange(g_when_asked, nullptr)) f();
  *yes = 0;
  return nullptr;
}

class Ended : public CapturesTest {
 protected:
  void SetUp() override {
    CapturesTest::SetUp();
    g_destroyed = 0;
    dev().record()->backend->ops.stream_destroy = [](void* self,
                                                     devrt_stream s) {
      ++g_destroyed;
      return g_real.stream_destroy(self, s);
    };
  }

  static DLManagedTensorVersioned* Export(const Array& x, StreamRef consumer) {
    DLPackExport how;
    how.stream = Others::Handle(consumer);
    return Must(ToDLPack(x, how));
  }
  static DLManagedTensorVersioned* ExportOn(const Array& x, StreamRef stream) {
    const StreamGuard on(stream);
    return Must(ExportNoSync(x));
  }
  static void BorrowOn(const Array& x, StreamRef stream) {
    const StreamGuard on(stream);
    int64_t strides[1];
    DLTensor t;
    Must(BorrowNoSync(x, strides, &t));
  }
  static void Release(DLManagedTensorVersioned* t) {
    t->deleter(t);
    internal::RunDeferredArrayReleases();
  }
  static Stream Adopt(StreamRef theirs, std::shared_ptr<void> owner = {}) {
    return Must(
        Stream::FromNative(dev(), Must(theirs.Native()), std::move(owner)));
  }
};

// E33
TEST_F(Ended, AnExportKeepsTheNativeStream) {
  const Array x = Filled(dev(), 1);
  std::optional<Stream> s = NewStream();
  const StreamRef ref = *s;
  DLManagedTensorVersioned* const t = Export(x, *s);
  DLManagedTensorVersioned* const second = Export(x, *s);
  s.reset();
  EXPECT_STATUS(ref.Synchronize(), kInvalidArgument, "was destroyed");
  EXPECT_EQ(g_destroyed, 0);
  Release(t);
  EXPECT_EQ(g_destroyed, 0);
  Release(second);
  EXPECT_EQ(g_destroyed, 1);
}

// Only devrt has the handle of this stream, so the next Stream gets it.
TEST_F(Ended, StreamsWithUnexposedHandlesAreReused) {
  const Array x = Filled(dev(), 1);
  std::optional<Stream> s = NewStream();
  internal::Timeline* const timeline = internal::TimelineOf(*s);
  DLManagedTensorVersioned* const t = ExportOn(x, *s);
  s.reset();
  const Stream next = NewStream();
  EXPECT_EQ(internal::TimelineOf(next), timeline);
  Release(t);
}

// E37
TEST_F(Ended, AnExportKeepsTheOwner) {
  const Array x = Filled(dev(), 1);
  const Stream theirs = NewStream();
  const auto owner = std::make_shared<int>(1);
  std::optional<Stream> adopted = Adopt(theirs, owner);
  DLManagedTensorVersioned* const t = Export(x, *adopted);
  adopted.reset();
  EXPECT_EQ(owner.use_count(), 2);
  EXPECT_EQ(g_destroyed, 0);
  Release(t);
  EXPECT_EQ(owner.use_count(), 1);
  EXPECT_EQ(g_destroyed, 1);
}

// To its end, which is the array's.
TEST_F(Ended, ABorrowKeepsTheOwner) {
  std::optional<Array> x = Filled(dev(), 1);
  const Stream theirs = NewStream();
  const auto owner = std::make_shared<int>(1);
  std::optional<Stream> adopted = Adopt(theirs, owner);
  BorrowOn(*x, *adopted);
  BorrowOn(*x, *adopted);
  adopted.reset();
  EXPECT_EQ(owner.use_count(), 2);
  x.reset();
  EXPECT_EQ(owner.use_count(), 1);
}

// E14: each stream that was named, the home stream among them.
TEST_F(Ended, AnInterfaceKeepsTheNativeStream) {
  const AsHip hip;
  std::optional<Stream> home = NewStream();
  std::optional<Stream> other = NewStream();
  std::optional<Array> x;
  {
    const StreamGuard on(*home);
    x = Filled(dev(), 1);
    ASSERT_OK(Spin(*home, kLong));
    ASSERT_OK(x->Fill(2));
    // Its handle is given out by this alone.
    EXPECT_TRUE(Must(ToCudaArrayInterface(*x)).stream.has_value());
  }
  {
    const StreamGuard on(*other);
    EXPECT_TRUE(Must(ToCudaArrayInterface(*x)).stream.has_value());
  }
  home.reset();
  other.reset();
  EXPECT_EQ(g_destroyed, 0);
  x.reset();
  ASSERT_OK(dev().Synchronize());
  EXPECT_EQ(g_destroyed, 2);
}

// Without an owner only the setting is left.
TEST_F(Ended, UnownedStreamsFollowTheReleaseSetting) {
  const ExchangeSettings before = GetExchangeSettings();
  ExchangeSettings settings = before;
  const Array x = Filled(dev(), 1);
  const Stream theirs = NewStream();
  using Release = ExchangeSettings::Release;
  for (const Release release : {Release::kTrust, Release::kSync}) {
    settings.release = release;
    SetExchangeSettings(settings);
    std::optional<Stream> adopted = Adopt(theirs);
    DLManagedTensorVersioned* const t = Export(x, *adopted);
    adopted.reset();
    g_questions = 0;
    this->Release(t);
    EXPECT_EQ(g_questions, release == Release::kSync ? 1 : 0);
  }
  SetExchangeSettings(before);
}

// The program ends the Stream while another thread, which does not name it,
// gives the memory back.
TEST_F(Ended, StreamLivesUntilItsCaptureQueryReturns) {
  static devrt_capture_v0 table = kCapture;
  table.stream_is_capturing = &AskedMeanwhile;
  SetTable(&table);
  const Stream theirs = NewStream();
  enum Kind { kNamed, kExposedLater, kAdopted, kUnowned };
  for (const Kind kind : {kNamed, kExposedLater, kAdopted, kUnowned}) {
    for (const bool borrowed : {false, true}) {
      SCOPED_TRACE(::testing::Message() << kind << (borrowed ? " b" : " t"));
      std::optional<Array> x = Filled(dev(), 1);
      std::optional<Stream> s;
      if (kind == kAdopted) {
        s = Adopt(theirs, std::make_shared<int>(1));
      } else if (kind == kUnowned) {
        s = Adopt(theirs);
      } else {
        s = NewStream();
      }
      if (kind == kNamed) Must(s->Native());
      DLManagedTensorVersioned* t = nullptr;
      if (borrowed) {
        BorrowOn(*x, *s);
      } else {
        t = ExportOn(*x, *s);
      }
      Must(s->Native());
      g_destroyed = 0;
      int meanwhile = -1;
      g_when_asked = [&] {
        s.reset();
        meanwhile = g_destroyed;
      };
      if (borrowed) {
        x.reset();
      } else {
        Release(t);
      }
      EXPECT_EQ(meanwhile, 0);
      EXPECT_EQ(g_destroyed, 1);
      g_when_asked = nullptr;
    }
  }
  SetTable(&kCapture);
}

// Its native stream has gone to a Stream that is busy with something else.
TEST_F(Ended, ARecycledStreamIsAnothers) {
  const Array x = Filled(dev(), 1);
  std::optional<Stream> s = NewStream();
  internal::Timeline* const timeline = internal::TimelineOf(*s);
  DLManagedTensorVersioned* const t = ExportOn(x, *s);
  s.reset();
  Stream busy = NewStream();
  ASSERT_EQ(internal::TimelineOf(busy), timeline);
  Flag gate = NewFlag();
  ASSERT_OK(gate.WaitOn(busy));
  Release(t);
  EXPECT_TRUE(Must(x.IsReady()));
  ASSERT_OK(gate.Set());
  ASSERT_OK(busy.Synchronize());
}

// Its timeline has gone to a native stream that is busy with something else.
TEST_F(Ended, ARevivedTimelineIsAnothers) {
  const Array x = Filled(dev(), 1);
  const Stream theirs = NewStream();
  std::optional<Stream> s = Adopt(theirs);
  internal::Timeline* const timeline = internal::TimelineOf(*s);
  DLManagedTensorVersioned* const t = Export(x, *s);
  s.reset();
  ASSERT_OK(dev().Synchronize());
  std::vector<Stream> streams;
  do {
    streams.push_back(NewStream());
  } while (streams.size() < 1000 &&
           internal::TimelineOf(streams.back()) != timeline);
  ASSERT_EQ(internal::TimelineOf(streams.back()), timeline);
  Flag gate = NewFlag();
  ASSERT_OK(gate.WaitOn(streams.back()));
  Release(t);
  EXPECT_TRUE(Must(x.IsReady()));
  ASSERT_OK(gate.Set());
  ASSERT_OK(streams.back().Synchronize());
}

}  // namespace
}  // namespace devrt::testing
