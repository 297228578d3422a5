// SPDX-License-Identifier: Apache-2.0
//
// Hip: a libamdhip64.so keeps HIP's own contracts (semantics.md, HIP columns),
// the fake one and the one that forwards to CUDA.  FakeHip: the fake one's
// options and quirks are what their names say.  Each test has a process of its
// own: a fault stays, and the options are read once.
#define __HIP_DISABLE_CPP_FUNCTIONS__
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <hip/hip_runtime_api.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>

#include "tests/fakes/common/alone.h"

namespace {

using devrt::test::Alone;

constexpr size_t kSize = 4096;

// A kernel that holds its stream until End, and what a stream or event does.
class Hold {
 public:
  explicit Hold(hipStream_t stream) {
    EXPECT_EQ(hipHostMalloc(&memory_, 4, hipHostMallocPortable), hipSuccess);
    __atomic_store_n(Word(), 0u, __ATOMIC_RELEASE);
    uint64_t for_ever = 0;
    void* arguments[] = {&memory_, &for_ever};
    EXPECT_EQ(Launch("devrt_wait", stream, arguments), hipSuccess);
  }
  void End() { __atomic_store_n(Word(), 1u, __ATOMIC_RELEASE); }

  static hipError_t Launch(const char* name, hipStream_t stream,
                           void** arguments) {
    hipModule_t module = nullptr;
    hipFunction_t function = nullptr;
    EXPECT_EQ(hipModuleLoadData(&module,
                                "\x7f"
                                "ELF"),
              hipSuccess);
    EXPECT_EQ(hipModuleGetFunction(&function, module, name), hipSuccess);
    return hipModuleLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream,
                                 arguments, nullptr);
  }

 private:
  uint32_t* Word() { return static_cast<uint32_t*>(memory_); }
  void* memory_ = nullptr;
};

hipStream_t NewStream(unsigned flags = hipStreamNonBlocking) {
  hipStream_t stream = nullptr;
  EXPECT_EQ(hipStreamCreateWithPriority(&stream, flags, 0), hipSuccess);
  return stream;
}

hipEvent_t NewEvent(unsigned flags = hipEventDisableTiming) {
  hipEvent_t event = nullptr;
  EXPECT_EQ(hipEventCreateWithFlags(&event, flags), hipSuccess);
  return event;
}

void* NewMemory() {
  void* memory = nullptr;
  EXPECT_EQ(hipMalloc(&memory, kSize), hipSuccess);
  return memory;
}

// Without them some would wait for ever.
class FakeHip : public testing::Test {
 protected:
  void SetUp() override {
    Dl_info info = {};
    ASSERT_NE(dladdr(dlsym(RTLD_DEFAULT, "hipInit"), &info), 0);
    if (std::string(info.dli_fname).find("hip_on_cuda") != std::string::npos) {
      GTEST_SKIP() << "the library that forwards to CUDA has no quirks";
    }
  }
};

void SetQuirks(const char* quirks) { setenv("DEVRT_FAKE_HIP", quirks, 1); }

// The plugin asks the dynamic linker: what is not there would be missing to it,
// and no test would tell.
TEST(Hip, HasEveryEntryPointOfTheBackend) {
  const void* const entries[] = {
#define DEVRT_HIP_ENTRY(name, needed_by) reinterpret_cast<const void*>(&name),
#include "backends/hip/entries.inc"
#undef DEVRT_HIP_ENTRY
  };
  for (const void* const entry : entries) EXPECT_NE(entry, nullptr);
}

TEST(Hip, StartsByItself) {
  Alone([] {
    int count = 0;
    EXPECT_EQ(hipGetDeviceCount(&count), hipSuccess);
    EXPECT_EQ(count, 2);
  });
}

TEST(Hip, IsNotInitialisedInAForkedChild) {
  Alone([] {
    (void)NewMemory();
    Alone([] {
      int count = 0;
      EXPECT_EQ(hipGetDeviceCount(&count), hipErrorNotInitialized);
    });
  });
}

