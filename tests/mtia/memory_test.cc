// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/memory.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/mtia/memory_fixture.h"

namespace devrt::mtia {
namespace {

using test::OwnedStatus;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr uint64_t kKiB = 1024;
constexpr uint64_t kMiB = 1024 * kKiB;

bool All(const std::byte* bytes, uint64_t size, int value) {
  return bytes[0] == std::byte(value) &&
         std::memcmp(bytes, bytes + 1, size - 1) == 0;
}

// ---- capacity and placement -------------------------------------------------

TEST_F(MemoryTest, InfoLeavesOutTheOverheadAndCountsRoundedSizes) {
  Make();
  uint64_t free_bytes = 0;
  uint64_t total = 0;
  memory_->Info(0, &free_bytes, &total);
  EXPECT_EQ(total, 4 * kMiB);
  EXPECT_EQ(free_bytes, 3 * kMiB);

  std::byte* a = Alloc(0, 1);
  std::byte* b = Alloc(0, 513);
  EXPECT_EQ(FreeBytes(0), 3 * kMiB - 512 - 1024);
  EXPECT_EQ(FreeBytes(1), 3 * kMiB);
  EXPECT_EQ(memory_->live_blocks(), 2u);
  EXPECT_TRUE(Free(0, a).ok());
  EXPECT_TRUE(Free(0, b).ok());
  EXPECT_EQ(FreeBytes(0), 3 * kMiB);
  EXPECT_EQ(memory_->live_blocks(), 0u);
}

TEST_F(MemoryTest, ADeviceCanBeFilledToTheLastByte) {
  Make();
  for (int i = 0; i < 6; ++i) Alloc(0, kMiB / 2);
  EXPECT_EQ(FreeBytes(0), 0u);
  void* ptr = this;
  const OwnedStatus status = TryAlloc(0, 1, &ptr);
  EXPECT_EQ(status.code(), DEVRT_RESOURCE_EXHAUSTED);
  EXPECT_EQ(status.native_code(), 2);
  EXPECT_EQ(ptr, this);
}

TEST_F(MemoryTest, OutOfMemoryNamesTheNumbersAndChangesNothing) {
  Make();
  Alloc(0, kMiB);
  for (const uint64_t size :
       {2 * kMiB + 1, 4 * kMiB, 4 * kMiB + 1, uint64_t{1} << 60,
        ~uint64_t{0} - 600, ~uint64_t{0}}) {
    void* ptr = nullptr;
    const OwnedStatus status = TryAlloc(0, size, &ptr);
    EXPECT_EQ(status.code(), DEVRT_RESOURCE_EXHAUSTED);
    EXPECT_THAT(status.text(),
                AllOf(HasSubstr("mtia:0 is out of memory: "),
                      HasSubstr(std::to_string(size) + " bytes asked for"),
                      HasSubstr("total 4194304"), HasSubstr("free 2097152"),
                      HasSubstr("largest free range 2097152"),
                      Not(HasSubstr("fragmented"))));
  }
  EXPECT_EQ(FreeBytes(0), 2 * kMiB);
  Alloc(0, 2 * kMiB);
}

TEST_F(MemoryTest, FragmentationFailsARequestThatTheFreeBytesWouldServe) {
  Make();
  std::byte* a = Alloc(0, kMiB);
  std::byte* b = Alloc(0, kMiB);
  std::byte* c = Alloc(0, kMiB);
  EXPECT_TRUE(Free(0, a).ok());
  EXPECT_TRUE(Free(0, c).ok());
  EXPECT_EQ(FreeBytes(0), 2 * kMiB);
  void* ptr = nullptr;
  const OwnedStatus status = TryAlloc(0, 2 * kMiB, &ptr);
  EXPECT_EQ(status.code(), DEVRT_RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.text(),
              AllOf(HasSubstr("fragmented"), HasSubstr("free 2097152"),
                    HasSubstr("largest free range 1048576")));
  Alloc(0, kMiB);
  EXPECT_TRUE(Free(0, b).ok());
  // Now the upper two thirds are one range.
  Alloc(0, 2 * kMiB);
}

TEST_F(MemoryTest, PointersHaveTheAlignmentAskedFor) {
  Make();
  for (const uint64_t alignment :
       {0ull, 1ull, 256ull, 4096ull, 1ull << 21, 1ull << 30}) {
    Alloc(0, 1);
    void* ptr = nullptr;
    ASSERT_TRUE(TryAlloc(0, 700, &ptr, alignment).ok());
    const uint64_t least = std::max<uint64_t>(alignment, 512);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(ptr) % least, 0u) << alignment;
  }
  void* ptr = nullptr;
  for (const uint64_t alignment : {3ull, 1ull << 31, ~0ull}) {
    EXPECT_EQ(TryAlloc(0, 1, &ptr, alignment).code(), DEVRT_INVALID_ARGUMENT);
  }
  EXPECT_EQ(TryAlloc(0, 0, &ptr).code(), DEVRT_INVALID_ARGUMENT);
  EXPECT_THAT(TryAlloc(2, 1, &ptr).text(),
              HasSubstr("Device index value 2 is out of index range [0, 2)"));
}

TEST_F(MemoryTest, BlocksKeepTheGapBetweenThem) {
  Make("memory=4MiB,gap=1KiB");
  std::byte* a = Alloc(0, 512);
  std::byte* b = Alloc(0, 512);
  EXPECT_EQ(b - a, 512 + 1024);
  EXPECT_EQ(memory_->Find(a + 512).local, nullptr);
}

TEST_F(MemoryTest, FreedRangesAreNotReusedWhileThereIsRoom) {
  Make();
  std::set<std::byte*> seen;
  for (int i = 0; i < 2000; ++i) {
    std::byte* small = Alloc(0, 512);
    std::byte* large = Alloc(0, 2 * kMiB);
    EXPECT_TRUE(seen.insert(small).second);
    EXPECT_TRUE(i >= 500 || seen.insert(large).second);
    EXPECT_TRUE(Free(0, small).ok());
    EXPECT_TRUE(Free(0, large).ok());
  }
}

TEST_F(MemoryTest, LongRunsReuseTheWindow) {
  // 16,384 freed blocks are remembered, and 4 GiB hold 8 of these.
  Make("memory=512MiB,poison=off");
  for (int i = 0; i < 20'000; ++i) {
    ASSERT_TRUE(Free(0, Alloc(0, 512)).ok());
    if (i % 100 != 0) continue;
    ASSERT_TRUE(Free(0, Alloc(0, 400 * kMiB)).ok());
  }
  EXPECT_EQ(FreeBytes(0), 511 * kMiB);
}

TEST_F(MemoryTest, SmallBlocksThatStayDoNotCutTheWindow) {
  Make("memory=512MiB,poison=off");
  for (uint64_t i = 0; i < 300; ++i) {
    Alloc(0, 512);
    std::byte* large = Alloc(0, 200 * kMiB + i * kMiB / 2);
    ASSERT_TRUE(Free(0, large).ok());
  }
}

TEST_F(MemoryTest, PointersRepeatAfterResetAndRecreation) {
  Make();
  const auto run = [&] {
    std::vector<std::byte*> pointers;
    for (const uint64_t size : {1ull, 70000ull, 513ull, 2097152ull}) {
      pointers.push_back(Alloc(0, size));
      pointers.push_back(Alloc(1, size));
    }
    EXPECT_TRUE(Free(0, pointers[0]).ok());
    pointers.push_back(Alloc(0, 1));
    pointers.push_back(HostAlloc(0, 5000));
    return pointers;
  };
  const auto first = run();
  memory_->Reset(Parse("memory=4MiB,overhead=1MiB"));
  EXPECT_EQ(run(), first);
  memory_.reset();
  Make();
  EXPECT_EQ(run(), first);
  // Another size of window, and back.
  ASSERT_TRUE(memory_->Reset(Parse("memory=2GiB")));
  Alloc(0, 1500 * kMiB);
  ASSERT_TRUE(memory_->Reset(Parse("memory=4MiB,overhead=1MiB")));
  EXPECT_EQ(run(), first);
}

// ---- errors of free ---------------------------------------------------------

TEST_F(MemoryTest, FreeOfNullIsFine) {
  Make();
  EXPECT_TRUE(Free(0, nullptr).ok());
  EXPECT_TRUE(HostFree(nullptr).ok());
}

TEST_F(MemoryTest, SecondFreeNamesAllSites) {
  Make();
  std::byte* ptr = Alloc(0, 100, 10);
  EXPECT_TRUE(Free(0, ptr, 20).ok());
  const OwnedStatus status = Free(0, ptr, 30);
  EXPECT_EQ(status.code(), DEVRT_INVALID_ARGUMENT);
  EXPECT_EQ(status.native_code(), 1);
  EXPECT_THAT(status.text(),
              AllOf(HasSubstr("second free, at test.cc:30"),
                    HasSubstr("100 bytes, allocated at test.cc:10"),
                    HasSubstr("freed at test.cc:20")));
}

TEST_F(MemoryTest, FreeOfWhatIsNoBlockSaysWhatItIs) {
  Make();
  std::byte* a = Alloc(0, 100, 10);
  std::byte* b = Alloc(1, 200, 11);
  std::byte* pinned = HostAlloc(0, 300, 12);
  int plain = 0;
  const struct {
    OwnedStatus status;
    const char* text;
  } cases[] = {
      {Free(0, a + 16), "16 bytes into block #"},
      {Free(0, a + 100), "0 bytes behind block #"},
      {Free(0, a + 64 * kMiB), "outside every block of mtia:0"},
      {Free(0, b), "of mtia:1 (200 bytes, allocated at test.cc:11)"},
      {Free(1, a), "of mtia:0 (100 bytes, allocated at test.cc:10)"},
      {Free(0, pinned), "of pinned host memory (300 bytes"},
      {Free(0, &plain), "plain host memory"},
      {HostFree(&plain), "plain host memory"},
      {HostFree(a), "of mtia:0 (100 bytes"},
      {HostFree(pinned + 8), "8 bytes into block #"},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(c.status.code(), DEVRT_INVALID_ARGUMENT) << c.text;
    EXPECT_THAT(c.status.text(), HasSubstr(c.text));
    EXPECT_THAT(c.status.text(), HasSubstr("free at test.cc:2"));
  }
  EXPECT_EQ(memory_->live_blocks(), 2u);
}

TEST_F(MemoryTest, LabelsAreCopied) {
  Make();
  std::string label = "weights";
  void* ptr = nullptr;
  const devrt_call_site_v0 site = {"a.cc", 3, 0, label.c_str()};
  ASSERT_TRUE(OwnedStatus(memory_->Alloc(0, 8, 0, site, &ptr)).ok());
  label = "XXXXXXX";
  EXPECT_THAT(WhyNot(0, ptr, 9), HasSubstr("allocated at a.cc:3 (weights)"));
}

// ---- looking ----------------------------------------------------------------

TEST_F(MemoryTest, FindTellsWhatAPointerIs) {
  Make();
  std::byte* a = Alloc(1, 1000);
  const Resolved inside = memory_->Find(a + 999);
  EXPECT_EQ(inside.space, Space::kDevice);
  EXPECT_EQ(inside.device, 1u);
  EXPECT_EQ(inside.base, a);
  EXPECT_EQ(inside.size, 1000u);
  EXPECT_EQ(inside.offset, 999u);
  EXPECT_NE(inside.id, 0u);
  EXPECT_NE(inside.local, a + 999);
  EXPECT_EQ(inside.local, Local(1, a + 999, 1));

  for (const std::byte* nobody : {a + 1000, a - 1, a + 8 * kMiB}) {
    EXPECT_EQ(memory_->Find(nobody).space, Space::kHost);
    EXPECT_EQ(memory_->Find(nobody).local, nullptr);
  }
  EXPECT_TRUE(Free(1, a).ok());
  EXPECT_EQ(memory_->Find(a).space, Space::kHost);
  EXPECT_EQ(memory_->Find(a).local, nullptr);

  int plain = 0;
  EXPECT_EQ(memory_->Find(&plain).space, Space::kHost);
  EXPECT_EQ(memory_->Find(&plain).local, reinterpret_cast<std::byte*>(&plain));
  EXPECT_EQ(memory_->Find(nullptr).local, nullptr);
}

TEST_F(MemoryTest, IdsAreNeverReused) {
  Make();
  std::set<uint64_t> ids;
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(ids.insert(memory_->Find(Alloc(0, 8)).id).second);
    EXPECT_TRUE(ids.insert(memory_->Find(HostAlloc(0, 8)).id).second);
    if (i % 2 == 0) memory_->Reset(Parse(""));
    if (i % 3 == 0) Make();
  }
}

