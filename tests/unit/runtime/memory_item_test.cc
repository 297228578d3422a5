// SPDX-License-Identifier: Apache-2.0
//
// Raw memory on the simulator: C61 to C64, C70 to C73, C102, and 2.6.

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "devrt/devrt.h"
#include "tests/support/mtia_fixture.h"
#include "tests/support/status_matchers.h"

namespace devrt::testing {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

using SimulatedMemory = MtiaTest;
// C61
TEST_F(SimulatedMemory, FreshMemoryIsPoisoned) {
  void* p = Must(Allocate(dev(), 64));
  uint64_t value = 0;
  ASSERT_OK(sim().Peek(p, &value, sizeof value));
  EXPECT_EQ(value, ~uint64_t{0});  // a NaN in every floating-point type
  EXPECT_OK(Free(dev(), p));
}

// C62
TEST_F(SimulatedMemory, OutOfMemoryIsNotStickyAndChangesNothing) {
  Must(sim().Reset("memory=64MiB"));
  const MemoryInfo before = Must(dev().GetMemoryInfo());
  absl::Status status = Allocate(dev(), uint64_t{1} << 40).status();
  EXPECT_STATUS(status, kResourceExhausted,
                "MTIA out of memory. Tried to allocate 1024.00 GiB. GPU 0 has "
                "a total capacity of 64.00 MiB of which ");
  auto info = GetOutOfMemoryInfo(status);
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->requested, uint64_t{1} << 40);
  EXPECT_EQ(info->total, 64 * kMiB);
  EXPECT_EQ(Must(dev().GetMemoryInfo()).free_bytes, before.free_bytes);
  void* p = Must(Allocate(dev(), kMiB));
  Stream s = NewStream();
  EXPECT_OK(FillAsync(s, p, 1, kMiB));
  EXPECT_OK(s.Synchronize());
  EXPECT_OK(Free(dev(), p));
}

// C62
TEST_F(SimulatedMemory, AnExabyteNeedsNoDevice) {
  EXPECT_STATUS(Allocate(dev(), uint64_t{1} << 60).status(), kResourceExhausted,
                "MTIA out of memory. Tried to allocate more than 1EB memory.");
  EXPECT_STATUS(Allocate(dev(), ~uint64_t{0}).status(), kResourceExhausted,
                "more than 1EB");
}

// C62
TEST_F(SimulatedMemory, FragmentationIsReal) {
  Must(sim().Reset("memory=9MiB,overhead=1MiB,gap=512"));
  // Neighbours, so that freeing every other one leaves holes.
  std::vector<void*> blocks;
  for (;;) {
    auto block = Allocate(dev(), kMiB);
    if (!block.ok()) break;
    blocks.push_back(*block);
  }
  ASSERT_GE(blocks.size(), 6u);
  for (size_t i = 0; i < blocks.size(); i += 2) {
    ASSERT_OK(Free(dev(), blocks[i]));
  }
  EXPECT_GE(Must(dev().GetMemoryInfo()).free_bytes, 2 * kMiB);
  EXPECT_FALSE(Allocate(dev(), 2 * kMiB).ok());
  void* small = Must(Allocate(dev(), kMiB));
  EXPECT_OK(Free(dev(), small));
  for (size_t i = 1; i < blocks.size(); i += 2) {
    ASSERT_OK(Free(dev(), blocks[i]));
  }
  void* large = Must(Allocate(dev(), 2 * kMiB));
  EXPECT_OK(Free(dev(), large));
}

