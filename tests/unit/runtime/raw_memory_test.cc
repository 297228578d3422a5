// SPDX-License-Identifier: Apache-2.0
//
// Raw device memory, pinned and registered host memory, pointers.

#include "devrt/runtime/raw_memory.h"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "devrt/runtime/status.h"
#include "runtime/raw_memory/allocation_table.h"
#include "runtime/registry/records.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/runtime/fake_backend.h"

namespace devrt {
namespace {

using ::testing::AllOf;
using testing::FakeBackend;
using testing::FakeFailure;
using ::testing::HasSubstr;
using testing::kInvalid;
using testing::Must;
using ::testing::StartsWith;
using testing::StatusIs;

constexpr uint64_t kMiB = 1 << 20;

char* Plus(void* pointer, size_t bytes) {
  return static_cast<char*>(pointer) + bytes;
}

class RawMemoryTest : public ::testing::Test {
 protected:
  static FakeBackend& fake() {
    // Backends are asked about a pointer in the order in which they were
    // opened: first one that cannot answer.
    [[maybe_unused]] static const Device first = bare().device(0);
    static FakeBackend& fake = FakeBackend::Register("fake", 2);
    return fake;
  }
  static FakeBackend& bare() {  // without any capability
    static FakeBackend& bare = FakeBackend::Register("bare", 1, 0);
    return bare;
  }
  int64_t live() const { return device_.record()->live_allocations.load(); }

  ~RawMemoryTest() override { EXPECT_EQ(live(), 0); }

  const Device device_ = fake().device(0);
};

TEST_F(RawMemoryTest, AllocateAndFree) {
  void* block = Must(Allocate(device_, 1000));
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(live(), 1);
  EXPECT_EQ(fake().used(0), 1000u);
  EXPECT_OK(Free(device_, block));
  EXPECT_EQ(fake().used(0), 0u);
}

// C102
TEST_F(RawMemoryTest, ZeroBytes) {
  const int calls = fake().Calls("alloc") + fake().Calls("host_alloc");
  EXPECT_EQ(Must(Allocate(device_, 0)), nullptr);
  EXPECT_EQ(Must(AllocateHost(device_, 0)), nullptr);
  EXPECT_EQ(fake().Calls("alloc") + fake().Calls("host_alloc"), calls);
  EXPECT_EQ(live(), 0);
  EXPECT_OK(Free(device_, nullptr));
  EXPECT_OK(FreeHost(nullptr));
}

TEST_F(RawMemoryTest, AlignmentIsAPowerOfTwoAndIsKept) {
  for (uint64_t bad : {uint64_t{3}, uint64_t{48}, ~uint64_t{0}}) {
    EXPECT_THAT(Allocate(device_, 8, bad),
                StatusIs(kInvalid, AllOf(HasSubstr("Allocate: alignment"),
                                         HasSubstr("is not a power of two"))));
  }
  void* block = Must(Allocate(device_, 8, 4096));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % 4096, 0u);
  EXPECT_OK(Free(device_, block));
}

TEST_F(RawMemoryTest, BlocksThatAreNotAlignedAreTheBackendsFault) {
  static char memory[8192];
  const uintptr_t address = reinterpret_cast<uintptr_t>(memory);
  fake().next_block = memory + (4096 - address % 4096) + 8;
  // The other device: the block is lost.
  EXPECT_THAT(Allocate(fake().device(1), 8, 4096),
              StatusIs(absl::StatusCode::kInternal,
                       HasSubstr("alloc of backend \"fake\" gave a block that "
                                 "is not aligned to the 4096 bytes that were "
                                 "asked for (contract P10)")));
}

// C63
TEST_F(RawMemoryTest, WrongFrees) {
  void* block = Must(Allocate(device_, 1000));
  void* pinned = Must(AllocateHost(device_, 1000));
  int stack = 0;
  EXPECT_THAT(Free(device_, Plus(block, 16)),
              StatusIs(kInvalid, HasSubstr("16 bytes into the block at 0x")));
  EXPECT_THAT(Free(device_, &stack),
              StatusIs(kInvalid, HasSubstr("lies in no live block")));
  EXPECT_THAT(Free(fake().device(1), block),
              StatusIs(kInvalid, AllOf(HasSubstr("live block of fake:1"),
                                       HasSubstr("is memory of fake:0"))));
  EXPECT_THAT(Free(device_, pinned),
              StatusIs(kInvalid, HasSubstr("is pinned host memory of fake:0")));
  EXPECT_THAT(FreeHost(block),
              StatusIs(kInvalid, HasSubstr("is memory of fake:0")));
  EXPECT_THAT(FreeHost(Plus(pinned, 1)),
              StatusIs(kInvalid, HasSubstr("1 bytes into")));
  EXPECT_OK(Free(device_, block));
  EXPECT_OK(FreeHost(pinned));
  for (const absl::Status& twice : {Free(device_, block), FreeHost(pinned)}) {
    EXPECT_THAT(twice,
                StatusIs(kInvalid, AllOf(HasSubstr("in a block of 1000 bytes"),
                                         HasSubstr("raw_memory_test.cc"))));
  }
  EXPECT_OK(Free(device_, Must(Allocate(device_, 1000))));
}

// Both ends of a block's life are named, by the lines that asked for them.
// C63
TEST_F(RawMemoryTest, FreeingTwiceNamesBothSites) {
  const CallSite made{"a.cc", 12}, freed{"b.cc", 34};
  void* block = Must(Allocate(device_, 1000, 0, made));
  EXPECT_OK(Free(device_, block, freed));
  EXPECT_THAT(
      Free(device_, Plus(block, 8)),
      StatusIs(kInvalid,
               HasSubstr("it was in a block of 1000 bytes of memory of fake:0, "
                         "allocated at a.cc:12, freed at b.cc:34")));
}

TEST_F(RawMemoryTest, OneOfManyConcurrentFreesSucceeds) {
  for (int round = 0; round < 50; ++round) {
    void* block = Must(Allocate(device_, 64));
    std::atomic<int> freed{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        if (Free(device_, block).ok()) ++freed;
      });
    }
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(freed, 1);
  }
}