TEST_F(MemoryTest, LocalRefusesWhatADeviceMayNotTouch) {
  Make();
  std::byte* a = Alloc(0, 1024, 7);
  EXPECT_EQ(Local(0, a, 1024) + 512, Local(0, a + 512, 512));
  EXPECT_THAT(WhyNot(0, a + 1016, 16),
              AllOf(HasSubstr("16 bytes at 0x"), HasSubstr("only 8 bytes"),
                    HasSubstr("(1024 bytes, allocated at test.cc:7)")));
  EXPECT_THAT(WhyNot(0, a, ~uint64_t{0}), HasSubstr("only 1024 bytes"));
  EXPECT_THAT(WhyNot(0, a + 1024, 1), HasSubstr("0 bytes behind block #"));
  EXPECT_THAT(WhyNot(0, nullptr, 1), HasSubstr("null"));
  int plain = 0;
  EXPECT_THAT(WhyNot(0, &plain, 4), HasSubstr("plain host memory"));
  EXPECT_TRUE(Free(0, a, 9).ok());
  EXPECT_THAT(WhyNot(0, a + 4, 4),
              AllOf(HasSubstr("4 bytes into freed block #"),
                    HasSubstr("freed at test.cc:9")));
  EXPECT_NE(Local(0, nullptr, 0), nullptr);
}

