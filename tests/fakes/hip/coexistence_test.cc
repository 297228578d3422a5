// SPDX-License-Identifier: Apache-2.0
//
// devrt beside another library that uses the same HIP: whatever happens, the
// thread's device is what it was, and its last error is not devrt's.
#define __HIP_DISABLE_CPP_FUNCTIONS__
#include <gtest/gtest.h>
#include <hip/hip_runtime_api.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "devrt/devrt.h"
#include "tests/fakes/common/alone.h"
#include "tests/fakes/common/use_everything.h"
#include "tests/support/status_matchers.h"

namespace devrt {
namespace {

using test::Alone;
using test::UseEverything;
using ::testing::HasSubstr;
using testing::Must;
using testing::StatusIs;

constexpr uint64_t kSize = 4096;

int Current() {
  int device = -1;
  EXPECT_EQ(hipGetDevice(&device), hipSuccess);
  return device;
}

bool IsUsed(int device) {
  unsigned flags = 0;
  int active = 0;
  EXPECT_EQ(hipDevicePrimaryCtxGetState(device, &flags, &active), hipSuccess);
  return active != 0;
}

// Its handle may be the next stream's, or crash the runtime (C104): behind its
// last operation nothing of devrt's names it.
TEST(HipCoexistence, LeavesDestroyedAdoptedStreamsAlone) {
  Alone([] {
    const Device device = Must(GetDevice("hip:0"));
    ASSERT_EQ(hipSetDevice(0), hipSuccess);
    hipStream_t native = nullptr;
    ASSERT_EQ(hipStreamCreateWithPriority(&native, hipStreamDefault, 0),
              hipSuccess);
    Event event = Must(Event::Create(device));
    void* const memory = Must(Allocate(device, kSize));
    {
      const Stream adopted = Must(Stream::FromNative(device, native));
      EXPECT_OK(event.Record(adopted));
      EXPECT_OK(adopted.Synchronize());
      ASSERT_EQ(hipStreamDestroy(native), hipSuccess);
      EXPECT_OK(FillAsync(DefaultStream(device), memory, 1, kSize));
    }
    EXPECT_OK(FillAsync(DefaultStream(device), memory, 1, kSize));
    EXPECT_OK(device.Synchronize());
    EXPECT_OK(Free(device, memory));
  });
}

// Both ways: one truth (C1, C107).
TEST(HipCoexistence, SharesTheCurrentDevice) {
  Alone([] {
    const Device first = Must(GetDevice("hip:0"));
    const Device second = Must(GetDevice("hip:1"));
    ASSERT_EQ(hipSetDevice(1), hipSuccess);
    EXPECT_EQ(Must(CurrentDevice(first.backend())), second);
    {
      const DeviceGuard guard(first);
      EXPECT_EQ(Current(), 0);
      ASSERT_EQ(hipSetDevice(1), hipSuccess);
      EXPECT_EQ(Must(CurrentDevice(first.backend())), second);
    }
    EXPECT_EQ(Current(), 1);
    EXPECT_OK(SetCurrentDevice(first));
    EXPECT_EQ(Current(), 0);
  });
}

TEST(HipCoexistence, RestoresTheDevice) {
  for (const char* const quirks : {"", "quirks"}) {
    Alone([=] {
      setenv("DEVRT_FAKE_HIP", quirks, 1);
      const Device device = Must(GetDevice("hip:0"));
      ASSERT_EQ(hipSetDevice(1), hipSuccess);
      UseEverything(device, Must(GetDevice("hip:1")));
      EXPECT_EQ(Current(), 1);
    });
  }
}

// Each of HIP's functions fails once, in its first and in its second use; what
// it says is taken out of the thread's slot (R6).
TEST(HipCoexistence, RestoresTheDeviceAfterErrors) {
  for (const char* const call : {"hipMemGetInfo",
                                 "hipMalloc",
                                 "hipFree",
                                 "hipHostMalloc",
                                 "hipHostFree",
                                 "hipHostRegister",
                                 "hipHostUnregister",
                                 "hipPointerGetAttribute",
                                 "hipMemsetAsync",
                                 "hipStreamCreateWithPriority",
                                 "hipStreamDestroy",
                                 "hipStreamQuery",
                                 "hipStreamSynchronize",
                                 "hipStreamWaitEvent",
                                 "hipEventCreateWithFlags",
                                 "hipEventDestroy",
                                 "hipEventRecord",
                                 "hipEventQuery",
                                 "hipDeviceSynchronize",
                                 "hipDeviceEnablePeerAccess",
                                 "hipDeviceDisablePeerAccess"}) {
    for (const char* const which : {"@1:1", "@2:1"}) {
      const std::string failure = std::string(call) + which;
      SCOPED_TRACE(failure);
      Alone([=] {
        setenv("DEVRT_FAKE_HIP", ("fail=" + failure).c_str(), 1);
        const Device device = Must(GetDevice("hip:0"));
        ASSERT_EQ(hipSetDevice(1), hipSuccess);
        UseEverything(device, Must(GetDevice("hip:1")));
        EXPECT_EQ(Current(), 1);
        EXPECT_EQ(hipPeekAtLastError(), hipSuccess);
      });
    }
  }
}

TEST(HipC20C90, LeavesNothingInTheSlot) {
  for (const char* const quirks : {"", "c20_slot"}) {
    Alone([=] {
      setenv("DEVRT_FAKE_HIP", quirks, 1);
      const Device device = Must(GetDevice("hip:0"));
      const Stream stream = Must(Stream::Create(device));
      const Event event = Must(Event::Create(device));
      const Flag flag = Must(Flag::Create(device));
      EXPECT_OK(flag.WaitOn(stream));
      EXPECT_OK(event.Record(stream));
      EXPECT_FALSE(Must(stream.Query()));
      EXPECT_EQ(hipPeekAtLastError(), hipSuccess) << "a false stream query";
      EXPECT_FALSE(Must(event.Query()));
      EXPECT_EQ(hipPeekAtLastError(), hipSuccess) << "a false event query";
      EXPECT_OK(flag.Set());
      EXPECT_OK(stream.Synchronize());
      EXPECT_THAT(Allocate(device, uint64_t{1} << 50),
                  StatusIs(absl::StatusCode::kResourceExhausted,
                           HasSubstr("HIP out of memory")));
      EXPECT_EQ(hipPeekAtLastError(), hipSuccess) << "out of memory";
      int plain = 0;
      EXPECT_EQ(Must(GetPointerInfo(&plain)).kind, PointerKind::kUnregistered);
      EXPECT_EQ(hipPeekAtLastError(), hipSuccess) << "an unknown pointer";
    });
  }
}

// Since ROCm 7 the slot has errors only, and one of somebody else's is theirs.
TEST(HipC20C90, KeepsTheErrorsOfOthers) {
  Alone([] {
    const Device device = Must(GetDevice("hip:0"));
    const Stream stream = Must(Stream::Create(device));
    ASSERT_EQ(hipSetDevice(9), hipErrorInvalidDevice);
    void* const memory = Must(Allocate(device, kSize));
    EXPECT_OK(FillAsync(stream, memory, 1, kSize));
    const Flag flag = Must(Flag::Create(device));
    EXPECT_OK(flag.WaitOn(stream));
    EXPECT_FALSE(Must(stream.Query()));
    EXPECT_OK(flag.Set());
    EXPECT_OK(stream.Synchronize());
    EXPECT_OK(Free(device, memory));
    EXPECT_EQ(hipGetLastError(), hipErrorInvalidDevice);
  });
}

TEST(HipC103, UsesNamedDevicesOnly) {
  Alone([] {
    const Device device = Must(GetDevice("hip:1"));
    (void)Must(device.Properties());
    (void)Must(GetDevice("hip:0")).Synchronize();
    EXPECT_FALSE(IsUsed(0));
    EXPECT_FALSE(IsUsed(1));
    const Stream stream = Must(Stream::Create(device));
    void* const memory = Must(Allocate(device, kSize));
    EXPECT_OK(FillAsync(stream, memory, 1, kSize));
    EXPECT_OK(stream.Synchronize());
    EXPECT_OK(Free(device, memory));
    EXPECT_TRUE(IsUsed(1));
    EXPECT_FALSE(IsUsed(0));
  });
}

TEST(HipC104, AdoptsAStreamOfOthers) {
  Alone([] {
    const Device device = Must(GetDevice("hip:1"));
    ASSERT_EQ(hipSetDevice(1), hipSuccess);
    hipStream_t native = nullptr;
    ASSERT_EQ(hipStreamCreateWithPriority(&native, 0, 0), hipSuccess);
    ASSERT_EQ(hipSetDevice(0), hipSuccess);
    EXPECT_THAT(Stream::FromNative(Must(GetDevice("hip:0")), native),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("belongs to hip:1")));
    {
      const Stream stream = Must(Stream::FromNative(device, native));
      const Event event = Must(Event::Create(device));
      EXPECT_OK(event.Record(stream));
      EXPECT_OK(stream.Synchronize());
      EXPECT_TRUE(Must(stream.Query()));
    }
    EXPECT_EQ(Current(), 0);
    EXPECT_EQ(hipStreamSynchronize(native), hipSuccess) << "it is not devrt's";
  });
}

}  // namespace
}  // namespace devrt
