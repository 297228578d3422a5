// SPDX-License-Identifier: Apache-2.0
//
// Device memory: placement, capacity, free, and looking pointers up.
#include "backends/mtia/memory/memory.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "tests/mtia/memory_fixture.h"

namespace devrt::mtia {
namespace {

using test::OwnedStatus;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

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
  for (const uint64_t alignment : {3ull, ~0ull}) {
    EXPECT_EQ(TryAlloc(0, 1, &ptr, alignment).code(), DEVRT_INVALID_ARGUMENT);
  }
  EXPECT_EQ(TryAlloc(0, 1, &ptr, 1ull << 31).code(), DEVRT_UNIMPLEMENTED);
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

TEST_F(MemoryTest, FreeOfAnotherPointerDescribesThePointer) {
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

TEST_F(MemoryTest, FindDescribesThePointer) {
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

TEST_F(MemoryTest, LocalRefusesInaccessibleRanges) {
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

}  // namespace
}  // namespace devrt::mtia