TEST_F(MemoryTest, LocalOfAPeerNeedsAccess) {
  Make();
  std::byte* a = Alloc(1, 64);
  EXPECT_THAT(WhyNot(0, a, 64),
              HasSubstr("peer access from mtia:0 to it is not enabled"));
  ASSERT_TRUE(OwnedStatus(memory_->EnablePeer(0, 1)).ok());
  EXPECT_EQ(Local(0, a, 64), Local(1, a, 64));
  EXPECT_EQ(Local(0, Alloc(1, 64), 64)[0], std::byte(0xFF));  // C77
  std::byte* own = Alloc(0, 64);
  EXPECT_THAT(WhyNot(1, own, 64), HasSubstr("not enabled"));  // C75
}

TEST_F(MemoryTest, DevicesHaveMemoriesOfTheirOwn) {
  Make();
  std::byte* a = Local(0, Alloc(0, 64), 64);
  std::byte* b = Local(1, Alloc(1, 64), 64);
  std::memset(a, 1, 64);
  std::memset(b, 2, 64);
  EXPECT_TRUE(All(a, 64, 1));
  EXPECT_TRUE(All(b, 64, 2));
}

// ---- poison -----------------------------------------------------------------

TEST_F(MemoryTest, SmallBlocksArePoisonedWhole) {
  Make();
  std::byte* a = Alloc(0, 64 * kKiB);
  std::byte* local = Local(0, a, 64 * kKiB);
  EXPECT_TRUE(All(local, 64 * kKiB, 0xFF));
  std::memset(local, 5, 64 * kKiB);
  EXPECT_TRUE(Free(0, a).ok());
  EXPECT_TRUE(All(local, 64 * kKiB, 0xDD));
}

