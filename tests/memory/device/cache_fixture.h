// SPDX-License-Identifier: Apache-2.0
//
// DeviceCacheTest: MtiaTest with 256 MiB and nothing cached, before and after.

#ifndef DEVRT_TESTS_MEMORY_DEVICE_CACHE_FIXTURE_H_
#define DEVRT_TESTS_MEMORY_DEVICE_CACHE_FIXTURE_H_

#include "devrt/memory/device_memory.h"
#include "memory/device/device_allocator.h"
#include "tests/support/mtia_fixture.h"

namespace devrt::testing {

class DeviceCacheTest : public MtiaTest {
 protected:
  void SetUp() override {
    MtiaTest::SetUp();
    Reset("memory=256MiB");
    ledger().ResetPeak();
    ledger().ResetAccumulated();
  }
  void TearDown() override {
    EXPECT_OK(SetMemoryFraction(dev(), 1.0));
    ExpectNothingLeft();
    MtiaTest::TearDown();
  }

  // The fixture asks for what is left over, cached segments too.
  static void ExpectNothingLeft() {
    EXPECT_OK(dev().Synchronize());
    EXPECT_OK(EmptyCache(dev()));
    const MemoryStatistics s = Read();
    EXPECT_EQ(s.reserved_bytes.all.current, 0);
    EXPECT_EQ(s.active_bytes.all.current, 0);
    EXPECT_EQ(s.requested_bytes.all.current, 0);
    EXPECT_EQ(s.allocation.all.current, 0);
    EXPECT_EQ(s.inactive_split.all.current, 0);
    EXPECT_EQ(s.inactive_split_bytes.all.current, 0);
    EXPECT_EQ(s.segment.all.current, 0);
  }
  static internal::Ledger& ledger() {
    return internal::DeviceAllocator::Of(dev().record())->ledger();
  }
  static MemoryStatistics Read() { return ledger().Read(); }
  static char* New(StreamRef stream, uint64_t bytes) {
    absl::StatusOr<void*> made = AllocateMemory(stream, bytes);
    EXPECT_OK(made.status());
    return made.ok() ? static_cast<char*>(*made) : nullptr;
  }
};

}  // namespace devrt::testing

#endif  // DEVRT_TESTS_MEMORY_DEVICE_CACHE_FIXTURE_H_