// C63
TEST_F(SimulatedMemory, FreeRefusesOtherPointers) {
  char* p = static_cast<char*>(Must(Allocate(dev(), 4096)));
  void* pinned = Must(AllocateHost(dev(), 64));
  int on_stack = 0;
  EXPECT_OK(Free(dev(), nullptr));
  for (void* wrong :
       {static_cast<void*>(p + 512), static_cast<void*>(&on_stack), pinned}) {
    EXPECT_EQ(Free(dev(), wrong).code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(FreeHost(p).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_OK(Free(dev(), p));
  EXPECT_EQ(Free(dev(), p).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_OK(FreeHost(pinned));
  void* again = Must(Allocate(dev(), 4096));
  EXPECT_OK(Free(dev(), again));
}

// C64
TEST_F(SimulatedMemory, FreeDoesNotWait) {
  InEverySchedule([] {
    Stream s = NewStream();
    Flag gate = NewFlag();
    ASSERT_OK(gate.WaitOn(s));
    void* p = Must(Allocate(dev(), 4096));
    EXPECT_OK(Free(dev(), p));  // would hang
    EXPECT_FALSE(*s.Query());
    ASSERT_OK(gate.Set());
    ASSERT_OK(s.Synchronize());
  });
}

// C64
TEST_F(SimulatedMemory, RawFreeSyncsWaitsForItsDeviceOnly) {
  InVirtualSchedules(
      [] {
        void* p = Must(Allocate(dev(0), 4096));
        Stream s = NewStream(dev(0));
        Stream t = NewStream(dev(1));
        Flag gate = NewFlag(dev(1));
        ASSERT_OK(gate.WaitOn(t));
        ASSERT_OK(Spin(s, kLong));
        EXPECT_OK(Free(dev(0), p));
        EXPECT_TRUE(*s.Query());
        EXPECT_FALSE(*t.Query());
        ASSERT_OK(gate.Set());
        ASSERT_OK(t.Synchronize());
      },
      "raw_free_syncs=yes");
}

// C70
TEST_F(SimulatedMemory, RegistrationRefusesOverlapsAndOtherPointers) {
  std::vector<char> host(3 * 4096);
  char* p = host.data();
  ASSERT_OK(RegisterHost(dev(), p, 4096));
  EXPECT_EQ(RegisterHost(dev(), p, 4096).code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(RegisterHost(dev(), p + 4095, 2).code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(UnregisterHost(dev(), p + 8).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(UnregisterHost(dev(), p + 8192).code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(Must(GetPointerInfo(p + 100)).kind, PointerKind::kPinned);
  EXPECT_OK(UnregisterHost(dev(), p));
  EXPECT_EQ(UnregisterHost(dev(), p).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Must(GetPointerInfo(p)).kind, PointerKind::kUnregistered);
  void* pinned = Must(AllocateHost(dev(), 4096));
  void* device = Must(Allocate(dev(), 4096));
  for (void* wrong : {pinned, device}) {
    EXPECT_EQ(RegisterHost(dev(), wrong, 64).code(),
              absl::StatusCode::kInvalidArgument);
  }
  EXPECT_OK(FreeHost(pinned));
  EXPECT_OK(Free(dev(), device));
}

// C71
TEST_F(SimulatedMemory, PointerInfoDescribesPointers) {
  char* device = static_cast<char*>(Must(Allocate(dev(2), 1000)));
  char* pinned = static_cast<char*>(Must(AllocateHost(dev(1), 1000)));
  int on_stack = 0;
  for (int offset : {0, 999}) {
    PointerInfo d = Must(GetPointerInfo(device + offset));
    EXPECT_EQ(d.kind, PointerKind::kDevice);
    EXPECT_EQ(d.base, device);
    EXPECT_EQ(d.size, 1000u);  // as asked for
    ASSERT_TRUE(d.device.has_value());
    EXPECT_EQ(*d.device, dev(2));
    PointerInfo h = Must(GetPointerInfo(pinned + offset));
    EXPECT_EQ(h.kind, PointerKind::kPinned);
    EXPECT_EQ(h.base, pinned);
  }
  for (const void* plain : {static_cast<const void*>(&on_stack),
                            static_cast<const void*>(nullptr)}) {
    EXPECT_EQ(Must(GetPointerInfo(plain)).kind, PointerKind::kUnregistered);
  }
  EXPECT_OK(Free(dev(2), device));
  EXPECT_OK(FreeHost(pinned));
  EXPECT_EQ(Must(GetPointerInfo(device)).kind, PointerKind::kUnregistered);
}

// A raw allocation orders nothing: both results stay reachable.
// C73
TEST_F(SimulatedMemory, AllocationIsNoOrder) {
  ExpectOutcomes({1, 2}, [] {
    Cell x(dev());
    Stream s = NewStream();
    Stream t = NewStream();
    EXPECT_OK(Put(s, x, 1));
    void* p = Must(Allocate(dev(), 64));
    EXPECT_OK(Put(t, x, 2));
    EXPECT_OK(dev().Synchronize());
    EXPECT_OK(Free(dev(), p));
    return x.Peek();
  });
}

// C102
TEST_F(SimulatedMemory, ZeroBytes) {
  const MemoryInfo before = Must(dev().GetMemoryInfo());
  const auto unchanged = [&] {
    const SimulatorStats stats = Must(sim().Stats());
    const MemoryInfo now = Must(dev().GetMemoryInfo());
    EXPECT_EQ(stats.live_blocks, 0u);
    EXPECT_EQ(stats.live_pinned, 0u);
    EXPECT_EQ(stats.live_registered, 0u);
    EXPECT_EQ(now.free_bytes, before.free_bytes);
    EXPECT_EQ(now.total_bytes, before.total_bytes);
  };
  EXPECT_EQ(Must(Allocate(dev(), 0)), nullptr);
  unchanged();
  EXPECT_EQ(Must(AllocateHost(dev(), 0)), nullptr);
  unchanged();
  EXPECT_OK(Free(dev(), nullptr));
  EXPECT_OK(FreeHost(nullptr));
  unchanged();
  EXPECT_OK(sim().Reset());  // nothing is counted as alive
}

// C4
TEST_F(SimulatedMemory, MemoryIsOfTheNamedDeviceNotTheCurrent) {
  DeviceGuard on_three(dev(3));
  void* p = Must(Allocate(dev(1), 64));
  EXPECT_EQ(*Must(GetPointerInfo(p)).device, dev(1));
  EXPECT_EQ(Must(CurrentDevice("mtia")), dev(3));
  EXPECT_OK(Free(dev(1), p));
}

}  // namespace
}  // namespace devrt::testing
