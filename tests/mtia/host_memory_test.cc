// SPDX-License-Identifier: Apache-2.0
//
// Pinned and registered host memory.
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "backends/mtia/memory/memory.h"
#include "tests/mtia/memory_fixture.h"

namespace devrt::mtia {
namespace {

using test::OwnedStatus;
using testing::HasSubstr;

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

TEST_F(MemoryTest, UnregisterRefusesUnknownRanges) {
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

TEST_F(MemoryTest, RegisterRefusesOtherThanPlainHostMemory) {
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

}  // namespace
}  // namespace devrt::mtia