TEST_F(MemoryTest, LargeBlocksArePoisonedAtTheEdges) {
  Make();
  constexpr uint64_t kSize = kMiB + 300;
  std::byte* a = Alloc(0, kSize);
  std::byte* local = Local(0, a, kSize);
  EXPECT_TRUE(All(local, 4 * kKiB, 0xFF));
  EXPECT_TRUE(All(local + kSize - 4 * kKiB, 4 * kKiB, 0xFF));
  EXPECT_TRUE(All(local + 16 * kKiB, kSize - 32 * kKiB, 0));
  std::memset(local, 5, kSize);
  EXPECT_TRUE(Free(0, a).ok());
  EXPECT_TRUE(All(local, 4 * kKiB, 0xDD));
  EXPECT_TRUE(All(local + kSize - 4 * kKiB, 4 * kKiB, 0xDD));
}

TEST_F(MemoryTest, PoisonFullAndOff) {
  Make("memory=4MiB,poison=full");
  std::byte* a = Alloc(0, kMiB);
  std::byte* local = Local(0, a, kMiB);
  EXPECT_TRUE(All(local, kMiB, 0xFF));
  EXPECT_TRUE(Free(0, a).ok());
  EXPECT_TRUE(All(local, kMiB, 0xDD));

  memory_->Reset(Parse("memory=4MiB,poison=off"));
  for (const uint64_t size : {uint64_t{3}, 5000 * uint64_t{1}, kMiB}) {
    std::byte* b = Alloc(0, size);
    local = Local(0, b, size);
    EXPECT_TRUE(All(local, size, 0)) << size;
    std::memset(local, 7, size);
    EXPECT_TRUE(Free(0, b).ok());
    EXPECT_TRUE(All(local, size, 7)) << size;
  }
}

