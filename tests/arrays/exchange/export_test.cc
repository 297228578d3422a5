// SPDX-License-Identifier: Apache-2.0
//
// ToDLPack: the tables of E49 and E50, and E1, E10.

#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

#include "tests/arrays/exchange/exchange_fixture.h"
#include "tests/arrays/order/others.h"
#include "tests/support/mtia_fixture.h"

namespace devrt::testing {
namespace {

using ::testing::HasSubstr;
using Export = ExchangeTest;

constexpr DLDevice kCpu = {kDLCPU, 0};

DLPackExport To(DLDevice device, std::optional<bool> copy = {}) {
  DLPackExport how;
  how.dl_device = device;
  how.copy = copy;
  return how;
}

DLDevice Ext(int32_t index) { return {kDLExtDev, index}; }

void ExpectDevice(const DLManagedTensorVersioned* t, DLDevice device) {
  EXPECT_EQ(t->dl_tensor.device.device_type, device.device_type);
  EXPECT_EQ(t->dl_tensor.device.device_id, device.device_id);
}

// E1
TEST_F(Export, EachPlaceHasItsPair) {
  EXPECT_EQ(DLPackDevice(Place::Host()).device_type, kDLCPU);
  EXPECT_EQ(DLPackDevice(Place(dev(2))).device_type, kDLExtDev);
  EXPECT_EQ(DLPackDevice(Place(dev(2))).device_id, 2);
  // mtia's pinned memory is the host's to everybody.
  EXPECT_EQ(DLPackDevice(Place::Pinned(dev(2))).device_type, kDLCPU);
  EXPECT_EQ(DLPackDevice(Place::Pinned(dev(2))).device_id, 0);
}

// The memory of a tensor that was released serves the next one, which may have
// more axes or fewer.
TEST_F(Export, TensorsOfAnyNumberOfAxesFollowEachOther) {
  for (const size_t axes : {6u, 2u, 5u, 32u, 1u, 6u, 0u}) {
    const std::vector<int64_t> shape(axes, 1);
    const Array x = Must(Array::Empty(shape, kFloat32, Place(dev(1))));
    DLManagedTensorVersioned* const first = Must(ToDLPack(x));
    DLManagedTensorVersioned* const second = Must(ToDLPack(x));
    for (const auto* t : {first, second}) {
      ASSERT_EQ(t->dl_tensor.ndim, static_cast<int32_t>(axes));
      for (size_t i = 0; i < axes; ++i) {
        EXPECT_EQ(t->dl_tensor.shape[i], 1);
        EXPECT_EQ(t->dl_tensor.strides[i], 1);
      }
    }
    second->deleter(second);
    first->deleter(first);
  }
}

// E10
TEST_F(Export, FieldsDescribeTheView) {
  const Array x = Must(Array::Empty({2, 3, 4}, kFloat32, Place(dev(1))));
  const Array view = Must(Must(x.Permute({2, 0, 1})).SliceAxis(1, {1, {}, 1}));
  DLManagedTensorVersioned* const t = Must(ToDLPack(view));
  EXPECT_EQ(t->version.major, 1u);
  EXPECT_EQ(t->version.minor, 3u);
  EXPECT_EQ(t->flags, 0u);
  EXPECT_NE(t->deleter, nullptr);
  ExpectDevice(t, Ext(1));
  EXPECT_EQ(t->dl_tensor.data, view.data());
  EXPECT_EQ(t->dl_tensor.byte_offset, 0u);
  ASSERT_EQ(t->dl_tensor.ndim, 3);
  EXPECT_EQ(std::vector<int64_t>(t->dl_tensor.shape, t->dl_tensor.shape + 3),
            (std::vector<int64_t>{4, 1, 3}));
  EXPECT_EQ(t->dl_tensor.strides[0], 1);
  EXPECT_EQ(t->dl_tensor.strides[2], 4);
  Release(t);
}

TEST_F(Export, WithoutElementsTheAddressIsNull) {
  const Array x = Must(Array::Empty({0, 3}, kFloat32, Place::Host()));
  DLManagedTensorVersioned* const t = Must(ToDLPack(x));
  EXPECT_EQ(t->dl_tensor.data, nullptr);
  EXPECT_NE(t->dl_tensor.strides, nullptr);
  const Array back = Must(FromDLPack(t));
  EXPECT_EQ(back.shape(), x.shape());
}

TEST_F(Export, EveryDtypeSurvivesARoundTrip) {
  for (const DType dtype : DType::All()) {
    for (const Place& place : {Place::Host(), Place(dev(3))}) {
      const Array x = Must(Array::Empty({2, 3}, dtype, place));
      DLManagedTensorVersioned* const t = Must(ToDLPack(x));
      EXPECT_EQ(t->dl_tensor.dtype.code, dtype.dlpack_code());
      EXPECT_EQ(t->dl_tensor.dtype.bits, dtype.size() * 8);
      EXPECT_EQ(t->dl_tensor.dtype.lanes, 1);
      const Array back = Must(FromDLPack(t));
      EXPECT_EQ(back.dtype(), dtype);
      EXPECT_EQ(back.data(), x.data());
      EXPECT_TRUE(back.SharesStorage(x));
    }
  }
}

TEST_F(Export, EveryLayoutSurvivesARoundTrip) {
  const Array x = Must(Array::Empty({4, 6}, kInt16, Place::Host()));
  const std::vector<Array> views = {
      x,
      x.Transpose(),
      Must(x.SliceAxis(1, {std::nullopt, std::nullopt, 2})),
      Must(x.SliceAxis(0, {2, {}, 1})),
      Must(Must(x.SliceAxis(0, {0, 1, 1})).BroadcastTo({5, 6})),
      Must(Must(x.Index(0, 1)).Index(0, 2)),
  };
  for (const Array& view : views) {
    const Array back = Must(FromDLPack(Must(ToDLPack(view))));
    EXPECT_EQ(back.shape(), view.shape());
    EXPECT_EQ(back.data(), view.data());
    for (int i = 0; i < view.ndim(); ++i) {
      const auto axis = static_cast<size_t>(i);
      if (view.shape()[axis] == 1) continue;
      EXPECT_EQ(back.strides()[axis], view.strides()[axis]);
    }
  }
}

TEST_F(Export, NegativeStridesNeedACopy) {
  const Array x = Must(Array::Empty({4}, kInt32, Place(dev())));
  const Array back = Must(x.SliceAxis(0, {std::nullopt, std::nullopt, -1}));
  const auto refused = ToDLPack(back);
  EXPECT_EQ(GetExchangeError(refused.status()), ExchangeError::kBuffer);
  EXPECT_THAT(MessageOf(refused.status()), HasSubstr("copy=true"));
  DLPackExport how;
  how.copy = true;
  DLManagedTensorVersioned* const t = Must(ToDLPack(back, how));
  EXPECT_EQ(t->dl_tensor.strides[0], 1);
  Release(t);
}

TEST_F(Export, ReadOnlyIsAFlagThatLegacyLacks) {
  const Array x = Must(Array::Empty({4}, kInt32, Place(dev()))).AsReadOnly();
  DLManagedTensorVersioned* const t = Must(ToDLPack(x));
  EXPECT_EQ(t->flags, DLPACK_FLAG_BITMASK_READ_ONLY);
  EXPECT_TRUE(Must(FromDLPack(t)).read_only());
  EXPECT_EQ(GetExchangeError(ToDLPackLegacy(x).status()),
            ExchangeError::kBuffer);
  DLPackExport how;
  how.copy = true;
  DLManagedTensor* const copy = Must(ToDLPackLegacy(x, how));
  EXPECT_FALSE(Must(FromDLPack(copy)).read_only());
}

// A DLTensor has no flags; E51 for what cannot say so.
TEST_F(Export, ABorrowedTensorCannotSayReadOnly) {
  const Array x = Must(Array::Empty({4}, kInt32, Place(dev())));
  const Stream s = NewStream();
  EXPECT_OK(x.NoteUse(s));
  int64_t strides[1];
  DLTensor t = {};
  const absl::Status refused = BorrowNoSync(x.AsReadOnly(), strides, &t);
  EXPECT_EQ(GetExchangeError(refused), ExchangeError::kBuffer) << refused;
  EXPECT_THAT(MessageOf(refused), HasSubstr("read-only"));
  EXPECT_EQ(t.data, nullptr);

  devrt_array* const handle = WrapArray(x.AsReadOnly());
  const DLPackExchangeAPI* const api = devrt_exchange_api_v0();
  EXPECT_EQ(api->dltensor_from_py_object_no_sync(handle, &t), -1);
  EXPECT_THAT(devrt_exchange_last_error_v0(), HasSubstr("read-only"));
  devrt_array_release_v0(handle);
  EXPECT_OK(BorrowNoSync(x, strides, &t));
}

TEST_F(Export, StructFollowsTheConsumersVersion) {
  EXPECT_FALSE(WantsVersioned(std::nullopt));
  EXPECT_FALSE(WantsVersioned(DLPackVersion{0, 8}));
  EXPECT_TRUE(WantsVersioned(DLPackVersion{1, 0}));
  EXPECT_TRUE(WantsVersioned(DLPackVersion{2, 0}));
}

// Rows of the result table, one after the other.

TEST_F(Export, RowOwnDevice) {
  const Array x = NewCell(dev(), 5);
  for (const auto copy : {std::optional<bool>(), std::optional<bool>(false)}) {
    DLManagedTensorVersioned* const t = Must(ToDLPack(x, To(Ext(0), copy)));
    EXPECT_EQ(t->dl_tensor.data, x.data());
    Release(t);
  }
  DLManagedTensorVersioned* const t = Must(ToDLPack(x, To(Ext(0), true)));
  EXPECT_NE(t->dl_tensor.data, x.data());
  EXPECT_EQ(t->flags, DLPACK_FLAG_BITMASK_IS_COPIED);
  EXPECT_OK(dev().Synchronize());
  EXPECT_EQ(Peek(t->dl_tensor.data), 5);
  Release(t);
}

TEST_F(Export, RowHostFromPinnedMemorySharesTheMemory) {
  const Array x = Must(Array::Empty({3}, kInt64, Place::Pinned(dev())));
  for (const auto copy : {std::optional<bool>(), std::optional<bool>(false)}) {
    DLManagedTensorVersioned* const t = Must(ToDLPack(x, To(kCpu, copy)));
    EXPECT_EQ(t->dl_tensor.data, x.data());
    ExpectDevice(t, kCpu);
    Release(t);
  }
  DLManagedTensorVersioned* const t = Must(ToDLPack(x, To(kCpu, true)));
  EXPECT_NE(t->dl_tensor.data, x.data());
  EXPECT_EQ(t->flags, DLPACK_FLAG_BITMASK_IS_COPIED);
  Release(t);
}

TEST_F(Export, RowHostFromDeviceMemoryIsACopy) {
  const Array x = NewCell(dev(), 6);
  EXPECT_EQ(GetExchangeError(ToDLPack(x, To(kCpu, false)).status()),
            ExchangeError::kCopyRequired);
  DLManagedTensorVersioned* const t = Must(ToDLPack(x, To(kCpu)));
  ExpectDevice(t, kCpu);
  EXPECT_EQ(t->flags, DLPACK_FLAG_BITMASK_IS_COPIED);
  EXPECT_EQ(*static_cast<int64_t*>(t->dl_tensor.data), 6);
  Release(t);
}

TEST_F(Export, RowAnotherDeviceOfItsType) {
  const Array x = NewCell(dev(), 7);
  EXPECT_EQ(GetExchangeError(ToDLPack(x, To(Ext(1), false)).status()),
            ExchangeError::kCopyRequired);
  Stream s = NewStream(dev(1));
  DLPackExport how = To(Ext(1));
  how.stream = Handle(s);  // read on device 1
  DLManagedTensorVersioned* const t = Must(ToDLPack(x, how));
  ExpectDevice(t, Ext(1));
  Cell out(dev(1));
  EXPECT_OK(Load(s, out, t->dl_tensor.data));
  EXPECT_OK(s.Synchronize());
  EXPECT_EQ(out.Peek(), 7);
  Release(t);
  Settle();
}

TEST_F(Export, RowOfOtherDevicesIsRefused) {
  const Array x = NewCell(dev(), 8);
  const Array host = Must(Array::Empty({1}, kInt8, Place::Host()));
  for (const auto copy : {std::optional<bool>(), std::optional<bool>(true),
                          std::optional<bool>(false)}) {
    EXPECT_EQ(GetExchangeError(ToDLPack(x, To(Ext(4), copy)).status()),
              ExchangeError::kBuffer);
    EXPECT_EQ(GetExchangeError(ToDLPack(x, To(Ext(-1), copy)).status()),
              ExchangeError::kBuffer);
    EXPECT_EQ(GetExchangeError(ToDLPack(x, To({kDLCUDA, 0}, copy)).status()),
              ExchangeError::kBuffer);
    EXPECT_EQ(GetExchangeError(ToDLPack(host, To(Ext(0), copy)).status()),
              ExchangeError::kBuffer);
    EXPECT_EQ(GetExchangeError(ToDLPack(host, To({kDLCPU, 1}, copy)).status()),
              ExchangeError::kBuffer);
  }
}

// Rows of the stream table that a machine without a GPU has.

TEST_F(Export, StreamsOfHostMemory) {
  const Array x = Must(Array::Empty({1}, kInt8, Place::Host()));
  for (const int64_t stream :
       {int64_t{0}, int64_t{1}, int64_t{2}, int64_t{12345}, int64_t{-2}}) {
    DLPackExport how;
    how.stream = stream;
    EXPECT_STATUS(ToDLPack(x, how), kInvalidArgument, "stream");
  }
  DLPackExport how;
  how.stream = -1;
  Release(Must(ToDLPack(x, how)));
}

TEST_F(Export, StreamsOfTheSimulator) {
  Stream live = NewStream();
  Stream other = NewStream(dev(1));
  const Array x = NewCell(dev(), 1);
  const auto status = [&](std::optional<int64_t> stream) {
    DLPackExport how;
    how.stream = stream;
    auto t = ToDLPack(x, how);
    if (t.ok()) Release(*t);
    return t.status();
  };
  EXPECT_OK(status(std::nullopt));
  EXPECT_OK(status(-1));
  EXPECT_OK(status(0));
  EXPECT_OK(status(Handle(live)));
  EXPECT_STATUS(status(1), kInvalidArgument, "no live stream");
  EXPECT_STATUS(status(2), kInvalidArgument, "no live stream");
  EXPECT_STATUS(status(-2), kInvalidArgument, "-1 (no order)");
  EXPECT_STATUS(status(std::numeric_limits<int64_t>::min()), kInvalidArgument,
                "-1 (no order)");
  EXPECT_STATUS(status(Handle(other)), kInvalidArgument, "no live stream");
  int64_t ended = 0;
  {
    Stream gone = NewStream();
    ended = Handle(gone);
    EXPECT_OK(status(ended));
  }
  EXPECT_STATUS(status(ended), kInvalidArgument, "no live stream");
}

// Consumers pass their stream for pinned memory, too, where its type is not the
// host's.
TEST_F(Export, PinnedMemoryIsCopiedWhateverTheStream) {
  const AsHip hip;
  Stream s = NewStream();
  const Array x = Must(Array::Empty({2}, kInt64, Place::Pinned(dev())));
  ASSERT_OK(Store(s, x, 7, kLong));
  for (const int64_t stream : {int64_t{-1}, int64_t{0}, Handle(s)}) {
    DLPackExport how;
    how.stream = stream;
    how.copy = true;
    DLManagedTensorVersioned* const t = Must(ToDLPack(x, how));
    EXPECT_NE(t->dl_tensor.data, x.data());
    EXPECT_EQ(t->flags, DLPACK_FLAG_BITMASK_IS_COPIED);
    ExpectDevice(t, {kDLROCMHost, 0});
    EXPECT_EQ(*static_cast<const int64_t*>(t->dl_tensor.data), 7);
    Release(t);
  }
}

TEST_F(Export, GetReturnsTheSetSettings) {
  const ExchangeSettings before = GetExchangeSettings();
  EXPECT_FALSE(before.strict);
  EXPECT_EQ(before.cai_version, 3);
  ExchangeSettings other = before;
  other.strict = true;
  other.managed_as_device = true;
  other.release = ExchangeSettings::Release::kSync;
  other.cai_version = 2;
  other.cai_sync = false;
  other.hip_cai = true;
  SetExchangeSettings(other);
  const ExchangeSettings now = GetExchangeSettings();
  EXPECT_TRUE(now.strict && now.managed_as_device && now.hip_cai);
  EXPECT_FALSE(now.cai_sync);
  EXPECT_EQ(now.release, ExchangeSettings::Release::kSync);
  EXPECT_EQ(now.cai_version, 2);
  SetExchangeSettings(before);
  EXPECT_OK(CheckExchangeEnvironment());
}

}  // namespace
}  // namespace devrt::testing
