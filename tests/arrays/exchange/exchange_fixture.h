// SPDX-License-Identifier: Apache-2.0
//
// ExchangeTest: four simulated devices, and what exchange tests do with arrays.
//
//   Stream s = NewStream();
//   Array x = NewCell(dev(), 1);             // int64, shape (1,)
//   EXPECT_OK(Store(s, x, 2));               // a use of x, on s
//   EXPECT_EQ(Handle(s), ...);               // as a consumer would say it

#ifndef DEVRT_TESTS_ARRAYS_EXCHANGE_EXCHANGE_FIXTURE_H_
#define DEVRT_TESTS_ARRAYS_EXCHANGE_EXCHANGE_FIXTURE_H_

#include <cstdint>
#include <string>

#include "arrays/storage/storage.h"
#include "arrays/storage/storage_kept.h"
#include "streams/common/deferred_deletion.h"
#include "tests/arrays/exchange/foreign.h"
#include "tests/support/mtia_fixture.h"

namespace devrt::testing {

inline int64_t Handle(StreamRef stream) {
  return static_cast<int64_t>(
      reinterpret_cast<uintptr_t>(Must(stream.Native())));
}

class ExchangeTest : public MtiaTest {
 public:
  ExchangeTest() { internal::CountStoragesFromNow(); }
  // One int64 of that value.
  static Array NewCell(Device device, int64_t value) {
    Array x = Must(Array::Empty({1}, kInt64, Place(device)));
    Must(sim().Poke(x.data(), &value, sizeof value));
    return x;
  }
  static int64_t Peek(const void* pointer) {
    int64_t value = -1;
    EXPECT_OK(sim().Peek(pointer, &value, sizeof value));
    return value;
  }
  // x := value on `stream`, told as a use of x.
  static absl::Status Store(StreamRef stream, const Array& x, int64_t value,
                            uint64_t nanoseconds = 0) {
    absl::Status stored =
        StoreRaw(stream, x.data_as<int64_t>(), value, nanoseconds);
    return stored.ok() ? x.NoteUse(stream) : stored;
  }
  static absl::Status StoreRaw(StreamRef stream, int64_t* to, int64_t value,
                               uint64_t nanoseconds = 0) {
    LaunchOptions options;
    options.name = "store";
    options.duration_ns = nanoseconds;
    return Launch(
        stream, {ReadWrite(to, sizeof *to)},
        [=](const LaunchContext& k) {
          if (int64_t* p = k.Local(to)) *p = value;
        },
        options);
  }
  // Sets `out` to *from as another library does: devrt's arrays do not learn of
  // the use.
  static absl::Status Load(StreamRef stream, const Cell& out,
                           const void* from_bytes) {
    const auto* from = static_cast<const int64_t*>(from_bytes);
    int64_t* const to = out.ptr();
    return Launch(stream, {ReadWrite(to, sizeof *to), Read(from, sizeof *from)},
                  [=](const LaunchContext& k) {
                    const int64_t* source = k.Local(from);
                    int64_t* target = k.Local(to);
                    if (source != nullptr && target != nullptr) {
                      *target = *source;
                    }
                  });
  }
  // Runs the deferred releases of arrays and streams whose work is complete.
  static void Settle() {
    internal::RunDeferredArrayReleases();
    internal::RunPendingReleases();
    internal::RunPendingReleases();
  }
  static std::string ErrorOf(ForeignTensor& foreign) {
    const int before = foreign.released();
    const auto x = FromDLPack(foreign.managed());
    EXPECT_EQ(GetExchangeError(x.status()), ExchangeError::kBuffer);
    EXPECT_EQ(foreign.released(), before);
    return x.ok() ? "imported" : MessageOf(x.status());
  }
  // Checks that no storage is left.  Empties the caches, because the base class
  // checks for memory that is left.
  void TearDown() override {
    // A release by a consumer may end native streams, each with an event.
    for (int round = 0; round < 2; ++round) {
      for (int i = 0; i < 4; ++i) EXPECT_OK(dev(i).Synchronize());
      Settle();
    }
    EXPECT_EQ(internal::CountStorages().live, 0);
    EXPECT_EQ(internal::CountStorages().kept, 0);
    for (int i = 0; i < 4; ++i) EXPECT_OK(EmptyCache(dev(i)));
    EXPECT_OK(EmptyPinnedCache(dev().backend()));
    MtiaTest::TearDown();
  }
  static void Set(ForeignTensor* foreign, int type) {
    foreign->t()->device.device_type = static_cast<DLDeviceType>(type);
  }
};

inline void Release(DLManagedTensorVersioned* tensor) {
  tensor->deleter(tensor);
}

}  // namespace devrt::testing

#endif  // DEVRT_TESTS_ARRAYS_EXCHANGE_EXCHANGE_FIXTURE_H_
