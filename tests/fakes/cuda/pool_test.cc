// SPDX-License-Identifier: Apache-2.0
//
// Memory pools: the fake driver's contract, and devrt's stream-ordered memory
// over it.  Each test has a process of its own.
#include <cuda.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "devrt/backends/abi/devrt_virtual_memory.h"
#include "devrt/devrt.h"
#include "devrt/memory/resources.h"
#include "tests/fakes/common/alone.h"
#include "tests/support/status_matchers.h"

namespace devrt {
namespace {

using test::Alone;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Must;
using testing::StatusIs;

constexpr size_t kSize = 4096;

// ---- The driver -------------------------------------------------------------

CUcontext Begin(CUdevice device = 0) {
  EXPECT_EQ(cuInit(0), CUDA_SUCCESS);
  CUcontext context = nullptr;
  EXPECT_EQ(cuDevicePrimaryCtxRetain(&context, device), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
  return context;
}

CUmemoryPool NewPool(int device = 0) {
  CUmemPoolProps props{};
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  props.location.id = device;
  CUmemoryPool pool = nullptr;
  EXPECT_EQ(cuMemPoolCreate(&pool, &props), CUDA_SUCCESS);
  return pool;
}

CUstream NewCudaStream() {
  CUstream stream = nullptr;
  EXPECT_EQ(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0),
            CUDA_SUCCESS);
  return stream;
}

CUdeviceptr NewMemory(CUmemoryPool pool, CUstream stream) {
  CUdeviceptr memory = 0;
  EXPECT_EQ(cuMemAllocFromPoolAsync(&memory, kSize, pool, stream),
            CUDA_SUCCESS);
  return memory;
}

size_t FreeBytes() {
  size_t free = 0, total = 0;
  EXPECT_EQ(cuMemGetInfo(&free, &total), CUDA_SUCCESS);
  return free;
}

CUresult Allow(CUmemoryPool pool, int device, bool allow) {
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = device;
  access.flags = allow ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                       : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return cuMemPoolSetAccess(pool, &access, 1);
}

TEST(FakePools, LiveInStreamOrder) {
  Alone([] {
    Begin();
    const CUmemoryPool pool = NewPool();
    const CUstream stream = NewCudaStream();
    const size_t before = FreeBytes();
    const CUdeviceptr memory = NewMemory(pool, stream);
    EXPECT_EQ(cuMemsetD8Async(memory, 1, kSize, stream), CUDA_SUCCESS);
    EXPECT_EQ(cuMemFreeAsync(memory, stream), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamSynchronize(stream), CUDA_SUCCESS);
    EXPECT_EQ(FreeBytes(), before);
    // Through the default stream, and by a plain free.
    const CUdeviceptr other = NewMemory(pool, nullptr);
    EXPECT_EQ(cuStreamSynchronize(nullptr), CUDA_SUCCESS);
    EXPECT_EQ(cuMemFree(other), CUDA_SUCCESS);
    EXPECT_EQ(FreeBytes(), before);
    EXPECT_EQ(cuMemPoolTrimTo(pool, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuMemPoolDestroy(pool), CUDA_SUCCESS);
    EXPECT_EQ(cuMemPoolDestroy(pool), CUDA_ERROR_INVALID_VALUE);
  });
}

TEST(FakePools, RefuseWrongSizesPointersAndContexts) {
  Alone([] {
    Begin();
    const CUmemoryPool pool = NewPool();
    const CUstream stream = NewCudaStream();
    CUdeviceptr memory = 0;
    EXPECT_EQ(cuMemAllocFromPoolAsync(&memory, 0, pool, stream),
              CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemAllocFromPoolAsync(&memory, FreeBytes() + 1, pool, stream),
              CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(memory, 0u);
    memory = NewMemory(pool, stream);
    EXPECT_EQ(cuMemFreeAsync(memory + 8, stream), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemFreeAsync(memory, stream), CUDA_SUCCESS);
    EXPECT_EQ(cuMemFreeAsync(memory, stream), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemFree(memory), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemAlloc(&memory, kSize), CUDA_SUCCESS);
    EXPECT_EQ(cuMemFreeAsync(memory, stream), CUDA_ERROR_INVALID_VALUE);
    ASSERT_EQ(cuCtxSetCurrent(nullptr), CUDA_SUCCESS);
    EXPECT_EQ(cuMemAllocFromPoolAsync(&memory, kSize, pool, nullptr),
              CUDA_ERROR_INVALID_CONTEXT);
  });
}

// C79: access of contexts does not cover a pool's memory.
TEST(FakePools, PeersNeedAccessOfTheirOwn) {
  Alone([] {
    const CUcontext first = Begin(0);
    const CUmemoryPool pool = NewPool(0);
    const CUstream own = NewCudaStream();
    const CUdeviceptr memory = NewMemory(pool, own);
    EXPECT_EQ(cuStreamSynchronize(own), CUDA_SUCCESS);
    Begin(1);
    EXPECT_EQ(cuCtxEnablePeerAccess(first, 0), CUDA_SUCCESS);
    const CUstream peer = NewCudaStream();
    EXPECT_EQ(cuMemsetD8Async(memory, 1, kSize, peer),
              CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(Allow(pool, 1, true), CUDA_SUCCESS);
    EXPECT_EQ(cuMemsetD8Async(memory, 1, kSize, peer), CUDA_SUCCESS);
    EXPECT_EQ(Allow(pool, 1, false), CUDA_SUCCESS);
    EXPECT_EQ(cuMemsetD8Async(memory, 1, kSize, peer),
              CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(Allow(pool, 0, false), CUDA_ERROR_INVALID_VALUE);
  });
}

// ---- devrt over it ----------------------------------------------------------

// Memory of a device, and a peer that may reach it.
struct Peers {
  Device device = Must(GetDevice("cuda:0"));
  Device peer = Must(GetDevice("cuda:1"));
  std::shared_ptr<MemoryResource> resource = Must(DriverResource(device));
  Stream own = Must(Stream::Create(device));
  Stream other = Must(Stream::Create(peer));
};

TEST(DevrtPools, PeerEnableCoversPresentAndFutureMemory) {
  Alone([] {
    auto [device, peer, resource, own, other] = Peers();
    void* const before = Must(resource->Allocate(own, kSize));
    ASSERT_OK(own.Synchronize());
    EXPECT_FALSE(FillAsync(other, before, 1, kSize).ok());
    ASSERT_OK(EnablePeerAccess(peer, device));
    void* const after = Must(resource->Allocate(own, kSize));
    ASSERT_OK(own.Synchronize());
    EXPECT_OK(FillAsync(other, before, 1, kSize));
    EXPECT_OK(FillAsync(other, after, 1, kSize));
    ASSERT_OK(other.Synchronize());
    ASSERT_OK(DisablePeerAccess(peer, device));
    EXPECT_FALSE(FillAsync(other, after, 1, kSize).ok());
    EXPECT_OK(resource->Deallocate(own, before, kSize));
    EXPECT_OK(resource->Deallocate(own, after, kSize));
    ASSERT_OK(own.Synchronize());
  });
}

// Enabled before the pool is made.
TEST(DevrtPools, EarlierEnabledPeersReachThePool) {
  Alone([] {
    ASSERT_OK(
        EnablePeerAccess(Must(GetDevice("cuda:1")), Must(GetDevice("cuda:0"))));
    auto [device, peer, resource, own, other] = Peers();
    void* const block = Must(resource->Allocate(own, kSize));
    ASSERT_OK(other.Wait(own));
    EXPECT_OK(FillAsync(other, block, 1, kSize));
    ASSERT_OK(own.Wait(other));
    EXPECT_OK(resource->Deallocate(own, block, kSize));
    ASSERT_OK(own.Synchronize());
  });
}

TEST(DevrtPools, AlignmentsThatTheDriverDoesNotGive) {
  Alone([] {
    const Device device = Must(GetDevice("cuda:0"));
    const auto resource = Must(DriverResource(device));
    Stream s = Must(Stream::Create(device));
    constexpr uint64_t kAlignment = 1 << 20;
    void* const block = Must(resource->Allocate(s, kSize, kAlignment));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % kAlignment, 0u);
    EXPECT_OK(FillAsync(s, block, 1, kSize));
    EXPECT_OK(resource->Deallocate(s, block, kSize));
    ASSERT_OK(s.Synchronize());
  });
}

// The block stays, and with it what the driver knows it by: a later free ends
// it.  The first block keeps the second from being aligned by itself.
TEST(DevrtPools, ARefusedFreeKeepsTheAlignment) {
  constexpr uint64_t kAlignment = 16 << 10;
  Alone([] {
    setenv("DEVRT_FAKE_CUDA", "fail=cuMemFree@1:1", 1);
    const Device device = Must(GetDevice("cuda:0"));
    void* const first = Must(Allocate(device, kSize));
    void* const block = Must(Allocate(device, kSize, kAlignment));
    EXPECT_FALSE(Free(device, block).ok());
    EXPECT_OK(Free(device, block));
    EXPECT_OK(Free(device, first));
  });
  Alone([] {
    setenv("DEVRT_FAKE_CUDA", "fail=cuMemFreeHost@1:1", 1);
    const Device device = Must(GetDevice("cuda:0"));
    void* const first = Must(AllocateHost(device, kSize));
    void* const block = Must(AllocateHost(device, kSize, kAlignment));
    EXPECT_FALSE(FreeHost(block).ok());
    EXPECT_OK(FreeHost(block));
    EXPECT_OK(FreeHost(first));
  });
}

// A peer whose access to the pool fails is as before the call: not enabled, and
// the next call tries all of it again.
TEST(DevrtPools, APeerThatThePoolRefusesIsNotEnabled) {
  Alone([] {
    setenv("DEVRT_FAKE_CUDA", "fail=cuMemPoolSetAccess@1:1", 1);
    auto [device, peer, resource, own, other] = Peers();
    void* const block = Must(resource->Allocate(own, kSize));
    ASSERT_OK(own.Synchronize());
    EXPECT_THAT(EnablePeerAccess(peer, device),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("access to a memory pool")));
    EXPECT_THAT(DisablePeerAccess(peer, device),
                StatusIs(absl::StatusCode::kFailedPrecondition,
                         HasSubstr("is not enabled")));
    EXPECT_OK(EnablePeerAccess(peer, device));
    EXPECT_OK(FillAsync(other, block, 1, kSize));
    ASSERT_OK(other.Synchronize());
    EXPECT_OK(DisablePeerAccess(peer, device));
    EXPECT_FALSE(FillAsync(other, block, 1, kSize).ok());
    EXPECT_OK(resource->Deallocate(own, block, kSize));
    ASSERT_OK(own.Synchronize());
  });
}

// A withdrawal goes on after the pool's error. A later mapping asks the driver
// for its own device's access only: a second question would fail.
TEST(DevrtPools, APeerThatThePoolKeepsGetsNoLaterMapping) {
  Alone([] {
    setenv("DEVRT_FAKE_CUDA",
           "fail=cuMemPoolSetAccess@2:1,lost=cuMemSetAccess@2:1", 1);
    const Device device = Must(GetDevice("cuda:0"));
    const Device peer = Must(GetDevice("cuda:1"));
    const auto resource = Must(DriverResource(device));
    Stream own = Must(Stream::Create(device));
    void* const block = Must(resource->Allocate(own, kSize));
    ASSERT_OK(EnablePeerAccess(peer, device));
    EXPECT_THAT(DisablePeerAccess(peer, device),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("access to a memory pool")));
    const auto extension = Must(device.backend().GetExtension(
        DEVRT_VIRTUAL_MEMORY_EXTENSION, sizeof(devrt_virtual_memory_v0)));
    const auto& vm =
        *static_cast<const devrt_virtual_memory_v0*>(extension.table);
    devrt_virtual_memory_info_v0 info{};
    info.struct_size = sizeof info;
    ASSERT_EQ(vm.info(extension.self, 0, &info), nullptr);
    void* base = nullptr;
    devrt_chunk chunk = nullptr;
    ASSERT_EQ(vm.reserve(extension.self, 0, info.granularity, 0, &base),
              nullptr);
    ASSERT_EQ(vm.create(extension.self, 0, info.granularity, &chunk), nullptr);
    EXPECT_EQ(vm.map(extension.self, base, info.granularity, chunk), nullptr);
    EXPECT_OK(resource->Deallocate(own, block, kSize));
    ASSERT_OK(own.Synchronize());
  });
}

TEST(DevrtPools, DeviceWithoutPoolsIsNamed) {
  Alone([] {
    setenv("DEVRT_FAKE_CUDA", "missing=memory_pools", 1);
    const Device device = Must(GetDevice("cuda:0"));
    const auto resource = Must(DriverResource(device));
    EXPECT_THAT(resource->Allocate(DefaultStream(device), kSize).status(),
                StatusIs(absl::StatusCode::kUnimplemented,
                         HasSubstr("MEMORY_POOLS_SUPPORTED")));
    void* const raw = Must(Allocate(device, kSize));
    EXPECT_OK(Free(device, raw));
  });
}

TEST(DevrtPools, DriverWithoutPoolsHasNoCapability) {
  Alone([] {
    setenv("DEVRT_FAKE_CUDA", "missing=cuMemPoolTrimTo", 1);
    const Device device = Must(GetDevice("cuda:0"));
    EXPECT_FALSE(device.backend().Has(DEVRT_CAP_ASYNC_ALLOC));
    EXPECT_THAT(
        DriverResource(device).status(),
        StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("ASYNC_ALLOC")));
  });
}

// Unused memory of the pool does not make other allocations fail: devrt trims
// the pool and repeats the call.
TEST(DevrtPools, AreTrimmedForAnAllocationWithoutRoom) {
  for (const bool has_pool : {false, true}) {
    Alone([has_pool] {
      setenv("DEVRT_FAKE_CUDA", "fail=cuMemAlloc@1:2", 1);
      const Device device = Must(GetDevice("cuda:0"));
      Stream s = Must(Stream::Create(device));
      if (has_pool) {
        const auto resource = Must(DriverResource(device));
        void* const block = Must(resource->Allocate(s, kSize));
        EXPECT_OK(resource->Deallocate(s, block, kSize));
      }
      const absl::StatusOr<void*> memory = Allocate(device, kSize);
      EXPECT_EQ(memory.ok(), has_pool) << memory.status();
      if (memory.ok()) {
        EXPECT_OK(Free(device, *memory));
      }
    });
  }
}

TEST(DevrtPools, AFailureOfThePoolIsNotKept) {
  Alone([] {
    setenv("DEVRT_FAKE_CUDA", "fail=cuMemPoolSetAttribute@2:2", 1);
    const Device device = Must(GetDevice("cuda:0"));
    Stream s = Must(Stream::Create(device));
    const auto resource = Must(DriverResource(device));
    EXPECT_FALSE(resource->Allocate(s, kSize).ok());
    void* const block = Must(resource->Allocate(s, kSize));
    EXPECT_OK(resource->Deallocate(s, block, kSize));
    ASSERT_OK(s.Synchronize());
  });
}

// ---- Expandable segments ----------------------------------------------------

absl::StatusOr<void*> AllocateExpandable(const Device& device) {
  EXPECT_OK(SetAllocatorSettings("expandable_segments:True"));
  return AllocateMemory(DefaultStream(device), kSize);
}

// The driver is told who reaches each new mapping: its own device, and those
// that were given access to that one's memory before.
TEST(ExpandableSegments, AreForPeersThatHaveAccess) {
  for (const bool has_access : {true, false}) {
    Alone([has_access] {
      setenv("DEVRT_FAKE_CUDA", "fail=cuMemSetAccess@2:1", 1);
      const Device owner = Must(GetDevice("cuda:0"));
      const Device peer = Must(GetDevice("cuda:1"));
      ASSERT_OK(has_access ? EnablePeerAccess(peer, owner)
                           : EnablePeerAccess(owner, peer));
      const absl::StatusOr<void*> memory = AllocateExpandable(owner);
      EXPECT_EQ(memory.ok(), !has_access) << memory.status();
      if (memory.ok()) {
        EXPECT_OK(FreeMemory(*memory));
      }
    });
  }
}

// Plain ones serve, and the log says so once.
TEST(ExpandableSegments, WithoutAddressesAreLeftOut) {
  Alone([] {
    setenv("DEVRT_FAKE_CUDA", "fail=cuMemAddressReserve@1:2", 1);
    static std::vector<std::string> said;
    SetLogSink([](LogLevel level, const char*, int, std::string_view text) {
      if (level >= LogLevel::kWarning) said.emplace_back(text);
    });
    const Device device = Must(GetDevice("cuda:0"));
    void* const memory = Must(AllocateExpandable(device));
    EXPECT_THAT(said, ElementsAre(HasSubstr("plain ones serve")));
    EXPECT_OK(FreeMemory(memory));
  });
}

}  // namespace
}  // namespace devrt
