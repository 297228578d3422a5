// SPDX-License-Identifier: Apache-2.0
//
// Exports while streams are captured (E44, E45): what has to be
// refused is a BufferError, and nothing else is refused.

#include <optional>

#include "devrt/arrays/cuda_array_interface.h"
#include "devrt/arrays/dlpack.h"
#include "devrt/arrays/dlpack_exchange.h"
#include "streams/common/deferred_deletion.h"
#include "tests/arrays/order/capture_fixture.h"
#include "tests/arrays/order/others.h"

namespace devrt::testing {
namespace {

class ExchangeCaptures : public CapturesTest {
 protected:
  static void ExpectRefused(const absl::Status& status) {
    EXPECT_EQ(GetExchangeError(status), ExchangeError::kBuffer) << status;
    EXPECT_THAT(status.message(), ::testing::HasSubstr("is capturing"));
  }
  static void Release(DLManagedTensorVersioned* t) { t->deleter(t); }
  static DLPackExport For(StreamRef consumer) {
    DLPackExport how;
    how.stream = Others::Handle(consumer);
    return how;
  }
};

// The host has nothing to wait for, whatever captures.
TEST_F(ExchangeCaptures, HostMemoryWithoutUsesIsGivenAway) {
  Stream a = NewStream();
  const Array x = Filled(Place::Pinned(dev()), 4);
  const StreamGuard on(a);
  Begin(a);
  DLManagedTensorVersioned* const t = Must(ToDLPack(x));
  EXPECT_EQ(*static_cast<const int32_t*>(t->dl_tensor.data), 4);
  Release(t);
  const Array y = Filled(Place::Pinned(dev()), 5);
  Release(Must(ToDLPack(y)));
  Expect(0, 0);
}

// Also for a stream that is neither the array's nor current.
// E44
TEST_F(ExchangeCaptures, TheHostCannotWaitForACapturingStream) {
  Stream a = NewStream();
  const Array pinned = Filled(Place::Pinned(dev()), 1);
  const Array x = Filled(dev(), 2);
  ASSERT_OK(Spin(a, kLong));
  {
    const StreamGuard on(a);
    ASSERT_OK(pinned.CopyFrom(x, true));
    ASSERT_OK(x.Fill(3));
  }
  Begin(a);
  ExpectRefused(ToDLPack(pinned).status());
  DLPackExport to_host;
  to_host.dl_device = DLDevice{kDLCPU, 0};
  ExpectRefused(ToDLPack(x, to_host).status());
  to_host.copy = true;
  ExpectRefused(ToDLPack(x, to_host).status());
  Expect(0, 0);
  End(a);
  DLManagedTensorVersioned* const t = Must(ToDLPack(pinned));
  EXPECT_EQ(*static_cast<const int32_t*>(t->dl_tensor.data), 2);
  Release(t);
}

// E44
TEST_F(ExchangeCaptures, ExportThatWaitsForCapturedWorkIsRefused) {
  Stream a = NewStream();
  const Array pinned = Filled(Place::Pinned(dev()), 1);
  const Array x = Filled(dev(), 2);
  Begin(a);
  {
    const StreamGuard on(a);
    ASSERT_OK(pinned.CopyFrom(x, true));
  }
  ExpectRefused(ToDLPack(pinned).status());
  Expect(0, 0);
  // It never ran, and never will.
  End(a);
  Release(Must(ToDLPack(pinned)));
}

// E45
TEST_F(ExchangeCaptures, WorkOfBeforeIsRefused) {
  Stream a = NewStream();
  Stream b = NewStream();
  const AsHip hip;
  const Array x = Filled(dev(), 1);
  ASSERT_OK(Spin(a, kLong));
  {
    const StreamGuard on(a);
    ASSERT_OK(x.Fill(2));
  }
  const StreamGuard on(b);
  const DLPackExport how = For(b);
  // Into a capture, and out of one.
  for (const StreamRef capturing : {b.ref(), a.ref()}) {
    Begin(capturing);
    ExpectRefused(ToDLPack(x, how).status());
    ExpectRefused(ExportNoSync(x).status());
    int64_t strides[1];
    DLTensor t;
    ExpectRefused(BorrowNoSync(x, strides, &t));
    ExpectRefused(ToCudaArrayInterface(x).status());
    Expect(0, 0);
    End(capturing);
  }
  Release(Must(ToDLPack(x, how)));
  internal::RunDeferredArrayReleases();  // before its consumer's stream ends
}

// E44, E45: a copy fails if its export fails, and succeeds after the capture.
TEST_F(ExchangeCaptures, CopiesThatACaptureForbids) {
  Stream a = NewStream();
  Stream b = NewStream();
  const Array x = Filled(dev(), 1);
  const Array busy = Filled(dev(), 2);
  const Array pinned = Filled(Place::Pinned(dev()), 3);
  DLPackExport to_host, to_peer, here, copy = For(a);
  to_host.dl_device = DLDevice{kDLCPU, 0};
  to_peer.dl_device = DLDevice{kDLExtDev, 1};
  here.stream = -1;
  to_host.copy = to_peer.copy = here.copy = copy.copy = true;
  struct Case {
    const Array& array;
    const DLPackExport& how;
  };
  for (const Case& c :
       {Case{x, to_host}, Case{busy, to_host}, Case{busy, to_peer},
        Case{busy, copy}, Case{pinned, here}}) {
    ASSERT_OK(Spin(b, kLong));
    {
      const StreamGuard on(b);
      ASSERT_OK(busy.Fill(4));
    }
    {
      const StreamGuard on(a);
      ASSERT_OK(pinned.CopyFrom(x, true));
      Begin(a);
      const absl::Status status = ToDLPack(c.array, c.how).status();
      EXPECT_EQ(GetExchangeError(status), ExchangeError::kBuffer) << status;
    }
    End(a);
    Release(Must(ToDLPack(c.array, c.how)));
    internal::RunDeferredArrayReleases();
  }
}

// An error that is no matter of captures stays what it is.
// An event stands for it then, as for Release::kRecord.
TEST_F(ExchangeCaptures, AReleaseThatWaitsEndsNoCapture) {
  const AsHip hip;
  ExchangeSettings settings = GetExchangeSettings();
  settings.release = ExchangeSettings::Release::kSync;
  SetExchangeSettings(settings);
  devrt_stream_desc_v0 desc = {};
  desc.struct_size = sizeof desc;
  desc.flags = DEVRT_STREAM_BLOCKING;
  auto* const device = dev().record();
  devrt_stream theirs = nullptr;
  void* native = nullptr;
  ASSERT_EQ(device->ops->stream_create(device->self, 0, &desc, &theirs),
            nullptr);
  ASSERT_EQ(device->ops->stream_native(device->self, theirs, &native), nullptr);
  DLPackExport how;
  how.stream = static_cast<int64_t>(reinterpret_cast<uintptr_t>(native));
  Stream a = NewStream();
  const Array x = Filled(dev(), 1);
  const auto release = [&] {
    DLManagedTensorVersioned* const t = Must(ToDLPack(x, how));
    g_questions = 0;
    Release(t);
    internal::RunPendingReleases();
  };
  release();
  EXPECT_EQ(g_questions, 1);
  {
    const StreamGuard on(a);
    BeginBare(a);
    EXPECT_OK(x.Fill(2));
    release();
    EXPECT_EQ(g_questions, 0);
  }
  // Of a stream that has used the memory, whichever is current.
  release();
  EXPECT_EQ(g_questions, 0);
  End(a);
  release();
  EXPECT_EQ(g_questions, 1);
  DestroyGraphs();
  EXPECT_EQ(device->ops->stream_destroy(device->self, theirs), nullptr);
}

TEST_F(ExchangeCaptures, OtherErrorsAreThemselves) {
  Stream a = NewStream();
  const Array x = Filled(dev(), 1);
  Begin(a);
  const Array y = Filled(dev(), 2);
  ASSERT_OK(LaunchHostFunc(DefaultStream(dev()), [&](absl::Status) {
    const absl::Status status = ToDLPack(x).status();
    EXPECT_EQ(GetExchangeError(status), ExchangeError::kNone) << status;
  }));
  ASSERT_OK(DefaultStream(dev()).Synchronize());
}

TEST_F(ExchangeCaptures, InterfaceOfCapturedArrayNamesTheStream) {
  const AsHip hip;
  Stream a = NewStream();
  Stream b = NewStream();
  const Array x = Filled(dev(), 1);
  const Array idle = Filled(dev(), 1);
  Begin(a);
  Join(b, a);
  {
    const StreamGuard on(a);
    EXPECT_EQ(Must(ToCudaArrayInterface(idle)).stream, std::nullopt);
    ASSERT_OK(x.Fill(2));
    EXPECT_EQ(Must(ToCudaArrayInterface(x)).stream, Others::Handle(a));
    Expect(0, 0);
  }
  const StreamGuard on(b);
  EXPECT_EQ(Must(ToCudaArrayInterface(x)).stream, Others::Handle(b));
  Expect(1, 1);
  // Of a capture that has ended nothing is left.
  End(a);
  End(b);
  EXPECT_EQ(Must(ToCudaArrayInterface(x)).stream, std::nullopt);
}

}  // namespace
}  // namespace devrt::testing
