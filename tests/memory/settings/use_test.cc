// SPDX-License-Identifier: Apache-2.0
//
// Settings and devices in use: the effects of settings, and the calls that fix
// them. Each test is in a process of its own.

#include <gtest/gtest.h>

#include <functional>
#include <optional>

#include "devrt/devrt.h"
#include "tests/support/mtia_fixture.h"
#include "tests/support/subprocess.h"

namespace devrt::testing {
namespace {

constexpr char kFraction[] = "per_process_memory_fraction:0.5";

TEST(SettingsInUse, AFractionThatIsNamedCountsAgain) {
  InChild([] {
    const Device device = MtiaTest::dev();
    ASSERT_OK(SetAllocatorSettings(kFraction));
    EXPECT_EQ(GetMemoryFraction(device), 0.5) << "before the first use";
    ASSERT_OK(SetMemoryFraction(device, 1.0));
    EXPECT_EQ(GetMemoryFraction(device), 1.0);
    ASSERT_OK(SetAllocatorSettings("max_split_size_mb:64"));
    EXPECT_EQ(GetMemoryFraction(device), 1.0) << "it was not named";
    EXPECT_EQ(GetAllocatorSettings().per_process_memory_fraction, 0.5);
    ASSERT_OK(SetAllocatorSettings(kFraction));
    EXPECT_EQ(GetMemoryFraction(device), 0.5);
    EXPECT_EQ(GetMemoryFraction(MtiaTest::dev(1)), 0.5) << "not used yet";
  });
}

// None of these allocates.
TEST(SettingsInUse, TheSourceStaysOpenUntilTheFirstAllocation) {
  InChild([] {
    const Device device = MtiaTest::dev();
    const StreamRef s = DefaultStream(device);
    EXPECT_OK(SetMemoryFraction(device, 0.5));
    EXPECT_OK(EmptyCache(device));
    EXPECT_OK(RecordMemoryHistory(device, HistoryOptions()));
    EXPECT_OK(RecordMemoryHistory(device, std::nullopt));
    EXPECT_EQ(Must(AllocateMemory(s, 0)), nullptr);
    EXPECT_FALSE(AllocateMemory(s, uint64_t{1} << 60).ok());
    EXPECT_EQ(GetMemoryResource(device)->properties().name, "caching");
    EXPECT_OK(SetMemoryResource(device, CachingResource(device)));
    EXPECT_OK(SetMemoryResource(device, nullptr));
    ASSERT_OK(SetAllocatorSettings("backend:raw"));
    EXPECT_EQ(GetMemoryResource(device)->properties().name, "raw");
    void* block = Must(AllocateMemory(s, 64));
    EXPECT_EQ(GetMemoryStatistics(device).allocation.all.current, 0)
        << "it came from the caching allocator";
    EXPECT_STATUS(SetAllocatorSettings("backend:caching"), kFailedPrecondition,
                  "after the first allocation of device memory");
    EXPECT_OK(FreeMemory(block));
  });
}

// One that reaches a device, or a resource, fixes it.
TEST(SettingsInUse, AnyAllocationFixesTheSource) {
  const auto fixes =
      [](const std::function<void(Device, StreamRef)>& allocate) {
        InChild([&] {
          const Device device = MtiaTest::dev();
          allocate(device, DefaultStream(device));
          EXPECT_STATUS(SetAllocatorSettings("backend:raw"),
                        kFailedPrecondition,
                        "after the first allocation of device memory");
        });
      };
  fixes([](Device, StreamRef s) {
    EXPECT_OK(FreeMemory(Must(AllocateMemory(s, 64))));
  });
  fixes([](Device device, StreamRef s) {
    const auto r = RawResource(device);
    EXPECT_OK(r->Deallocate(s, Must(r->Allocate(s, 64)), 64));
  });
  fixes([](Device device, StreamRef s) {
    const auto r = PrivateCachingResource(device);
    EXPECT_OK(r->Deallocate(s, Must(r->Allocate(s, 64)), 64));
  });
  fixes([](Device, StreamRef s) {  // out of memory, but it was asked
    EXPECT_FALSE(AllocateMemory(s, uint64_t{1} << 50).ok());
  });
}

}  // namespace
}  // namespace devrt::testing
