// SPDX-License-Identifier: Apache-2.0
//
// FromDLPack: E60, E61, E11; the bad input of others.

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tests/arrays/exchange/exchange_fixture.h"
#include "tests/arrays/exchange/foreign.h"
#include "tests/arrays/order/others.h"

namespace devrt::testing {
namespace {

using ::testing::HasSubstr;
using Import = ExchangeTest;

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

TEST_F(Import, SharesMemoryAndCallsTheDeleterOnce) {
  ForeignTensor foreign({2, 3}, kDLFloat, 32);
  {
    const Array x = Must(FromDLPack(foreign.managed()));
    EXPECT_EQ(x.data(), foreign.t()->data);
    EXPECT_EQ(x.dtype(), kFloat32);
    EXPECT_EQ(x.place(), Place::Host());
    EXPECT_FALSE(x.read_only());
    EXPECT_TRUE(x.IsContiguous());
    const Array view = Must(x.Index(0, 1));
    EXPECT_EQ(foreign.released(), 0);
  }
  Settle();
  EXPECT_EQ(foreign.released(), 1);
}

TEST_F(Import, LegacyTensorsAreWritableUnlessTheCallerSaysOtherwise) {
  LegacyForeignTensor writable({4}, kDLInt, 64);
  EXPECT_FALSE(Must(FromDLPack(writable.managed())).read_only());
  LegacyForeignTensor immutable({4}, kDLInt, 64);
  DLPackImport how;
  how.read_only = true;
  EXPECT_TRUE(Must(FromDLPack(immutable.managed(), how)).read_only());
}

// E10
TEST_F(Import, ReadOnlyIsKept) {
  ForeignTensor foreign({4}, kDLInt, 64);
  foreign.managed()->flags = DLPACK_FLAG_BITMASK_READ_ONLY;
  EXPECT_TRUE(Must(FromDLPack(foreign.managed())).read_only());
}

// E11
TEST_F(Import, NullDeleterNullStridesAndByteOffset) {
  ForeignTensor foreign({2, 3}, kDLFloat, 32);
  foreign.managed()->deleter = nullptr;
  foreign.t()->byte_offset = 8;
  const Array x = Must(FromDLPack(foreign.managed()));
  EXPECT_EQ(x.data(), static_cast<char*>(foreign.t()->data) + 8);
  EXPECT_TRUE(x.IsContiguous());
}

TEST_F(Import, ScalarsNeedNoShape) {
  ForeignTensor foreign({}, kDLFloat, 64);
  foreign.t()->shape = nullptr;
  const Array x = Must(FromDLPack(foreign.managed()));
  EXPECT_EQ(x.ndim(), 0);
  EXPECT_EQ(x.size(), 1);
}

TEST_F(Import, WithoutElementsTheAddressAndTheStridesMeanNothing) {
  ForeignTensor foreign({0, 3}, kDLFloat, 32);
  foreign.t()->data = nullptr;
  foreign.t()->byte_offset = UINT64_MAX;
  foreign.SetStrides({kMost, kMost});
  const Array x = Must(FromDLPack(foreign.managed()));
  EXPECT_EQ(x.data(), nullptr);
  EXPECT_EQ(x.size(), 0);
}

TEST_F(Import, NegativeStridesAndBroadcasts) {
  ForeignTensor foreign({3}, kDLInt, 32);
  foreign.t()->byte_offset = 8;
  foreign.SetStrides({-1});
  const Array x = Must(FromDLPack(foreign.managed()));
  EXPECT_EQ(x.strides()[0], -4);
  ForeignTensor one({1000}, kDLInt, 8);
  one.SetStrides({0});
  EXPECT_EQ(Must(FromDLPack(one.managed())).strides()[0], 0);
}

TEST_F(Import, StridesOfSingleExtentsMeanNothing) {
  ForeignTensor foreign({1, 3}, kDLInt, 64);
  foreign.SetStrides({kMost, 1});
  EXPECT_TRUE(Must(FromDLPack(foreign.managed())).IsContiguous());
}

TEST_F(Import, ALargerMinorIsRead) {
  ForeignTensor foreign({1}, kDLInt, 8);
  foreign.managed()->version = {1, 99};
  EXPECT_OK(FromDLPack(foreign.managed()));
}

struct BadTensor {
  const char* name;
  std::function<void(ForeignTensor*)> spoil;
  const char* text;
};

// Expects that the error names the fault and that the caller keeps the tensor:
// devrt does not call its deleter.
void ExpectRefused(const std::vector<BadTensor>& table) {
  for (const BadTensor& bad : table) {
    ForeignTensor foreign({2, 3}, kDLFloat, 32);
    bad.spoil(&foreign);
    const auto x = FromDLPack(foreign.managed());
    ASSERT_FALSE(x.ok()) << bad.name;
    EXPECT_EQ(GetExchangeError(x.status()), ExchangeError::kBuffer)
        << bad.name << ": " << x.status();
    EXPECT_THAT(std::string(x.status().message()), HasSubstr(bad.text))
        << bad.name;
    EXPECT_EQ(foreign.released(), 0) << bad.name;
  }
}

TEST_F(Import, RefusesBadVersionsAndShapes) {
  ExpectRefused({
      {"major 0", [](auto* f) { f->managed()->version.major = 0; },
       "version 0"},
      {"major 2", [](auto* f) { f->managed()->version.major = 2; },
       "version 2"},
      {"ndim -1", [](auto* f) { f->t()->ndim = -1; }, "ndim is -1"},
      {"ndim 33", [](auto* f) { f->t()->ndim = 33; }, "ndim is 33"},
      {"no shape", [](auto* f) { f->t()->shape = nullptr; }, "shape is null"},
      {"extent -1", [](auto* f) { f->t()->shape[0] = -1; }, "-1"},
      {"too many", [](auto* f) { f->t()->shape[0] = kMost; }, ""},
      {"too many beside 0",
       [](auto* f) {
         f->t()->shape[0] = 0;
         f->t()->shape[1] = kMost;
       },
       "2^63 - 1 bytes"},
      {"null data", [](auto* f) { f->t()->data = nullptr; }, "data is null"},
  });
  EXPECT_EQ(FromDLPack(static_cast<DLManagedTensor*>(nullptr)).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(Import, RefusesUnsupportedDtypes) {
  ExpectRefused({
      {"lanes 2", [](auto* f) { f->t()->dtype.lanes = 2; }, "lanes"},
      {"lanes 0", [](auto* f) { f->t()->dtype.lanes = 0; }, "lanes"},
      {"fp4",
       [](auto* f) {
         f->t()->dtype = {kDLFloat4_e2m1fn, 4, 1};
       },
       ""},
      {"fp6",
       [](auto* f) {
         f->t()->dtype = {kDLFloat6_e2m3fn, 6, 1};
       },
       ""},
      {"int4",
       [](auto* f) {
         f->t()->dtype = {kDLInt, 4, 1};
       },
       ""},
      {"opaque", [](auto* f) { f->t()->dtype.code = kDLOpaqueHandle; }, ""},
      {"code 200", [](auto* f) { f->t()->dtype.code = 200; }, ""},
      {"float128", [](auto* f) { f->t()->dtype.bits = 128; }, ""},
  });
}

TEST_F(Import, RefusesStridesOutsideTheAddressSpace) {
  ExpectRefused({
      // CuPy's float32 a[::-1]: -4 divided as an unsigned number.
      {"stride of cupy",
       [](auto* f) {
         f->SetStrides({4611686018427387903, 1});
       },
       ""},
      // In bytes, but for the carry, those of C order.
      {"stride that wraps",
       [](auto* f) {
         f->SetStrides({3 + (int64_t{1} << 62), 1});
       },
       "stride"},
      {"stride least",
       [](auto* f) {
         f->SetStrides({std::numeric_limits<int64_t>::min(), 1});
       },
       "stride"},
      {"span",
       [](auto* f) {
         f->SetStrides({kMost / 4, 1});
       },
       ""},
      {"below address 0",
       [](auto* f) {
         f->t()->data = reinterpret_cast<void*>(uintptr_t{16});
         f->SetStrides({-8, 1});
       },
       "address space"},
      {"offset", [](auto* f) { f->t()->byte_offset = UINT64_MAX - 8; },
       "address space"},
  });
}

TEST_F(Import, RefusesUnknownDevices) {
  ExpectRefused({
      {"device 0", [](auto* f) { Set(f, 0); }, "device type 0"},
      {"device metal", [](auto* f) { Set(f, kDLMetal); }, "device type 8"},
      {"device 99", [](auto* f) { Set(f, 99); }, "device type 99"},
      {"device -1", [](auto* f) { Set(f, -1); }, "device type -1"},
      {"device cuda", [](auto* f) { Set(f, kDLCUDA); }, "(2, 0)"},
      {"device rocm", [](auto* f) { Set(f, kDLROCM); }, "(10, 0)"},
      {"host memory as ext", [](auto* f) { Set(f, kDLExtDev); },
       "no backend knows it"},
  });
}

TEST_F(Import, CopyHappensOnlyIfAllowed) {
  ForeignTensor kept({4}, kDLInt, 64);
  DLPackImport how;
  how.place = Place(dev(1));
  how.copy = false;
  const auto refused = FromDLPack(kept.managed(), how);
  EXPECT_EQ(GetExchangeError(refused.status()), ExchangeError::kCopyRequired);
  EXPECT_EQ(kept.released(), 0);

  how.copy.reset();
  const Array there = Must(FromDLPack(kept.managed(), how));
  EXPECT_EQ(there.place(), Place(dev(1)));
  Settle();
  EXPECT_EQ(kept.released(), 1);

  ForeignTensor copied({4}, kDLInt, 64);
  how = {};
  how.copy = true;
  const Array copy = Must(FromDLPack(copied.managed(), how));
  EXPECT_NE(copy.data(), copied.t()->data);
  Settle();
  EXPECT_EQ(copied.released(), 1);
}

// The struct's device decides, as far as the driver does not deny it.
TEST_F(Import, DeviceMemoryIsLookedUp) {
  const Array own = Must(Array::Empty({4, 4}, kFloat32, Place(dev(2))));
  ForeignTensor foreign({4, 4}, kDLFloat, 32);
  foreign.t()->data = own.data();
  foreign.t()->device = {kDLExtDev, 2};
  {
    const Array x = Must(FromDLPack(foreign.managed()));
    EXPECT_EQ(x.place(), Place(dev(2)));
    EXPECT_EQ(x.home_stream(), CurrentStream(dev(2)));
  }
  Settle();
  EXPECT_EQ(foreign.released(), 1);

  foreign.t()->device.device_id = 1;
  EXPECT_THAT(ErrorOf(foreign), HasSubstr("(12, 1)"));
  foreign.t()->device.device_id = 2;
  foreign.t()->byte_offset = 16;  // beyond the block
  EXPECT_THAT(ErrorOf(foreign), HasSubstr("block"));
  foreign.t()->byte_offset = 0;
  foreign.t()->device = {kDLCPU, 0};
  EXPECT_THAT(ErrorOf(foreign), HasSubstr("said to be host memory"));
}

TEST_F(Import, FreedMemoryInTheCacheIsRefused) {
  ForeignTensor foreign({1}, kDLInt, 64);
  foreign.t()->device = {kDLExtDev, 0};
  foreign.t()->data = Must(Array::Empty({1}, kInt64, Place(dev()))).data();
  EXPECT_THAT(ErrorOf(foreign), HasSubstr("in no block that is alive"));
}

TEST_F(Import, PinnedMemoryComesAsHostMemory) {
  const Array own = Must(Array::Empty({8}, kInt8, Place::Pinned(dev())));
  ForeignTensor foreign({8}, kDLInt, 8);
  foreign.t()->data = own.data();
  EXPECT_EQ(Must(FromDLPack(foreign.managed())).place(), Place::Host());
}

// An exporter names no stream for pinned memory, so the host waits for none
// (E43).
TEST_F(Import, PinnedMemoryHasOnlyNamedUses) {
  const AsHip hip;
  const Array own = Must(Array::Empty({8}, kInt8, Place::Pinned(dev())));
  ForeignTensor foreign({8}, kDLInt, 8), named({8}, kDLInt, 8);
  foreign.t()->data = named.t()->data = own.data();
  foreign.t()->device = named.t()->device = {kDLROCMHost, 0};
  DLPackExport unordered;
  unordered.stream = -1;
  Flag gate = NewFlag();
  Stream s = NewStream();
  EXPECT_OK(gate.WaitOn(s));
  {
    const StreamGuard on(s);
    const Array x = Must(FromDLPack(foreign.managed()));
    EXPECT_EQ(x.place(), Place::Pinned(dev()));
    EXPECT_EQ(x.home_stream(), std::nullopt);
    EXPECT_THAT(x.IsReady(), IsOkAndHolds(true));
    const Array back = Must(FromDLPack(Must(ToDLPack(own, unordered))));
    EXPECT_TRUE(back.SharesStorage(own));
    EXPECT_THAT(back.IsReady(), IsOkAndHolds(true));
    DLPackImport how;
    how.stream = s;
    const Array told = Must(FromDLPack(named.managed(), how));
    EXPECT_EQ(told.home_stream(), s.ref());
    EXPECT_THAT(told.IsReady(), IsOkAndHolds(false));
  }
  EXPECT_OK(gate.Set());
  EXPECT_OK(s.Synchronize());
}

TEST_F(Import, AddressesAreNamedAsHexadecimal) {
  ForeignTensor foreign({8}, kDLInt, 8);
  foreign.t()->device = {kDLExtDev, 0};
  EXPECT_THAT(ErrorOf(foreign), HasSubstr("address 0x"));
  foreign.t()->device = {kDLCPU, 0};
  foreign.t()->byte_offset = ~uint64_t{0};
  EXPECT_THAT(ErrorOf(foreign), HasSubstr("data 0x"));
}

TEST_F(Import, AStreamIsOfTheMemorysDevice) {
  ForeignTensor foreign({8}, kDLInt, 8);
  DLPackImport how;
  how.stream = DefaultStream(dev());
  const auto x = FromDLPack(foreign.managed(), how);
  EXPECT_EQ(x.status().code(), absl::StatusCode::kInvalidArgument);
}

// E36, E32: released when the last use is over, without a lock and once.
// E36
TEST_F(Import, TheProducerIsKeptForPendingUses) {
  const Array own = Must(Array::Empty({1}, kInt64, Place(dev())));
  ForeignTensor foreign({1}, kDLInt, 64);
  foreign.t()->data = own.data();
  foreign.t()->device = {kDLExtDev, 0};
  Flag gate = NewFlag();
  Stream s = NewStream();
  {
    const Array x = Must(FromDLPack(foreign.managed()));
    EXPECT_OK(gate.WaitOn(s));
    EXPECT_OK(x.NoteUse(s));
  }
  Settle();
  EXPECT_EQ(foreign.released(), 0);
  EXPECT_OK(gate.Set());
  EXPECT_OK(s.Synchronize());
  Settle();
  EXPECT_EQ(foreign.released(), 1);
}

}  // namespace
}  // namespace devrt::testing