// How many a process sees that has those variables.
int ChildCount(const char* rocr, const char* hip, const char* cuda) {
  const pid_t child = fork();
  if (child == 0) {
    SetQuirks("devices=4");
    if (rocr != nullptr) setenv("ROCR_VISIBLE_DEVICES", rocr, 1);
    if (hip != nullptr) setenv("HIP_VISIBLE_DEVICES", hip, 1);
    if (cuda != nullptr) setenv("CUDA_VISIBLE_DEVICES", cuda, 1);
    int count = 0;
    const hipError_t error = hipGetDeviceCount(&count);
    _exit(error == hipSuccess ? count : error == hipErrorNoDevice ? 0 : 99);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_F(FakeHip, ShowsTheDevicesThatTheEnvironmentLeaves) {
  EXPECT_EQ(ChildCount(nullptr, nullptr, nullptr), 4);
  EXPECT_EQ(ChildCount("0,1,2", nullptr, nullptr), 3);
  EXPECT_EQ(ChildCount("", nullptr, nullptr), 0);
  EXPECT_EQ(ChildCount(nullptr, "", nullptr), 4) << "empty is as if not set";
  EXPECT_EQ(ChildCount(nullptr, "1", nullptr), 1);
  EXPECT_EQ(ChildCount(nullptr, "7", nullptr), 0);
  EXPECT_EQ(ChildCount(nullptr, "0,x,1", nullptr), 1);
  EXPECT_EQ(ChildCount("0,1", "1,2", nullptr), 1) << "counts what is left";
  EXPECT_EQ(ChildCount(nullptr, nullptr, "0,1"), 2);
  EXPECT_EQ(ChildCount(nullptr, "0", "0,1"), 1);
}

TEST(Hip, KeepsTheDeviceByThread) {
  Alone([] {
    int device = -1;
    EXPECT_EQ(hipSetDevice(1), hipSuccess);
    std::thread([&] { EXPECT_EQ(hipGetDevice(&device), hipSuccess); }).join();
    EXPECT_EQ(device, 0);
    EXPECT_EQ(hipSetDevice(2), hipErrorInvalidDevice);
    EXPECT_EQ(hipGetDevice(&device), hipSuccess);
    EXPECT_EQ(device, 1);
  });
}

TEST(Hip, UsesADeviceAtTheFirstObjectThere) {
  Alone([] {
    unsigned flags = 0;
    int active = -1;
    EXPECT_EQ(hipSetDevice(1), hipSuccess);
    EXPECT_EQ(hipDevicePrimaryCtxGetState(1, &flags, &active), hipSuccess);
    EXPECT_EQ(active, 0);
    (void)NewStream();
    EXPECT_EQ(hipDevicePrimaryCtxGetState(1, &flags, &active), hipSuccess);
    EXPECT_EQ(active, 1);
    EXPECT_EQ(hipDevicePrimaryCtxGetState(0, &flags, &active), hipSuccess);
    EXPECT_EQ(active, 0);
  });
}

TEST(Hip, RemembersTheLastErrorOfTheThread) {
  Alone([] {
    EXPECT_EQ(hipSetDevice(9), hipErrorInvalidDevice);
    std::thread([] { EXPECT_EQ(hipPeekAtLastError(), hipSuccess); }).join();
    const hipStream_t stream = NewStream();
    Hold hold(stream);
    EXPECT_EQ(hipStreamQuery(stream), hipErrorNotReady);
    EXPECT_EQ(hipPeekAtLastError(), hipErrorInvalidDevice);
    EXPECT_EQ(hipGetLastError(), hipErrorInvalidDevice);
    EXPECT_EQ(hipGetLastError(), hipSuccess);
    hold.End();
    EXPECT_EQ(hipStreamSynchronize(stream), hipSuccess);
  });
}

TEST_F(FakeHip, HasAnotherLastErrorBeforeVersion7) {
  Alone([] {
    SetQuirks("c20_slot");
    EXPECT_EQ(hipSetDevice(9), hipErrorInvalidDevice);
    const hipStream_t stream = NewStream();
    EXPECT_EQ(hipPeekAtLastError(), hipSuccess);
    Hold hold(stream);
    EXPECT_EQ(hipStreamQuery(stream), hipErrorNotReady);
    EXPECT_EQ(hipPeekAtLastError(), hipErrorNotReady);
    hold.End();
    EXPECT_EQ(hipStreamSynchronize(stream), hipSuccess);
  });
}

TEST(Hip, KnowsNoForeignPointer) {
  Alone([] {
    int owner = -1, plain = 0;
    void* const memory = NewMemory();
    constexpr auto kOwner = HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL;
    EXPECT_EQ(hipPointerGetAttribute(&owner, kOwner, &plain),
              hipErrorInvalidValue);
    EXPECT_EQ(hipSetDevice(1), hipSuccess);
    EXPECT_EQ(hipPointerGetAttribute(&owner, kOwner, memory), hipSuccess);
    EXPECT_EQ(owner, 0);
    EXPECT_EQ(hipFree(&plain), hipErrorInvalidDevicePointer);
    EXPECT_EQ(hipFree(static_cast<char*>(memory) + 256),
              hipErrorInvalidDevicePointer);
    EXPECT_EQ(hipFree(nullptr), hipSuccess);
    EXPECT_EQ(hipFree(memory), hipSuccess);
    EXPECT_EQ(hipFree(memory), hipErrorInvalidDevicePointer);
  });
}

TEST_F(FakeHip, KnowsAPointerOnlyOnItsDevice) {
  Alone([] {
    SetQuirks("c71_needs_device");
    int owner = -1;
    void* const memory = NewMemory();
    constexpr auto kOwner = HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL;
    EXPECT_EQ(hipPointerGetAttribute(&owner, kOwner, memory), hipSuccess);
    EXPECT_EQ(hipSetDevice(1), hipSuccess);
    EXPECT_EQ(hipPointerGetAttribute(&owner, kOwner, memory),
              hipErrorInvalidValue);
  });
}

// The type's numbers are others since version 6.
TEST_F(FakeHip, TellsTheTypeOfMemoryAsItsVersionDoes) {
  for (const auto& [options, type] :
       {std::pair("version=50221153", 1), std::pair("version=60000000", 2)}) {
    Alone([options = options, type = type] {
      SetQuirks(options);
      int found = -1;
      EXPECT_EQ(hipPointerGetAttribute(
                    &found, HIP_POINTER_ATTRIBUTE_MEMORY_TYPE, NewMemory()),
                hipSuccess);
      EXPECT_EQ(found, type);
    });
  }
}

// Work on the other device's stream, with and without the quirk.
void UseOtherDevice(hipError_t launch, hipError_t fill) {
  const hipStream_t stream = NewStream();
  void* const memory = NewMemory();
  uint64_t nanoseconds = 1;
  void* arguments[] = {&nanoseconds};
  hipModule_t module = nullptr;
  hipFunction_t function = nullptr;
  ASSERT_EQ(hipModuleLoadData(&module,
                              "\x7f"
                              "ELF"),
            hipSuccess);
  ASSERT_EQ(hipModuleGetFunction(&function, module, "devrt_spin"), hipSuccess);
  ASSERT_EQ(hipSetDevice(1), hipSuccess);
  EXPECT_EQ(hipModuleLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream,
                                  arguments, nullptr),
            launch);
  EXPECT_EQ(hipMemsetAsync(memory, 1, kSize, stream), fill);
  EXPECT_EQ(hipStreamSynchronize(stream), hipSuccess);
}

TEST_F(FakeHip, RunsWorkOnTheDeviceOfTheStream) {
  Alone([] { UseOtherDevice(hipSuccess, hipSuccess); });
  Alone([] {
    SetQuirks("c15_needs_device");
    UseOtherDevice(hipErrorInvalidHandle, hipSuccess);
  });
  Alone([] {
    SetQuirks("c16_needs_device");
    UseOtherDevice(hipSuccess, hipErrorInvalidHandle);
  });
}

// Checks work of a blocking stream while the legacy stream has a wait and
// nothing else.  The work comes after that wait if `ordered` is true.  Work of
// the legacy stream itself is ordered in both cases.
void OrderBareWork(bool ordered) {
  const hipError_t expected = ordered ? hipErrorNotReady : hipSuccess;
  const hipStream_t other = NewStream();
  const hipStream_t blocking = NewStream(hipStreamDefault);
  const hipEvent_t held = NewEvent(), behind = NewEvent();
  void* const memory = NewMemory();
  Hold hold(other);
  ASSERT_EQ(hipEventRecord(held, other), hipSuccess);
  ASSERT_EQ(hipStreamWaitEvent(nullptr, held, 0), hipSuccess);
  ASSERT_EQ(hipMemsetAsync(memory, 1, kSize, blocking), hipSuccess);
  ASSERT_EQ(hipEventRecord(behind, blocking), hipSuccess);
  if (!ordered) {
    ASSERT_EQ(hipEventSynchronize(behind), hipSuccess);
  }
  EXPECT_EQ(hipEventQuery(behind), expected);
  EXPECT_EQ(hipStreamQuery(nullptr), hipErrorNotReady) << "it has the wait";
  // Work of its own does wait for it.
  const hipEvent_t work = NewEvent();
  ASSERT_EQ(hipMemsetAsync(memory, 2, kSize, nullptr), hipSuccess);
  ASSERT_EQ(hipMemsetAsync(memory, 3, kSize, blocking), hipSuccess);
  ASSERT_EQ(hipEventRecord(work, blocking), hipSuccess);
  EXPECT_EQ(hipEventQuery(work), hipErrorNotReady);
  hold.End();
  EXPECT_EQ(hipEventSynchronize(work), hipSuccess);
  EXPECT_EQ(hipStreamSynchronize(nullptr), hipSuccess);
}

TEST_F(FakeHip, MissesWaitsOfTheLegacyStream) {
  Alone([] { OrderBareWork(true); });
  Alone([] {
    SetQuirks("c9_missing_waits");
    OrderBareWork(false);
  });
}

TEST_F(FakeHip, EndsTheProcessForWorkThatMayBeDropped) {
  EXPECT_DEATH(
      {
        SetQuirks("c17_drops_work");
        const hipStream_t stream = NewStream();
        Hold hold(stream);
        (void)hipStreamDestroy(stream);
      },
      "hipStreamDestroy: .* has work left");
}

TEST_F(FakeHip, ForgetsTheStreamOfAnEvent) {
  for (const bool quirk : {false, true}) {
    Alone([quirk] {
      if (quirk) SetQuirks("c18_forgets_stream");
      const hipStream_t stream = NewStream(), other = NewStream();
      const hipEvent_t event = NewEvent(), behind = NewEvent();
      Hold hold(stream);
      EXPECT_EQ(hipEventRecord(event, stream), hipSuccess);
      EXPECT_EQ(hipStreamDestroy(stream), hipSuccess);
      const hipError_t expected = quirk ? hipSuccess : hipErrorNotReady;
      EXPECT_EQ(hipEventQuery(event), expected);
      EXPECT_EQ(hipStreamWaitEvent(other, event, 0), hipSuccess);
      EXPECT_EQ(hipStreamQuery(other), expected);
      EXPECT_EQ(hipEventRecord(behind, other), hipSuccess);
      hold.End();
      EXPECT_EQ(hipEventSynchronize(behind), hipSuccess);
    });
  }
}

TEST_F(FakeHip, EndsTheProcessForARecordOfAPendingEvent) {
  EXPECT_DEATH(
      {
        SetQuirks("c27_pending_record");
        const hipStream_t stream = NewStream();
        const hipEvent_t event = NewEvent();
        Hold hold(stream);
        (void)hipEventRecord(event, stream);
        (void)hipEventRecord(event, stream);
      },
      "hipEventRecord: .* is pending");
}

// Returns the byte of a copy to pinned memory that the host sees after a query
// found the event complete.
int AfterQuery(unsigned memory_flags, unsigned event_flags) {
  const hipStream_t stream = NewStream();
  const hipEvent_t event = NewEvent(hipEventDisableTiming | event_flags);
  void* const memory = NewMemory();
  void* pinned = nullptr;
  EXPECT_EQ(hipHostMalloc(&pinned, kSize, memory_flags), hipSuccess);
  auto* const seen = static_cast<volatile char*>(pinned);
  seen[0] = 0;
  EXPECT_EQ(hipMemsetAsync(memory, 7, kSize, stream), hipSuccess);
  EXPECT_EQ(
      hipMemcpyAsync(pinned, memory, kSize, hipMemcpyDeviceToHost, stream),
      hipSuccess);
  EXPECT_EQ(hipEventRecord(event, stream), hipSuccess);
  while (hipEventQuery(event) == hipErrorNotReady) std::this_thread::yield();
  const int after_query = seen[0];
  EXPECT_EQ(hipEventSynchronize(event), hipSuccess);
  EXPECT_EQ(seen[0], 7);
  return after_query;
}

TEST_F(FakeHip, StaleQuirkHidesTheCopyAfterAQuery) {
  constexpr unsigned kReleases = hipEventReleaseToSystem;
  Alone([] { EXPECT_EQ(AfterQuery(hipHostMallocPortable, 0), 7); });
  Alone([] {
    SetQuirks("c37_stale");
    EXPECT_EQ(AfterQuery(hipHostMallocPortable, 0), 0);
    EXPECT_EQ(AfterQuery(hipHostMallocCoherent, 0), 7);
    EXPECT_EQ(AfterQuery(hipHostMallocPortable, kReleases), 7);
  });
}

TEST(Hip, RefusesAnEventOfAnotherDevice) {
  Alone([] {
    const hipEvent_t event = NewEvent();
    EXPECT_EQ(hipSetDevice(1), hipSuccess);
    const hipStream_t stream = NewStream();
    EXPECT_EQ(hipEventRecord(event, stream), hipErrorInvalidHandle);
    EXPECT_EQ(hipGetStreamDeviceId(stream), 1);
    EXPECT_EQ(hipEventRecord(event, nullptr), hipErrorInvalidHandle)
        << "the null stream is the current device's";
  });
}

TEST_F(FakeHip, AbortsWhereHipWouldCrash) {
  EXPECT_DEATH(
      {
        const hipStream_t stream = NewStream();
        (void)hipStreamDestroy(stream);
        (void)hipStreamQuery(stream);
      },
      "hipStreamQuery: .* is no live stream");
}

TEST_F(FakeHip, RefusesOptionsThatItDoesNotKnow) {
  EXPECT_DEATH(
      {
        SetQuirks("c99_nothing");
        (void)NewStream();
      },
      "DEVRT_FAKE_HIP: \"c99_nothing\": expected one of .*c20_slot");
}

}  // namespace
