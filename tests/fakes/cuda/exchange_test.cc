// SPDX-License-Identifier: Apache-2.0
//
// Exchange on cuda: its DLPack types, stream numbers and CUDA Array Interface,
// over a driver that is not there (E1, E3, E8, E13, E14, E16, E49).

#include <cuda.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "devrt/devrt.h"
#include "tests/fakes/common/alone.h"
#include "tests/support/status_matchers.h"

namespace devrt {
namespace {

using test::Alone;
using testing::Must;

Device Gpu(int index = 0) { return Must(GetDevice("cuda", index)); }

Array NewArray(const Place& place, DType dtype = kFloat32) {
  return Must(Array::Empty({4}, dtype, place));
}

CUstream NewNative(int device) {
  CUcontext before = nullptr;
  CUcontext context = nullptr;
  EXPECT_EQ(cuInit(0), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxGetCurrent(&before), CUDA_SUCCESS);
  EXPECT_EQ(cuDevicePrimaryCtxRetain(&context, device), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
  CUstream stream = nullptr;
  EXPECT_EQ(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0),
            CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSetCurrent(before), CUDA_SUCCESS);
  return stream;
}

int64_t Number(CUstream stream) { return reinterpret_cast<intptr_t>(stream); }

absl::Status Export(const Array& x, std::optional<int64_t> stream) {
  DLPackExport how;
  how.stream = stream;
  const auto t = ToDLPack(x, how);
  if (t.ok()) (*t)->deleter(*t);
  return t.status();
}

// E1
TEST(CudaExchange, DLPackDeviceOfEachPlace) {
  Alone([] {
    const auto type = [](const Place& place) {
      return DLPackDevice(place).device_type;
    };
    EXPECT_EQ(type(Place(Gpu(1))), kDLCUDA);
    EXPECT_EQ(DLPackDevice(Place(Gpu(1))).device_id, 1);
    EXPECT_EQ(type(Place::Pinned(Gpu(1))), kDLCUDAHost);
    EXPECT_EQ(DLPackDevice(Place::Pinned(Gpu(1))).device_id, 0);
    EXPECT_EQ(type(Place::Managed(Gpu(1))), kDLCUDAManaged);
    EXPECT_EQ(DLPackDevice(Place::Managed(Gpu(1))).device_id, 0);
    ExchangeSettings settings;
    settings.managed_as_device = true;
    SetExchangeSettings(settings);
    EXPECT_EQ(type(Place::Managed(Gpu(1))), kDLCUDA);
    EXPECT_EQ(DLPackDevice(Place::Managed(Gpu(1))).device_id, 1);
  });
}

TEST(CudaExchange, StreamsOfDeviceMemory) {
  Alone([] {
    const Array x = NewArray(Place(Gpu()));
    const CUstream theirs = NewNative(0);
    for (const int64_t stream :
         {int64_t{-1}, int64_t{0}, int64_t{1}, int64_t{2}, Number(theirs)}) {
      EXPECT_OK(Export(x, stream)) << stream;
    }
    EXPECT_OK(Export(x, std::nullopt));
    EXPECT_STATUS(Export(x, -2), kInvalidArgument, "stream -2");
    EXPECT_STATUS(Export(x, Number(NewNative(1))), kInvalidArgument, "");
    ExchangeSettings settings;
    settings.strict = true;
    SetExchangeSettings(settings);
    EXPECT_STATUS(Export(x, 0), kInvalidArgument, "DEVRT_DLPACK_STRICT");
  });
}

TEST(CudaExchange, StreamsOfPinnedMemory) {
  Alone([] {
    const Array x = NewArray(Place::Pinned(Gpu()));
    for (const int64_t stream : {-1, 0, 1, 2}) EXPECT_OK(Export(x, stream));
    EXPECT_OK(Export(x, std::nullopt));
    EXPECT_STATUS(Export(x, -2), kInvalidArgument, "stream -2");
    // To be read by the host, as torch takes it.
    DLPackExport how;
    how.dl_device = DLDevice{kDLCPU, 0};
    DLManagedTensorVersioned* const t = Must(ToDLPack(x, how));
    EXPECT_EQ(t->dl_tensor.data, x.data());
    EXPECT_EQ(t->dl_tensor.device.device_type, kDLCPU);
    EXPECT_EQ(Must(FromDLPack(t)).place(), Place::Host());
  });
}

TEST(CudaExchange, PinnedMemoryComesBackAsPinned) {
  Alone([] {
    const Array x = NewArray(Place::Pinned(Gpu(1)));
    DLManagedTensorVersioned* const t = Must(ToDLPack(x));
    EXPECT_EQ(t->dl_tensor.device.device_type, kDLCUDAHost);
    DLManagedTensorVersioned theirs = *t;
    theirs.deleter = nullptr;
    {
      const Array y = Must(FromDLPack(&theirs));
      EXPECT_EQ(y.place().kind(), MemoryKind::kPinned);
    }
    theirs.dl_tensor.device.device_type = kDLCUDA;
    EXPECT_EQ(GetExchangeError(FromDLPack(&theirs).status()),
              ExchangeError::kBuffer);
    t->deleter(t);
  });
}

// A consumer's stream that devrt does not know: ordered at the export, never
// touched after it, whatever the policy at the end.
// E8
TEST(CudaExchange, UnknownStreams) {
  for (const auto release :
       {ExchangeSettings::Release::kRecord, ExchangeSettings::Release::kTrust,
        ExchangeSettings::Release::kSync}) {
    Alone([release] {
      setenv("DEVRT_MTIA", "mode=virtual,strategy=alap", 1);
      ExchangeSettings settings;
      settings.release = release;
      SetExchangeSettings(settings);
      Stream a = Must(Stream::Create(Gpu()));
      const CUstream theirs = NewNative(0);
      const Array x = Must(Array::Empty({4}, kUInt8, Place(Gpu())));
      EXPECT_OK(FillAsync(a, x.data(), 0x11, 4));
      EXPECT_OK(x.NoteUse(a));
      DLPackExport how;
      how.stream = Number(theirs);
      DLManagedTensorVersioned* const t = Must(ToDLPack(x, how));
      uint32_t out = 0;
      const auto source = reinterpret_cast<CUdeviceptr>(t->dl_tensor.data);
      EXPECT_EQ(cuMemcpyDtoHAsync(&out, source, 4, theirs), CUDA_SUCCESS);
      EXPECT_EQ(cuStreamSynchronize(theirs), CUDA_SUCCESS);
      EXPECT_EQ(out, 0x11111111u);
      EXPECT_EQ(cuStreamDestroy(theirs), CUDA_SUCCESS);
      t->deleter(t);
      EXPECT_OK(x.Ready());
    });
  }
}

TEST(CudaExchange, CurrentWorkStream) {
  Alone([] {
    EXPECT_EQ(Must(CurrentWorkStream(kDLCUDA, 1)), nullptr);
    EXPECT_EQ(Must(CurrentWorkStream(kDLCUDAHost, 0)), nullptr);
    EXPECT_EQ(Must(CurrentWorkStream(kDLCPU, 0)), nullptr);
    Stream s = Must(Stream::Create(Gpu(1)));
    StreamGuard on_s(s);
    EXPECT_EQ(Must(CurrentWorkStream(kDLCUDA, 1)), Must(s.Native()));
    EXPECT_EQ(Must(CurrentWorkStream(kDLCUDA, 0)), nullptr);
    EXPECT_STATUS(CurrentWorkStream(kDLCUDA, 99), kInvalidArgument, "(2, 99)");
    EXPECT_STATUS(CurrentWorkStream(kDLROCM, 0), kInvalidArgument, "(10, 0)");
  });
}

// E6 and E12: whose memory (13, 0) is only the driver tells, and consumers
// are told one stream for all of it.
TEST(CudaExchange, ManagedMemoryOfAnotherDevice) {
  Alone([] {
    setenv("DEVRT_MTIA", "mode=virtual,strategy=alap", 1);
    CUdeviceptr memory = 0;
    {
      const DeviceGuard on_1(Gpu(1));
      ASSERT_OK(on_1.status());
      ASSERT_EQ(cuMemAllocManaged(&memory, 16, CU_MEM_ATTACH_GLOBAL),
                CUDA_SUCCESS);
    }
    auto* const words = reinterpret_cast<uint32_t*>(memory);
    std::memset(words, 0, 16);
    Stream s0 = Must(Stream::Create(Gpu(0)));
    Stream s1 = Must(Stream::Create(Gpu(1)));
    StreamGuard on_s1(s1), on_s0(s0);
    EXPECT_EQ(Must(CurrentWorkStream(kDLCUDAManaged, 0)), Must(s0.Native()));
    EXPECT_EQ(Must(CurrentWorkStream(kDLCUDAManaged, 1)), Must(s1.Native()));
    EXPECT_STATUS(CurrentWorkStream(kDLCUDAManaged, 99), kInvalidArgument,
                  "(13, 99)");
    {
      int64_t shape[] = {4}, strides[] = {1};
      DLManagedTensorVersioned theirs = {};
      theirs.version = {DLPACK_MAJOR_VERSION, 0};
      theirs.dl_tensor = {
          words, {kDLCUDAManaged, 0}, 1, {kDLInt, 32, 1}, shape, strides, 0};
      const Array x = Must(FromDLPack(&theirs));
      EXPECT_EQ(x.place(), Place::Managed(Gpu(1)));
      EXPECT_EQ(x.home_stream(), s1.ref());
      const Array source = NewArray(Place(Gpu(1)));
      for (const uint32_t value : {0x11111111u, 0x22222222u}) {
        EXPECT_OK(
            FillAsync(s1, source.data(), static_cast<uint8_t>(value), 16));
        EXPECT_EQ(
            cuMemcpyAsync(memory, reinterpret_cast<CUdeviceptr>(source.data()),
                          16, static_cast<CUstream>(Must(s1.Native()))),
            CUDA_SUCCESS);
        EXPECT_OK(x.NoteUse(s1));
        DLManagedTensorVersioned* const t = Must(ExportNoSync(x));
        EXPECT_EQ(t->dl_tensor.device.device_type, kDLCUDAManaged);
        EXPECT_EQ(t->dl_tensor.device.device_id, 0);
        EXPECT_OK(s0.Synchronize());
        EXPECT_EQ(words[3], value);
        t->deleter(t);
      }
    }
    EXPECT_OK(Gpu(0).Synchronize());
    EXPECT_OK(Gpu(1).Synchronize());
    EXPECT_EQ(cuMemFree(memory), CUDA_SUCCESS);
  });
}

// E47: consumers of an extent of 1 look at its stride all the same.
TEST(CudaExchange, NegativeStridesThatMeanNothingDoNotLeave) {
  Alone([] {
    const Array x = Must(Array::Empty({2, 4}, kFloat32, Place(Gpu())));
    const Array back = Must(x.SliceAxis(0, {{}, {}, -1}));
    const Array row =
        Must(Must(back.SliceAxis(0, {0, 1, 1})).SliceAxis(1, {{}, {}, 2}));
    ASSERT_EQ(row.strides(), (Dims{-16, 8}));
    const CudaArrayInterface cai = Must(ToCudaArrayInterface(row));
    ASSERT_TRUE(cai.strides.has_value());
    EXPECT_EQ(*cai.strides, (Dims{8, 8}));
    EXPECT_EQ(cai.data, reinterpret_cast<uintptr_t>(row.data()));
    EXPECT_EQ(GetExchangeError(ToCudaArrayInterface(back).status()),
              ExchangeError::kNotOffered);
  });
}

// E13
TEST(CudaExchange, CaiOffersDeviceArraysWithATypeString) {
  Alone([] {
    const auto offered = [](const Array& x, bool mapped = false) {
      CudaArrayExport how;
      how.pinned_is_mapped = mapped;
      const auto cai = ToCudaArrayInterface(x, how);
      if (!cai.ok()) {
        EXPECT_EQ(GetExchangeError(cai.status()), ExchangeError::kNotOffered)
            << cai.status();
      }
      return cai.ok();
    };
    EXPECT_TRUE(offered(NewArray(Place(Gpu(1)))));
    EXPECT_FALSE(offered(NewArray(Place(Gpu()), kBFloat16)));
    EXPECT_FALSE(offered(NewArray(Place(Gpu()), kFloat8E5M2)));
    EXPECT_FALSE(offered(NewArray(Place::Host())));
    EXPECT_FALSE(offered(NewArray(Place::Pinned(Gpu()))));
    EXPECT_TRUE(offered(NewArray(Place::Pinned(Gpu())), true));
    const Array back = Must(
        NewArray(Place(Gpu())).SliceAxis(0, {std::nullopt, std::nullopt, -1}));
    EXPECT_FALSE(offered(back));
  });
}

// E14
TEST(CudaExchange, TheStreamOfCai) {
  Alone([] {
    setenv("DEVRT_MTIA", "mode=virtual,strategy=alap", 1);
    const Array x = Must(Array::Empty({2, 3}, kFloat32, Place(Gpu())));
    EXPECT_OK(x.Ready());
    CudaArrayInterface cai = Must(ToCudaArrayInterface(x));
    EXPECT_EQ(cai.version, 3);
    EXPECT_EQ(cai.typestr, "<f4");
    EXPECT_EQ(cai.data, reinterpret_cast<uintptr_t>(x.data()));
    EXPECT_FALSE(cai.strides.has_value());
    EXPECT_EQ(cai.stream, std::nullopt);

    Stream a = Must(Stream::Create(Gpu()));
    const auto with_pending = [&] {
      EXPECT_OK(FillAsync(a, x.data(), 1, 24));
      EXPECT_OK(x.NoteUse(a));
      return Must(ToCudaArrayInterface(x)).stream;
    };
    EXPECT_EQ(with_pending(), 1);
    {
      StreamGuard own(Must(PerThreadDefaultStream(Gpu())));
      EXPECT_EQ(with_pending(), 2);
    }
    Stream b = Must(Stream::Create(Gpu()));
    StreamGuard on_b(b);
    EXPECT_EQ(with_pending(), reinterpret_cast<intptr_t>(Must(b.Native())));
    CudaArrayExport how;
    how.version = 2;
    cai = Must(ToCudaArrayInterface(x.Transpose(), how));
    EXPECT_EQ(cai.version, 2);
    EXPECT_EQ(cai.stream, std::nullopt);
    EXPECT_EQ(*cai.strides, (Dims{4, 12}));
    how.version = 4;
    EXPECT_STATUS(ToCudaArrayInterface(x, how), kInvalidArgument, "version 4");
  });
}

TEST(CudaExchange, CaiGoesAndComesBack) {
  Alone([] {
    const Array x = Must(Array::Empty({2, 3}, kComplex64, Place(Gpu(1))));
    const Array view = Must(x.Transpose().SliceAxis(0, {1, {}, 1}));
    const CudaArrayInterface cai = Must(ToCudaArrayInterface(view));
    const Array back = Must(FromCudaArrayInterface(cai, nullptr));
    EXPECT_EQ(back.place(), Place(Gpu(1)));
    EXPECT_EQ(back.data(), view.data());
    EXPECT_EQ(back.shape(), view.shape());
    EXPECT_EQ(back.strides(), view.strides());
    EXPECT_EQ(back.dtype(), kComplex64);
    // 0 is what numba says of its default stream.
    CudaArrayInterface zero = cai;
    zero.stream = 0;
    EXPECT_OK(FromCudaArrayInterface(zero, nullptr));
    ExchangeSettings settings;
    settings.strict = true;
    SetExchangeSettings(settings);
    EXPECT_STATUS(FromCudaArrayInterface(zero, nullptr), kInvalidArgument,
                  "stream 0");
  });
}

// E16
TEST(CudaExchange, NativeStreams) {
  Alone([] {
    Stream own = Must(Stream::Create(Gpu()));
    EXPECT_EQ(Must(GetCudaStream(own)).handle,
              reinterpret_cast<uintptr_t>(Must(own.Native())));
    EXPECT_EQ(Must(GetCudaStream(own)).version, 0);
    EXPECT_EQ(Must(GetCudaStream(DefaultStream(Gpu()))).handle, 1u);
    EXPECT_EQ(Must(GetCudaStream(Must(PerThreadDefaultStream(Gpu())))).handle,
              2u);

    const int64_t theirs = Number(NewNative(1));
    EXPECT_EQ(Must(AdoptNativeStream(theirs)).ref().device(), Gpu(1));
    AdoptOptions on_0;
    on_0.device = Gpu(0);
    EXPECT_STATUS(AdoptNativeStream(theirs, on_0), kInvalidArgument, "");
    const ExternalStream first = Must(AdoptNativeStream(theirs));
    const ExternalStream second = Must(AdoptNativeStream(theirs));
    EXPECT_NE(first.ref().id(), second.ref().id());

    AdoptOptions on_1;
    on_1.device = Gpu(1);
    EXPECT_EQ(Must(AdoptNativeStream(0, on_1)).ref(), DefaultStream(Gpu(1)));
    EXPECT_EQ(Must(AdoptNativeStream(1, on_1)).ref(), DefaultStream(Gpu(1)));
    EXPECT_EQ(Must(AdoptNativeStream(2, on_1)).ref(),
              Must(PerThreadDefaultStream(Gpu(1))));
    EXPECT_EQ(Must(AdoptNativeStream(1)).ref(), DefaultStream(Gpu(0)));
    EXPECT_STATUS(AdoptNativeStream(-1), kInvalidArgument, "negative");
  });
}

}  // namespace
}  // namespace devrt