TEST_F(MemoryTest, FreshMemoryDoesNotShowTheRunBefore) {
  for (const char* poison : {"full", "edges", "off"}) {
    const std::string text = std::string("memory=8MiB,poison=") + poison;
    Make(text);
    std::vector<std::vector<std::byte>> runs;
    for (int run = 0; run < 3; ++run) {
      memory_->Reset(Parse(text));
      std::vector<std::byte> seen;
      for (const uint64_t size :
           {uint64_t{100}, 64 * kKiB + 1, uint64_t{513}, 2 * kMiB + 12345}) {
        std::byte* local = Local(0, Alloc(0, size), size);
        seen.insert(seen.end(), local, local + size);
        std::memset(local, 0x11 * (run + 1), size);
      }
      runs.push_back(std::move(seen));
    }
    EXPECT_TRUE(runs[0] == runs[1] && runs[1] == runs[2]) << poison;
  }
}

// ---- pinned memory ----------------------------------------------------------

TEST_F(MemoryTest, PinnedMemoryIsTheHostsToo) {
  Make();
  std::byte* a = HostAlloc(1, 100);
  std::memset(a, 3, 100);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(a) % 4096, 0u);
  const Resolved found = memory_->Find(a + 1);
  EXPECT_EQ(found.space, Space::kPinned);
  EXPECT_EQ(found.device, 1u);
  EXPECT_EQ(found.local, a + 1);
  EXPECT_EQ(found.base, a);
  EXPECT_EQ(found.size, 100u);
  EXPECT_EQ(Local(0, a, 100), a);
  EXPECT_THAT(WhyNot(0, a, 101), HasSubstr("only 100 bytes"));
  EXPECT_EQ(memory_->live_pinned(), 1u);
  EXPECT_TRUE(HostFree(a).ok());
  EXPECT_EQ(memory_->live_pinned(), 0u);
  EXPECT_EQ(memory_->Find(a).local, nullptr);
  EXPECT_THAT(HostFree(a).text(), HasSubstr("second free"));
}

TEST_F(MemoryTest, PinnedMemoryHasALimitButNoFragmentation) {
  Make("memory=4MiB,pinned=3MiB");
  std::byte* a = HostAlloc(0, kMiB);
  HostAlloc(0, kMiB);
  std::byte* c = HostAlloc(0, kMiB);
  void* ptr = nullptr;
  const OwnedStatus status = memory_->HostAlloc(0, 1, 0, Site(1), &ptr);
  EXPECT_EQ(status.code(), DEVRT_RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.text(), HasSubstr("pinned host memory is out of memory"));
  EXPECT_TRUE(HostFree(a).ok());
  EXPECT_TRUE(HostFree(c).ok());
  HostAlloc(0, 2 * kMiB);
}

// ---- registered memory ------------------------------------------------------

TEST_F(MemoryTest, RegisteredMemoryIsAccessible) {
  Make();
  std::vector<std::byte> buffer(1000);
  std::byte* p = buffer.data();
  ASSERT_TRUE(OwnedStatus(memory_->Register(1, p + 10, 100, Site(5))).ok());
  const Resolved found = memory_->Find(p + 15);
  EXPECT_EQ(found.space, Space::kRegistered);
  EXPECT_EQ(found.device, 1u);
  EXPECT_EQ(found.base, p + 10);
  EXPECT_EQ(found.size, 100u);
  EXPECT_EQ(found.offset, 5u);
  EXPECT_EQ(found.local, p + 15);
  EXPECT_EQ(Local(0, p + 10, 100), p + 10);
  EXPECT_THAT(WhyNot(0, p + 10, 101),
              HasSubstr("to the end of registered host memory"));
  EXPECT_EQ(memory_->Find(p + 9).space, Space::kHost);
  EXPECT_EQ(memory_->Find(p + 110).space, Space::kHost);
  EXPECT_EQ(memory_->live_registered(), 1u);
  EXPECT_TRUE(OwnedStatus(memory_->Unregister(p + 10)).ok());
  EXPECT_EQ(memory_->Find(p + 15).space, Space::kHost);
  EXPECT_EQ(memory_->live_registered(), 0u);
}