// C62
TEST_F(RawMemoryTest, OutOfMemory) {
  const absl::Status status = Allocate(device_, 1024 * kMiB).status();
  EXPECT_THAT(status,
              StatusIs(absl::StatusCode::kResourceExhausted,
                       "FAKE out of memory. Tried to allocate 1.00 GiB. GPU 0 "
                       "has a total capacity of 256.00 MiB of which 255.00 "
                       "MiB is free."));
  const std::optional<OutOfMemoryInfo> info = GetOutOfMemoryInfo(status);
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->requested, 1024 * kMiB);
  EXPECT_EQ(info->total, 256 * kMiB);
  EXPECT_EQ(info->free, 255 * kMiB);
  EXPECT_EQ(GetErrorInfo(status)->native_name, "cudaErrorMemoryAllocation");
  EXPECT_EQ(GetErrorInfo(status)->native_code, 2);
  EXPECT_OK(Free(device_, Must(Allocate(device_, kMiB))));
}

TEST_F(RawMemoryTest, OutOfMemoryText) {
  const auto text = [this](uint64_t bytes) {
    return std::string(Allocate(device_, bytes).status().message());
  };
  EXPECT_THAT(text(858993459200000000),
              StartsWith("FAKE out of memory. Tried to allocate "
                         "800000000.00 GiB. GPU 0 has a total capacity of"));
  EXPECT_THAT(text(300 * kMiB), HasSubstr("allocate 300.00 MiB."));
}

TEST_F(RawMemoryTest, MoreThanOneExabyteNeverReachesTheBackend) {
  const int calls = fake().Calls("alloc") + fake().Calls("host_alloc");
  for (uint64_t bytes : {uint64_t{1} << 60, ~uint64_t{0}}) {
    const absl::Status status = Allocate(device_, bytes).status();
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted,
                                 "FAKE out of memory. Tried to allocate more "
                                 "than 1EB memory."));
    EXPECT_EQ(GetOutOfMemoryInfo(status)->requested, bytes);
    EXPECT_EQ(GetErrorInfo(status)->backend, "fake");
    EXPECT_EQ(GetErrorInfo(status)->device, 0);
    EXPECT_EQ(GetErrorInfo(status)->native_code, 0);
    EXPECT_THAT(AllocateHost(device_, bytes),
                StatusIs(absl::StatusCode::kResourceExhausted,
                         HasSubstr("more than 1EB memory.")));
  }
  EXPECT_EQ(fake().Calls("alloc") + fake().Calls("host_alloc"), calls);
}

