// SPDX-License-Identifier: Apache-2.0
//
// devrt beside another library that uses the same driver: whatever happens, the
// thread's context is what it was, and no device that nobody named has one.
#include <cuda.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "devrt/devrt.h"
#include "tests/fakes/common/alone.h"
#include "tests/fakes/common/use_everything.h"
#include "tests/support/status_matchers.h"

namespace devrt {
namespace {

using test::Alone;
using test::UseEverything;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using testing::Must;
using ::testing::SizeIs;
using testing::StatusIs;

constexpr uint64_t kSize = 4096;

CUcontext NewContext(CUdevice device) {
  CUcontext context = nullptr;
#if CUDA_VERSION >= 13000
  EXPECT_EQ(cuCtxCreate(&context, nullptr, 0, device), CUDA_SUCCESS);
#else
  EXPECT_EQ(cuCtxCreate(&context, 0, device), CUDA_SUCCESS);
#endif
  return context;
}

CUcontext Current() {
  CUcontext context = nullptr;
  EXPECT_EQ(cuCtxGetCurrent(&context), CUDA_SUCCESS);
  return context;
}

bool HasPrimary(CUdevice device) {
  unsigned flags = 0;
  int active = 0;
  EXPECT_EQ(cuDevicePrimaryCtxGetState(device, &flags, &active), CUDA_SUCCESS);
  return active != 0;
}

TEST(Coexistence, RestoresAForeignContext) {
  Alone([] {
    const Device device = Must(GetDevice("cuda:0"));
    const Device peer = Must(GetDevice("cuda:1"));
    ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
    const CUcontext foreign = NewContext(1);
    UseEverything(device, peer);
    EXPECT_EQ(Current(), foreign);
    {
      const DeviceGuard guard(device);
      EXPECT_NE(Current(), foreign);
    }
    EXPECT_EQ(Current(), foreign);
  });
}

TEST(Coexistence, RestoresNoContext) {
  Alone([] {
    const Device device = Must(GetDevice("cuda:0"));
    UseEverything(device, Must(GetDevice("cuda:1")));
    EXPECT_EQ(Current(), nullptr);
  });
}

// Each call of the driver's fails once, in its first and in its second use.
TEST(Coexistence, RestoresTheContextAfterErrors) {
  for (const char* const call : {"cuDevicePrimaryCtxRetain",
                                 "cuCtxSetCurrent",
                                 "cuCtxSynchronize",
                                 "cuCtxEnablePeerAccess",
                                 "cuCtxDisablePeerAccess",
                                 "cuMemGetInfo",
                                 "cuMemAlloc",
                                 "cuMemFree",
                                 "cuMemHostAlloc",
                                 "cuMemFreeHost",
                                 "cuMemHostRegister",
                                 "cuMemHostUnregister",
                                 "cuMemsetD8Async",
                                 "cuStreamCreateWithPriority",
                                 "cuStreamDestroy",
                                 "cuStreamQuery",
                                 "cuStreamSynchronize",
                                 "cuStreamWaitEvent",
                                 "cuEventCreate",
                                 "cuEventDestroy",
                                 "cuEventRecord",
                                 "cuEventQuery",
                                 "cuEventSynchronize"}) {
    for (const char* const which : {"@1:1", "@2:1"}) {
      const std::string failure = std::string(call) + which;
      // That is the restoring itself.
      if (failure == "cuCtxSetCurrent@2:1") continue;
      SCOPED_TRACE(failure);
      Alone([=] {
        setenv("DEVRT_FAKE_CUDA", ("fail=" + failure).c_str(), 1);
        const Device device = Must(GetDevice("cuda:0"));
        const Device peer = Must(GetDevice("cuda:1"));
        ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
        const CUcontext foreign = NewContext(1);
        UseEverything(device, peer);
        EXPECT_EQ(Current(), foreign);
      });
    }
  }
}

// C103
TEST(Coexistence, MakesNoContextOnUnnamedDevices) {
  Alone([] {
    const Device device = Must(GetDevice("cuda:1"));
    (void)Must(device.Properties());
    (void)Must(GetDevice("cuda:0")).Synchronize();
    EXPECT_FALSE(HasPrimary(0));
    EXPECT_FALSE(HasPrimary(1));
    {
      const DeviceGuard guard(device);
      const Stream stream = Must(Stream::Create(device));
      void* const memory = Must(Allocate(device, kSize));
      EXPECT_OK(FillAsync(stream, memory, 1, kSize));
      EXPECT_OK(stream.Synchronize());
      EXPECT_OK(Free(device, memory));
    }
    EXPECT_TRUE(HasPrimary(1));
    EXPECT_FALSE(HasPrimary(0));
  });
}

// C104
TEST(Coexistence, AdoptsAStreamOfAForeignContext) {
  Alone([] {
    const Device device = Must(GetDevice("cuda:1"));
    ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
    (void)NewContext(1);
    CUstream native = nullptr;
    ASSERT_EQ(cuStreamCreateWithPriority(&native, 0, 0), CUDA_SUCCESS);
    EXPECT_THAT(Stream::FromNative(Must(GetDevice("cuda:0")), native),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("belongs to cuda:1")));
    const Stream stream = Must(Stream::FromNative(device, native));
    const Event event = Must(Event::Create(device));
    EXPECT_OK(event.Record(stream));
    EXPECT_OK(stream.Synchronize());
    EXPECT_TRUE(Must(stream.Query()));
    EXPECT_OK(device.Synchronize());
  });
}

// Threads come and go; what their default streams took serves the next ones.
TEST(PerThreadStreams, OfEndedThreadsLeaveNothing) {
  Alone([] {
    const Device device = Must(GetDevice("cuda:0"));
    void* const memory = Must(Allocate(device, 64));
    const auto run_threads = [&](int count) {
      for (int i = 0; i < count; ++i) {
        std::thread([&] {
          const StreamRef stream = Must(PerThreadDefaultStream(device));
          Event event = Must(Event::Create(device));
          EXPECT_OK(FillAsync(stream, memory, 1, 64));
          EXPECT_OK(event.Record(stream));
          EXPECT_OK(stream.Synchronize());
        }).join();
      }
    };
    run_threads(100);
    const auto before = static_cast<int64_t>(mallinfo2().uordblks);
    run_threads(1000);
    const auto after = static_cast<int64_t>(mallinfo2().uordblks);
    EXPECT_LT(after - before, 100'000);
    EXPECT_OK(Free(device, memory));
  });
}

TEST(Alignment, OfAllMemoryIsAsAsked) {
  Alone([] {
    const Device device = Must(GetDevice("cuda:0"));
    for (const uint64_t alignment : {512, 4096, 1 << 16}) {
      void* const memory = Must(Allocate(device, kSize, alignment));
      void* const pinned = Must(AllocateHost(device, kSize, alignment));
      for (void* const ptr : {memory, pinned}) {
        EXPECT_EQ(reinterpret_cast<uintptr_t>(ptr) % alignment, 0u);
        const PointerInfo info = Must(GetPointerInfo(ptr));
        EXPECT_EQ(info.base, ptr);
        EXPECT_EQ(info.size, kSize);
      }
      EXPECT_OK(Free(device, memory));
      EXPECT_OK(FreeHost(pinned));
    }
  });
}

TEST(InterprocessEvents, AreExportedAndWorkOn) {
  Alone([] {
    const Device device = Must(GetDevice("cuda:0"));
    EventOptions options;
    options.interprocess = true;
    const Event event = Must(Event::Create(device, options));
    EXPECT_EQ(event.id(), 0u);
    const EventHandle handle = Must(event.Export());
    EXPECT_NE(event.id(), 0u) << "its native event exists now";
    EXPECT_TRUE(Must(event.Query()));
    const Stream stream = Must(Stream::Create(device));
    EXPECT_OK(event.Record(stream));
    EXPECT_OK(event.Synchronize());
    EXPECT_THAT(Event::Open(device, handle),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         HasSubstr("CUDA_ERROR_INVALID_CONTEXT")));
    EXPECT_THAT(Event::Open(device, EventHandle{}),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("handle of an interprocess event")));
    EXPECT_THAT(Must(Event::Create(device)).Export(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("EventOptions::interprocess")));
  });
}

