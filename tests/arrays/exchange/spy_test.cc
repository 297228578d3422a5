// SPDX-License-Identifier: Apache-2.0
//
// Which calls an exchange makes: none where nothing is to be ordered (E40), and
// none by a deleter (E29).

#include <cstdint>
#include <optional>

#include "devrt/devrt.h"
#include "streams/common/deferred_deletion.h"
#include "tests/support/spy_backend.h"
#include "tests/support/status_matchers.h"

namespace devrt::testing {
namespace {

int CountOrders(const SpyBackend& spy) {
  return spy.Count("event_record") + spy.Count("stream_wait_event") +
         spy.Count("event_create") + spy.Count("stream_sync") +
         spy.Count("device_sync") + spy.Count("event_sync");
}

class ExchangeCalls : public ::testing::Test {
 protected:
  void SetUp() override {
    spy_.Reset();
    spy_.SetMemory(uint64_t{64} << 20);
    device_ = spy_.device(0);
  }
  void TearDown() override {
    internal::RunDeferredArrayReleases();
    EXPECT_OK(device_->Synchronize());
    EXPECT_OK(EmptyCache(*device_));
    spy_.SetBusy(false);
  }

  SpyBackend& spy_ = SpyBackend::Get();
  std::optional<Device> device_;
};

// E40
TEST_F(ExchangeCalls, ExchangeOnTheArraysStreamMakesNoCalls) {
  Stream s = Must(Stream::Create(*device_));
  StreamGuard on_s(s);
  const Array x = Must(Array::Empty({4}, kFloat32, Place(*device_)));
  spy_.SetBusy(true);
  EXPECT_OK(x.NoteUse(s));
  DLPackExport how;
  how.stream = reinterpret_cast<intptr_t>(Must(s.Native()));
  const int before = CountOrders(spy_);
  for (int i = 0; i < 3; ++i) {
    DLManagedTensorVersioned* const t = Must(ToDLPack(x, how));
    const Array back = Must(FromDLPack(t));
    EXPECT_TRUE(back.SharesStorage(x));
    DLManagedTensorVersioned* const again = Must(ExportNoSync(x));
    again->deleter(again);
  }
  internal::RunDeferredArrayReleases();
  EXPECT_EQ(CountOrders(spy_), before);
}

TEST_F(ExchangeCalls, FirstExchangeOnAnotherStreamRecordsOneEvent) {
  Stream s = Must(Stream::Create(*device_));
  Stream other = Must(Stream::Create(*device_));
  StreamGuard on_s(s);
  const Array x = Must(Array::Empty({4}, kFloat32, Place(*device_)));
  spy_.SetBusy(true);
  EXPECT_OK(x.NoteUse(s));
  DLPackExport how;
  how.stream = reinterpret_cast<intptr_t>(Must(other.Native()));
  DLManagedTensorVersioned* const first = Must(ToDLPack(x, how));
  EXPECT_EQ(spy_.Count("stream_wait_event"), 1);
  EXPECT_EQ(spy_.Count("event_sync") + spy_.Count("stream_sync"), 0);
  DLManagedTensorVersioned* const second = Must(ToDLPack(x, how));
  EXPECT_EQ(spy_.Count("stream_wait_event"), 1);
  // E29
  const int before = CountOrders(spy_);
  first->deleter(first);
  second->deleter(second);
  EXPECT_EQ(CountOrders(spy_), before);
}

TEST_F(ExchangeCalls, StreamMinusOneOrdersNothing) {
  Stream s = Must(Stream::Create(*device_));
  const Array x = Must(Array::Empty({4}, kFloat32, Place(*device_)));
  spy_.SetBusy(true);
  EXPECT_OK(x.NoteUse(s));
  DLPackExport how;
  how.stream = -1;
  const int before = CountOrders(spy_);
  DLManagedTensorVersioned* const t = Must(ToDLPack(x, how));
  EXPECT_EQ(CountOrders(spy_), before);
  t->deleter(t);
}

// Without the extension: device memory is ExtDev, pinned memory the host's.
TEST_F(ExchangeCalls, ABackendThatSaysNothingIsExtDev) {
  EXPECT_EQ(DLPackDevice(Place(*device_)).device_type, kDLExtDev);
  EXPECT_EQ(DLPackDevice(Place::Pinned(*device_)).device_type, kDLCPU);
  EXPECT_EQ(DLPackDevice(Place::Managed(*device_)).device_type, kDLExtDev);
}

}  // namespace
}  // namespace devrt::testing