TEST_F(MemoryTest, RegistrationRefusesAnyOverlap) {
  Make();
  std::vector<std::byte> buffer(1000);
  std::byte* p = buffer.data();
  ASSERT_TRUE(OwnedStatus(memory_->Register(0, p + 100, 100, Site(5))).ok());
  const std::pair<int, uint64_t> overlaps[] = {
      {100, 100}, {0, 101}, {199, 1}, {150, 10}, {50, 500}, {199, 100}};
  for (const auto& [at, size] : overlaps) {
    const OwnedStatus status = memory_->Register(0, p + at, size, Site(6));
    EXPECT_EQ(status.code(), DEVRT_ALREADY_EXISTS) << at;
    EXPECT_EQ(status.native_code(), 712);
    EXPECT_THAT(status.text(), HasSubstr("registered at test.cc:5"));
  }
  EXPECT_TRUE(OwnedStatus(memory_->Register(0, p, 100, Site(6))).ok());
  EXPECT_TRUE(OwnedStatus(memory_->Register(0, p + 200, 1, Site(6))).ok());
  EXPECT_EQ(memory_->live_registered(), 3u);
}

TEST_F(MemoryTest, UnregisterOfWhatIsNoRange) {
  Make();
  std::vector<std::byte> buffer(1000);
  std::byte* p = buffer.data();
  ASSERT_TRUE(OwnedStatus(memory_->Register(0, p, 100, Site(5))).ok());
  const OwnedStatus interior = memory_->Unregister(p + 1);
  EXPECT_EQ(interior.code(), DEVRT_INVALID_ARGUMENT);
  EXPECT_EQ(interior.native_code(), 1);
  EXPECT_THAT(interior.text(), HasSubstr("1 byte into"));
  EXPECT_TRUE(OwnedStatus(memory_->Unregister(p)).ok());
  for (std::byte* unknown : {p, p + 1, p + 100, HostAlloc(0, 8)}) {
    const OwnedStatus status = memory_->Unregister(unknown);
    EXPECT_EQ(status.code(), DEVRT_NOT_FOUND);
    EXPECT_EQ(status.native_code(), 713);
  }
}

TEST_F(MemoryTest, RegisterRefusesWhatIsNoPlainHostMemory) {
  Make();
  std::byte* device = Alloc(0, 100);
  std::byte* pinned = HostAlloc(0, 100);
  std::byte plain[8];
  auto* unmapped = reinterpret_cast<std::byte*>(uintptr_t{4096});
  const std::pair<std::byte*, uint64_t> cases[] = {{device, 1},
                                                   {device + 50, 10},
                                                   {pinned, 8},
                                                   {nullptr, 8},
                                                   {plain, 0},
                                                   {plain, ~uint64_t{0}},
                                                   {plain, ~uint64_t{0} - 4096},
                                                   {unmapped, 8}};
  for (const auto& [ptr, size] : cases) {
    const OwnedStatus status = memory_->Register(0, ptr, size, Site(6));
    EXPECT_EQ(status.code(), DEVRT_INVALID_ARGUMENT) << status.text();
    EXPECT_EQ(status.native_code(), 1);
  }
  EXPECT_EQ(memory_->live_registered(), 0u);
}

// ---- reset ------------------------------------------------------------------

TEST_F(MemoryTest, ResetForgetsEverything) {
  Make();
  std::byte* a = Alloc(0, 100);
  std::byte* pinned = HostAlloc(0, 100);
  std::vector<std::byte> buffer(100);
  ASSERT_TRUE(
      OwnedStatus(memory_->Register(0, buffer.data(), 100, Site(1))).ok());
  ASSERT_TRUE(OwnedStatus(memory_->EnablePeer(0, 1)).ok());
  ASSERT_TRUE(memory_->Reset(Parse("memory=8MiB,peers=none")));
  EXPECT_EQ(memory_->live_blocks(), 0u);
  EXPECT_EQ(memory_->live_pinned(), 0u);
  EXPECT_EQ(memory_->live_registered(), 0u);
  EXPECT_FALSE(memory_->PeerEnabled(0, 1));
  EXPECT_FALSE(memory_->CanAccessPeer(0, 1));
  EXPECT_EQ(memory_->Find(a).local, nullptr);
  EXPECT_EQ(memory_->Find(pinned).local, nullptr);
  EXPECT_EQ(FreeBytes(0), 7 * kMiB);
}

TEST_F(MemoryTest, ResetCanChangeTheNumberOfDevices) {
  Make();
  ASSERT_TRUE(memory_->Reset(Parse("devices=5,memory=4MiB")));
  EXPECT_EQ(memory_->Find(Alloc(4, 8)).device, 4u);
}