TEST_F(RawMemoryTest, FreeThatFailsLeavesTheBlock) {
  void* block = Must(Allocate(device_, 64));
  FakeFailure local;
  local.code = DEVRT_INVALID_ARGUMENT;
  fake().Fail("dealloc", local);
  EXPECT_THAT(Free(device_, block), StatusIs(kInvalid, HasSubstr("free on")));
  EXPECT_EQ(live(), 1);
  EXPECT_OK(Free(device_, block));
}

TEST_F(RawMemoryTest, FreeReportsNoEarlierWork) {
  void* block = Must(Allocate(device_, 64));
  FakeFailure earlier;
  earlier.flags = DEVRT_ERROR_ASYNC;
  fake().Fail("dealloc", earlier);
  EXPECT_OK(Free(device_, block));
}

TEST_F(RawMemoryTest, BlocksThatOverlapAreTheBackendsFault) {
  void* block = Must(Allocate(device_, 64));
  fake().next_block = Plus(block, 32);
  EXPECT_THAT(Allocate(device_, 64),
              StatusIs(absl::StatusCode::kInternal,
                       AllOf(HasSubstr("backend \"fake\" allocated 64 bytes"),
                             HasSubstr("where there is memory of fake:0"))));
  EXPECT_OK(Free(device_, block));
}

TEST_F(RawMemoryTest, MissingCapabilities) {
  Device device = bare().device(0);
  char memory[64];
  EXPECT_THAT(AllocateHost(device, 64),
              StatusIs(absl::StatusCode::kUnimplemented,
                       "pinned allocation on bare:0 failed: backend \"bare\" "
                       "does not implement host_alloc"));
  EXPECT_THAT(RegisterHost(device, memory, sizeof memory),
              StatusIs(absl::StatusCode::kUnimplemented,
                       HasSubstr("backend \"bare\"")));
  EXPECT_EQ(Must(GetPointerInfo(memory)).kind, PointerKind::kUnregistered);
}

// C42
TEST_F(RawMemoryTest, RefusedInHostFunctions) {
  void* block = Must(Allocate(device_, 64));
  void* pinned = Must(AllocateHost(device_, 64));
  {
    internal::HostFunctionScope inside;
    const auto refused =
        StatusIs(absl::StatusCode::kFailedPrecondition,
                 HasSubstr("was called inside a host function"));
    EXPECT_THAT(Allocate(device_, 64), refused);
    EXPECT_THAT(AllocateHost(device_, 64), refused);
    EXPECT_THAT(Free(device_, block), refused);
    EXPECT_THAT(FreeHost(pinned), refused);
    EXPECT_THAT(RegisterHost(device_, &inside, 1), refused);
    EXPECT_THAT(UnregisterHost(device_, &inside), refused);
    EXPECT_OK(GetPointerInfo(block));
  }
  EXPECT_OK(Free(device_, block));
  EXPECT_OK(FreeHost(pinned));
}

// C70
TEST_F(RawMemoryTest, RegistrationRefusesOverlapsAndInnerPointers) {
  std::vector<char> memory(4096);
  char* begin = memory.data();
  ASSERT_OK(RegisterHost(device_, begin + 100, 1000));
  EXPECT_EQ(live(), 1);
  for (const auto& [offset, bytes] :
       {std::pair{100, 1000}, {0, 101}, {1099, 1}, {0, 4096}}) {
    EXPECT_THAT(RegisterHost(fake().device(1), begin + offset, bytes),
                StatusIs(absl::StatusCode::kAlreadyExists,
                         HasSubstr("registered host memory of fake:0")));
  }
  EXPECT_THAT(UnregisterHost(device_, begin + 101),
              StatusIs(kInvalid, HasSubstr("is not the beginning")));
  EXPECT_THAT(FreeHost(begin + 100),
              StatusIs(kInvalid, HasSubstr("is registered host memory")));
  ASSERT_OK(UnregisterHost(device_, begin + 100));
  for (int offset : {100, 101}) {
    EXPECT_THAT(
        UnregisterHost(device_, begin + offset),
        StatusIs(absl::StatusCode::kNotFound, HasSubstr("is not registered")));
  }
}

