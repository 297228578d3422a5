// SPDX-License-Identifier: Apache-2.0
//
// The fake driver keeps the driver's own contracts, as measured (semantics.md,
// CUDA columns and 1.13).  Each test has a process of its own: a fault stays.
#include <cuda.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <thread>
#include <vector>

#include "tests/fakes/common/alone.h"

namespace {

using devrt::test::Alone;

constexpr size_t kSize = 4096;

// With the primary context of device 0 current.
CUcontext Begin() {
  EXPECT_EQ(cuInit(0), CUDA_SUCCESS);
  CUcontext context = nullptr;
  EXPECT_EQ(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
  return context;
}

CUstream NewStream(unsigned flags = CU_STREAM_NON_BLOCKING) {
  CUstream stream = nullptr;
  EXPECT_EQ(cuStreamCreateWithPriority(&stream, flags, 0), CUDA_SUCCESS);
  return stream;
}

CUevent NewEvent(unsigned flags = CU_EVENT_DEFAULT) {
  CUevent event = nullptr;
  EXPECT_EQ(cuEventCreate(&event, flags), CUDA_SUCCESS);
  return event;
}

CUdeviceptr NewMemory() {
  CUdeviceptr memory = 0;
  EXPECT_EQ(cuMemAlloc(&memory, kSize), CUDA_SUCCESS);
  return memory;
}

CUfunction NewFunction(const char* name) {
  static const uint32_t image[] = {0xba55ed50, 0, 0, 0};
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  EXPECT_EQ(cuModuleLoadData(&module, image), CUDA_SUCCESS);
  EXPECT_EQ(cuModuleGetFunction(&function, module, name), CUDA_SUCCESS);
  return function;
}

CUresult Launch(CUfunction function, CUstream stream, void** arguments) {
  return cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, arguments,
                        nullptr);
}

CUresult Fault(CUstream stream) {
  uint32_t form = 0;
  uint64_t address = 0;
  void* arguments[] = {&form, &address};
  return Launch(NewFunction("devrt_fault"), stream, arguments);
}

TEST(FakeDriver, IsNotInitialisedBeforeInit) {
  Alone([] {
    int count = 0;
    CUcontext context = nullptr;
    EXPECT_EQ(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
    EXPECT_EQ(cuCtxGetCurrent(&context), CUDA_ERROR_NOT_INITIALIZED);
    EXPECT_EQ(cuInit(0), CUDA_SUCCESS);
    EXPECT_EQ(cuDeviceGetCount(&count), CUDA_SUCCESS);
    EXPECT_EQ(count, 2);
  });
}

TEST(FakeDriver, IsNotInitialisedInAForkedChild) {
  Alone([] {
    Begin();
    Alone([] {
      int count = 0;
      EXPECT_EQ(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
    });
  });
}

TEST(FakeDriver, NeedsACurrentContextWhereTheDriverDoes) {
  Alone([] {
    Begin();
    const CUstream stream = NewStream();
    const CUevent event = NewEvent();
    CUgraph graph = nullptr;
    EXPECT_EQ(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL),
              CUDA_SUCCESS);
    EXPECT_EQ(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
    ASSERT_EQ(cuCtxSetCurrent(nullptr), CUDA_SUCCESS);
    CUcontext context = nullptr;
    EXPECT_EQ(cuCtxGetCurrent(&context), CUDA_SUCCESS);
    EXPECT_EQ(context, nullptr);
    CUstream made = nullptr;
    CUdeviceptr memory = 0;
    CUdevice device = 0;
    EXPECT_EQ(cuStreamCreateWithPriority(&made, 0, 0),
              CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(cuMemAlloc(&memory, kSize), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(cuCtxGetDevice(&device), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(cuStreamSynchronize(CU_STREAM_LEGACY),
              CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(cuStreamSynchronize(nullptr), CUDA_ERROR_INVALID_CONTEXT);
    CUgraphExec exec = nullptr;
    EXPECT_EQ(cuGraphInstantiateWithFlags(&exec, graph, 0),
              CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(exec, nullptr);
    // These take the object's.
    EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
    EXPECT_EQ(cuEventRecord(event, stream), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
  });
}

TEST(FakeDriver, EndsAContextWithItsLastRelease) {
  Alone([] {
    Begin();
    unsigned flags = 0;
    int active = 0;
    EXPECT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
    EXPECT_EQ(cuDevicePrimaryCtxGetState(0, &flags, &active), CUDA_SUCCESS);
    EXPECT_EQ(active, 0);
    CUdeviceptr memory = 0;
    EXPECT_EQ(cuMemAlloc(&memory, kSize), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    EXPECT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_ERROR_INVALID_CONTEXT);
  });
}

TEST(FakeDriver, KeepsContextsByThread) {
  Alone([] {
    Begin();
    std::thread([] {
      CUcontext context = nullptr;
      EXPECT_EQ(cuCtxGetCurrent(&context), CUDA_SUCCESS);
      EXPECT_EQ(context, nullptr);
    }).join();
  });
}

TEST(FakeDriver, RefusesFreesOfOtherPointers) {
  Alone([] {
    Begin();
    CUdeviceptr memory = 0;
    EXPECT_EQ(cuMemAlloc(&memory, 0), CUDA_ERROR_INVALID_VALUE);
    memory = NewMemory();
    EXPECT_EQ(cuMemFree(memory + 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemFree(memory), CUDA_SUCCESS);
    EXPECT_EQ(cuMemFree(memory), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemFree(0), CUDA_SUCCESS);
    EXPECT_EQ(cuMemFreeHost(&memory), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemAlloc(&memory, size_t{1} << 50), CUDA_ERROR_OUT_OF_MEMORY);
  });
}

TEST(FakeDriver, RegistersHostMemoryOnce) {
  Alone([] {
    Begin();
    std::vector<char> host(2 * kSize);
    const unsigned flags = CU_MEMHOSTREGISTER_PORTABLE;
    EXPECT_EQ(cuMemHostUnregister(host.data()),
              CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    EXPECT_EQ(cuMemHostRegister(host.data(), kSize, flags), CUDA_SUCCESS);
    EXPECT_EQ(cuMemHostRegister(host.data() + kSize - 1, kSize, flags),
              CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    EXPECT_EQ(cuMemHostUnregister(host.data() + 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemHostUnregister(host.data()), CUDA_SUCCESS);
    EXPECT_EQ(cuMemHostRegister(host.data(), 0, flags),
              CUDA_ERROR_INVALID_VALUE);
  });
}

TEST(FakeDriver, KeepsPeerState) {
  Alone([] {
    const CUcontext own = Begin();
    CUcontext other = nullptr;
    ASSERT_EQ(cuDevicePrimaryCtxRetain(&other, 1), CUDA_SUCCESS);
    int can = 1;
    EXPECT_EQ(cuDeviceCanAccessPeer(&can, 0, 0), CUDA_SUCCESS);
    EXPECT_EQ(can, 0);
    EXPECT_EQ(cuCtxEnablePeerAccess(own, 0),
              CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
    EXPECT_EQ(cuCtxDisablePeerAccess(other),
              CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    EXPECT_EQ(cuCtxEnablePeerAccess(other, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuCtxEnablePeerAccess(other, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxEnablePeerAccess(other, 0),
              CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    EXPECT_EQ(cuCtxDisablePeerAccess(other), CUDA_SUCCESS);
  });
}

TEST(FakeDriver, KeepsDefaultStreams) {
  Alone([] {
    Begin();
    for (const CUstream stream :
         {CUstream{}, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD}) {
      EXPECT_EQ(cuStreamDestroy(stream), CUDA_ERROR_INVALID_HANDLE);
      EXPECT_EQ(cuStreamQuery(stream), CUDA_SUCCESS);
    }
  });
}

TEST(FakeDriver, ClampsPriorities) {
  Alone([] {
    Begin();
    CUstream stream = nullptr;
    int priority = 0;
    ASSERT_EQ(cuStreamCreateWithPriority(&stream, 0, -9), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamGetPriority(stream, &priority), CUDA_SUCCESS);
    EXPECT_EQ(priority, -5);
  });
}

TEST(FakeDriver, ChecksEvents) {
  Alone([] {
    Begin();
    const CUstream stream = NewStream();
    const CUevent begin = NewEvent(), end = NewEvent();
    const CUevent plain = NewEvent(CU_EVENT_DISABLE_TIMING);
    float milliseconds = 0;
    EXPECT_EQ(cuEventQuery(begin), CUDA_SUCCESS);
    EXPECT_EQ(cuEventElapsedTime(&milliseconds, begin, end),
              CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(cuEventRecord(begin, stream), CUDA_SUCCESS);
    uint64_t nanoseconds = 5'000'000;
    void* arguments[] = {&nanoseconds};
    ASSERT_EQ(Launch(NewFunction("devrt_spin"), stream, arguments),
              CUDA_SUCCESS);
    EXPECT_EQ(cuEventRecord(end, stream), CUDA_SUCCESS);
    EXPECT_EQ(cuEventRecord(plain, stream), CUDA_SUCCESS);
    EXPECT_EQ(cuEventElapsedTime(&milliseconds, begin, end),
              CUDA_ERROR_NOT_READY);
    EXPECT_EQ(cuEventSynchronize(end), CUDA_SUCCESS);
    EXPECT_EQ(cuEventElapsedTime(&milliseconds, begin, end), CUDA_SUCCESS);
    EXPECT_GE(milliseconds, 5);
    EXPECT_EQ(cuEventElapsedTime(&milliseconds, begin, plain),
              CUDA_ERROR_INVALID_HANDLE);
    CUcontext other = nullptr;
    ASSERT_EQ(cuDevicePrimaryCtxRetain(&other, 1), CUDA_SUCCESS);
    ASSERT_EQ(cuCtxSetCurrent(other), CUDA_SUCCESS);
    EXPECT_EQ(cuEventRecord(NewEvent(), stream), CUDA_ERROR_INVALID_HANDLE);
    CUevent event = nullptr;
    EXPECT_EQ(cuEventCreate(&event, CU_EVENT_INTERPROCESS),
              CUDA_ERROR_INVALID_VALUE);
  });
}

// A word of pinned memory that the host sets without a call.
TEST(FakeDriver, SeesAWordThatTheHostSets) {
  Alone([] {
    Begin();
    const CUstream stream = NewStream();
    void* memory = nullptr;
    ASSERT_EQ(cuMemHostAlloc(&memory, 4, CU_MEMHOSTALLOC_PORTABLE),
              CUDA_SUCCESS);
    auto* const word = static_cast<uint32_t*>(memory);
    __atomic_store_n(word, 0u, __ATOMIC_RELEASE);
    uint64_t for_ever = 0;
    void* arguments[] = {&memory, &for_ever};
    ASSERT_EQ(Launch(NewFunction("devrt_wait"), stream, arguments),
              CUDA_SUCCESS);
    EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    std::thread waiter(
        [stream] { EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS); });
    __atomic_store_n(word, 1u, __ATOMIC_RELEASE);
    waiter.join();
  });
}

// The objects that a wait needs must not end before its submission.
TEST(FakeDriver, TakesManyWaitsForAWordThatIsSet) {
  Alone([] {
    setenv("DEVRT_MTIA", "mode=threaded", 1);
    const CUcontext context = Begin();
    void* word = nullptr;
    ASSERT_EQ(cuMemHostAlloc(&word, 4, CU_MEMHOSTALLOC_PORTABLE), CUDA_SUCCESS);
    *static_cast<uint32_t*>(word) = 1;
    uint64_t timeout = 0;
    void* arguments[] = {&word, &timeout};
    const CUfunction wait = NewFunction("devrt_wait");
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        ASSERT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
        const CUstream stream = NewStream();
        for (int j = 0; j < 2000; ++j) {
          ASSERT_EQ(Launch(wait, stream, arguments), CUDA_SUCCESS) << j;
        }
        EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
}

TEST(FakeDriver, GivesUpWaitingForAWord) {
  Alone([] {
    Begin();
    const CUstream stream = NewStream();
    void* memory = nullptr;
    ASSERT_EQ(cuMemHostAlloc(&memory, 4, CU_MEMHOSTALLOC_PORTABLE),
              CUDA_SUCCESS);
    __atomic_store_n(static_cast<uint32_t*>(memory), 0u, __ATOMIC_RELEASE);
    uint64_t timeout = 1'000'000;
    void* arguments[] = {&memory, &timeout};
    ASSERT_EQ(Launch(NewFunction("devrt_wait"), stream, arguments),
              CUDA_SUCCESS);
    EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
  });
}

TEST(FakeDriver, RefusesCallsInACallback) {
  Alone([] {
    Begin();
    const CUstream stream = NewStream();
    struct Seen {
      CUresult given, query, alloc;
    } seen = {CUDA_ERROR_UNKNOWN, CUDA_ERROR_UNKNOWN, CUDA_ERROR_UNKNOWN};
    const CUstreamCallback callback = [](CUstream s, CUresult error,
                                         void* arg) {
      auto* const out = static_cast<Seen*>(arg);
      out->given = error;
      out->query = cuStreamQuery(s);
      CUdeviceptr memory = 0;
      out->alloc = cuMemAlloc(&memory, kSize);
    };
    ASSERT_EQ(cuStreamAddCallback(stream, callback, &seen, 0), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
    EXPECT_EQ(seen.given, CUDA_SUCCESS);
    EXPECT_EQ(seen.query, CUDA_ERROR_NOT_READY);
    EXPECT_EQ(seen.alloc, CUDA_ERROR_NOT_PERMITTED);
  });
}

TEST(FakeDriver, LosesEveryContextToAFault) {
  Alone([] {
    Begin();
    const CUstream stream = NewStream();
    const CUevent event = NewEvent();
    const CUdeviceptr memory = NewMemory();
    CUresult given = CUDA_SUCCESS;
    const CUstreamCallback callback = [](CUstream, CUresult error, void* arg) {
      *static_cast<CUresult*>(arg) = error;
    };
    ASSERT_EQ(Fault(stream), CUDA_SUCCESS);
    ASSERT_EQ(cuStreamAddCallback(stream, callback, &given, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT_EQ(given, CUDA_ERROR_ILLEGAL_ADDRESS);
    CUcontext other = nullptr;
    EXPECT_EQ(cuDevicePrimaryCtxRetain(&other, 1), CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT_EQ(cuMemFree(memory), CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT_EQ(cuEventDestroy(event), CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT_EQ(cuStreamDestroy(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
    int count = 0;
    EXPECT_EQ(cuDeviceGetCount(&count), CUDA_SUCCESS);
  });
}

TEST(FakeDriver, FaultsOnAWordThatIsNotThere) {
  Alone([] {
    Begin();
    const CUstream stream = NewStream();
    uint32_t plain = 0;
    void* word = &plain;
    uint32_t value = 1;
    void* arguments[] = {&word, &value};
    ASSERT_EQ(Launch(NewFunction("devrt_set"), stream, arguments),
              CUDA_SUCCESS);
    EXPECT_EQ(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
    EXPECT_EQ(plain, 0u);
  });
}

TEST(FakeDriver, AbortsWhereTheDriverWouldCrash) {
  EXPECT_DEATH(
      {
        Begin();
        const CUstream stream = NewStream();
        (void)cuStreamDestroy(stream);
        (void)cuStreamQuery(stream);
      },
      "cuStreamQuery: .* is no live stream");
}

TEST(FakeDriver, AbortsForAnUnknownEntryPoint) {
  void* function = nullptr;
  CUdriverProcAddressQueryResult result;
  EXPECT_DEATH((void)cuGetProcAddress("cuGraphLaunch", &function, CUDA_VERSION,
                                      CU_GET_PROC_ADDRESS_DEFAULT, &result),
               "there is no cuGraphLaunch here");
}

}  // namespace