TEST_F(MemoryTest, ResetThatTheSystemRefusesLeavesAnEmptyMemory) {
  Make();
  Alloc(0, 8);
  std::string error;
  Config huge = Parse("memory=1TiB");
  huge.memory = 1ull << 50;
  EXPECT_FALSE(memory_->Reset(huge, &error));
  EXPECT_THAT(error, HasSubstr("addresses"));
  EXPECT_EQ(memory_->live_blocks(), 0u);
  EXPECT_EQ(FreeBytes(0), 3 * kMiB);
  Alloc(0, 8);
}

TEST_F(MemoryTest, ManyDevicesAndSeveralMachinesAtOnce) {
  Make("devices=64");
  std::byte* a = Alloc(63, 100);
  std::unique_ptr<Memory> first = std::move(memory_);
  Make("devices=8,memory=2GiB");
  std::byte* b = Alloc(7, 100);
  EXPECT_EQ(first->Find(a).device, 63u);
  EXPECT_EQ(memory_->Find(b).device, 7u);
  EXPECT_NE(memory_->Find(a).space, Space::kDevice);
}

// ---- against a model, and from many threads
// -----------------------------------

TEST_F(MemoryTest, AgreesWithAModelOverRandomCalls) {
  constexpr unsigned kSeed = 4711;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  std::mt19937 random(kSeed);
  Make("memory=8MiB,overhead=1MiB,granularity=256,gap=256");
  std::map<std::byte*, uint64_t> model;
  uint64_t used = 0;
  const auto rounded = [](uint64_t n) { return (n + 255) / 256 * 256; };
  for (int i = 0; i < 3000; ++i) {
    if (random() % 2 == 0 || model.empty()) {
      const uint64_t size = 1 + random() % (random() % 4 == 0 ? kMiB : 3000);
      void* ptr = nullptr;
      const OwnedStatus status = TryAlloc(0, size, &ptr);
      if (!status.ok()) {
        const bool fits = size <= 7 * kMiB - used;
        EXPECT_EQ(status.text().find("fragmented") != std::string::npos, fits);
        continue;
      }
      auto* p = static_cast<std::byte*>(ptr);
      const auto next = model.lower_bound(p);
      if (next != model.end()) {
        EXPECT_LE(p + size + 256, next->first);
      }
      if (next != model.begin()) {
        const auto before = std::prev(next);
        EXPECT_GE(p, before->first + before->second + 256);
      }
      model[p] = size;
      used += rounded(size);
    } else {
      auto victim = model.begin();
      std::advance(victim, random() % model.size());
      EXPECT_TRUE(Free(0, victim->first).ok());
      used -= rounded(victim->second);
      model.erase(victim);
    }
    EXPECT_EQ(FreeBytes(0), 7 * kMiB - used);
  }
  for (const auto& [p, size] : model) {
    EXPECT_EQ(memory_->Find(p + size - 1).base, p);
  }
}

TEST_F(MemoryTest, ServesManyThreads) {
  Make();
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      std::byte buffer[64];
      for (int i = 0; i < 200; ++i) {
        const uint32_t device = (t + static_cast<uint32_t>(i)) % 2;
        std::byte* a = Alloc(device, 512 + t);
        std::memset(Local(device, a, 512), static_cast<int>(t), 512);
        std::byte* pinned = HostAlloc(device, 8);
        EXPECT_TRUE(
            OwnedStatus(memory_->Register(0, buffer, 64, Site(1))).ok());
        EXPECT_EQ(memory_->Find(buffer + 63).space, Space::kRegistered);
        EXPECT_EQ(memory_->Find(pinned).space, Space::kPinned);
        EXPECT_TRUE(All(Local(device, a, 512), 512, static_cast<int>(t)));
        const OwnedStatus peer =
            t == 0 ? memory_->EnablePeer(0, 1) : OwnedStatus(nullptr);
        EXPECT_TRUE(OwnedStatus(memory_->Unregister(buffer)).ok());
        EXPECT_TRUE(HostFree(pinned).ok());
        EXPECT_TRUE(Free(device, a).ok());
        memory_->CloseOpenedPages();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(memory_->live_blocks(), 0u);
  EXPECT_EQ(memory_->live_pinned(), 0u);
}

}  // namespace
}  // namespace devrt::mtia