// C70
TEST_F(RawMemoryTest, WrongRanges) {
  void* block = Must(Allocate(device_, 64));
  void* pinned = Must(AllocateHost(device_, 64));
  char byte = 0;
  EXPECT_THAT(RegisterHost(device_, nullptr, 1),
              StatusIs(kInvalid, HasSubstr("")));
  EXPECT_THAT(RegisterHost(device_, &byte, 0),
              StatusIs(kInvalid, HasSubstr("0 bytes at 0x")));
  EXPECT_THAT(RegisterHost(device_, &byte, ~uint64_t{0}),
              StatusIs(kInvalid, HasSubstr("needs a range of host memory")));
  EXPECT_THAT(RegisterHost(device_, block, 64),
              StatusIs(kInvalid, HasSubstr("overlap memory of fake:0")));
  EXPECT_THAT(RegisterHost(device_, Plus(pinned, 8), 8),
              StatusIs(kInvalid, HasSubstr("overlap pinned host memory")));
  EXPECT_OK(Free(device_, block));
  EXPECT_OK(FreeHost(pinned));
}

TEST_F(RawMemoryTest, FailedRegistrationLeavesNothing) {
  char byte = 0;
  FakeFailure local;
  local.code = DEVRT_INVALID_ARGUMENT;
  fake().Fail("host_register", local);
  EXPECT_FALSE(RegisterHost(device_, &byte, 1).ok());
  EXPECT_OK(RegisterHost(device_, &byte, 1));
  EXPECT_OK(UnregisterHost(device_, &byte));
}

// C71
TEST_F(RawMemoryTest, PointerInfo) {
  void* block = Must(Allocate(device_, 1000));
  void* pinned = Must(AllocateHost(fake().device(1), 500));
  const PointerInfo info = Must(GetPointerInfo(Plus(block, 999)));
  EXPECT_EQ(info.kind, PointerKind::kDevice);
  EXPECT_EQ(*info.device, device_);
  EXPECT_EQ(info.base, block);
  EXPECT_EQ(info.size, 1000u);
  EXPECT_NE(info.id, 0u);
  EXPECT_FALSE(info.host_readable);
  const PointerInfo host = Must(GetPointerInfo(Plus(pinned, 1)));
  EXPECT_EQ(host.kind, PointerKind::kPinned);
  EXPECT_EQ(*host.device, fake().device(1));
  EXPECT_EQ(host.base, pinned);
  EXPECT_EQ(host.size, 500u);
  EXPECT_NE(host.id, info.id);
  EXPECT_TRUE(host.host_readable);
  ASSERT_OK(FreeHost(pinned));
  ASSERT_OK(Free(device_, block));
  int stack = 0;
  for (const void* pointer :
       {static_cast<const void*>(nullptr), static_cast<const void*>(&stack),
        static_cast<const void*>(block)}) {
    const PointerInfo none = Must(GetPointerInfo(pointer));
    EXPECT_EQ(none.kind, PointerKind::kUnregistered);
    EXPECT_FALSE(none.device.has_value());
    EXPECT_EQ(none.base, nullptr);
    EXPECT_EQ(none.id, 0u);
  }
}

TEST_F(RawMemoryTest, PointersOfOtherLibraries) {
  char foreign[100];
  fake().foreign.kind = DEVRT_POINTER_MANAGED;
  fake().foreign.device = 1;
  fake().foreign.base = foreign;
  fake().foreign.size = sizeof foreign;
  const PointerInfo info = Must(GetPointerInfo(foreign + 50));
  EXPECT_EQ(info.kind, PointerKind::kManaged);
  EXPECT_EQ(*info.device, fake().device(1));
  EXPECT_EQ(info.base, foreign);
  EXPECT_EQ(info.id, 0u);
  fake().foreign.device = 7;  // a device that does not exist
  EXPECT_EQ(Must(GetPointerInfo(foreign)).kind, PointerKind::kUnregistered);
  fake().foreign = {};
}

TEST_F(RawMemoryTest, PointerQueriesThatFailAreNoError) {
  int stack = 0;
  fake().Fail("pointer_info", FakeFailure());
  EXPECT_EQ(Must(GetPointerInfo(&stack)).kind, PointerKind::kUnregistered);
}

TEST(PointerKindTest, EveryKindHasAName) {
  EXPECT_STREQ(ToString(PointerKind::kUnregistered), "unregistered");
  EXPECT_STREQ(ToString(PointerKind::kDevice), "device");
  EXPECT_STREQ(ToString(PointerKind::kPinned), "pinned");
  EXPECT_STREQ(ToString(PointerKind::kManaged), "managed");
}

}  // namespace
}  // namespace devrt