// The driver gives another library the addresses of what devrt gave back.
TEST(Coexistence, MemoryAtTheAddressesOfFreedMemoryIsTheOthers) {
  Alone([] {
    setenv("DEVRT_LOG", "off", 1);
    ASSERT_OK(validate::Enable());
    const Device device = Must(GetDevice("cuda:0"));
    const Stream stream = Must(Stream::Create(device));
    const auto use = [&](void* memory) {
      EXPECT_OK(
          Launch(stream, {Write(memory, kSize)}, [](const LaunchContext&) {}));
    };
    const validate::Scope scope;
    void* const pinned = Must(AllocatePinned(device, kSize));
    EXPECT_OK(FreePinned(pinned));
    EXPECT_OK(EmptyPinnedCache(device.backend()));
    use(pinned);
    ASSERT_THAT(scope.Findings(), SizeIs(1));
    EXPECT_EQ(scope.Findings()[0].kind, "use-after-free");
    EXPECT_THAT(
        scope.Findings()[0].text,
        ContainsRegex("freed by its allocator at [^ ]*coexistence_test"));

    const DeviceGuard guard(device);
    const auto allocate = [] {
      CUdeviceptr managed = 0;
      EXPECT_EQ(cuMemAllocManaged(&managed, kSize, CU_MEM_ATTACH_GLOBAL),
                CUDA_SUCCESS);
      return reinterpret_cast<void*>(managed);
    };
    const auto free = [](void* managed) {
      EXPECT_EQ(cuMemFree(reinterpret_cast<CUdeviceptr>(managed)),
                CUDA_SUCCESS);
    };
    void* theirs = allocate();
    // The fake driver gives freed addresses out late.
    for (int i = 0; i < 20'000 && theirs != pinned; ++i) {
      free(theirs);
      theirs = allocate();
    }
    ASSERT_EQ(theirs, pinned);
    use(theirs);
    EXPECT_OK(stream.Synchronize());
    EXPECT_OK(Must(Array::FromPointer(theirs, {kSize / 4}, kFloat32)).Fill(1));
    EXPECT_OK(device.Synchronize());
    EXPECT_THAT(scope.Findings(), SizeIs(1));
    free(theirs);
  });
}

// As cudaDeviceReset does: a clear status, no crash.
TEST(Coexistence, SurvivesAReset) {
  Alone([] {
    const Device device = Must(GetDevice("cuda:0"));
    void* const memory = Must(Allocate(device, kSize));
    const Stream stream = Must(Stream::Create(device));
    ASSERT_EQ(cuDevicePrimaryCtxReset(0), CUDA_SUCCESS);
    EXPECT_THAT(FillAsync(stream, memory, 1, kSize),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         HasSubstr("CUDA_ERROR_CONTEXT_IS_DESTROYED")));
    EXPECT_THAT(Allocate(device, kSize),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         HasSubstr("CUDA_ERROR_CONTEXT_IS_DESTROYED")));
  });
}

}  // namespace
}  // namespace devrt
