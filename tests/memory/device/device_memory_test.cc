// SPDX-License-Identifier: Apache-2.0
//
// AllocateMemory and FreeMemory on one stream: best fit, figures, misuse.
// tests/hardware/memory_device.cc has the cases that GPUs run as well.

#include "devrt/memory/device_memory.h"

#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "devrt/memory/resources.h"
#include "memory/device/device_allocator.h"
#include "tests/support/mtia_fixture.h"

namespace devrt::testing {
namespace {

using internal::kGranule;
using internal::kMiB;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class DeviceMemory : public MtiaTest {
 protected:
  void SetUp() override {
    MtiaTest::SetUp();
    Reset("memory=256MiB");
  }
  void TearDown() override {
    EXPECT_OK(SetMemoryFraction(dev(), 1.0));
    // The fixture asks for what is left over, cached segments too.
    EXPECT_OK(dev().Synchronize());
    EXPECT_OK(EmptyCache(dev()));
    EXPECT_EQ(Read().reserved_bytes.all.current, 0);
    EXPECT_EQ(Read().active_bytes.all.current, 0);
    MtiaTest::TearDown();
  }

  static MemoryStatistics Read() {
    return internal::DeviceAllocator::Of(dev().record())->ledger().Read();
  }
  static char* New(StreamRef stream, uint64_t bytes) {
    absl::StatusOr<void*> made = AllocateMemory(stream, bytes);
    EXPECT_OK(made.status());
    return made.ok() ? static_cast<char*>(*made) : nullptr;
  }
};

TEST_F(DeviceMemory, BestFitAtTheLowestAddress) {
  Stream s = NewStream();
  std::vector<char*> p;
  for (int i = 0; i < 9; ++i) p.push_back(New(s, 4096));
  for (int i = 1; i < 9; ++i) EXPECT_EQ(p[i], p[0] + i * 4096);
  // Holes of 4 KiB at 1 and 5, of 8 KiB at 2 and 3 if both are free.
  EXPECT_OK(FreeMemory(p[5]));
  EXPECT_OK(FreeMemory(p[1]));
  EXPECT_EQ(New(s, 4000), p[1]);
  EXPECT_EQ(New(s, 4096), p[5]);
  EXPECT_OK(FreeMemory(p[2]));
  EXPECT_OK(FreeMemory(p[3]));
  EXPECT_OK(FreeMemory(p[7]));
  EXPECT_EQ(New(s, 4096), p[7]);  // exact before the larger one
  EXPECT_EQ(New(s, 8192), p[2]);  // joined
  for (int i : {0, 1, 2, 4, 5, 6, 7, 8}) EXPECT_OK(FreeMemory(p[i]));
  // All joined again: one block that serves a request of its whole size.
  EXPECT_EQ(Read().inactive_split.all.current, 0);
  char* half = New(s, kMiB);
  EXPECT_EQ(half, p[0]);
  EXPECT_OK(FreeMemory(half));
}

TEST_F(DeviceMemory, SplitsAreCounted) {
  Stream s = NewStream();
  internal::DeviceAllocator::Of(dev().record())->ledger().ResetPeak();
  const MemoryStatistics before = Read();
  char* a = New(s, 512);
  EXPECT_EQ(Read().inactive_split.all.current, 1);
  EXPECT_EQ(Read().inactive_split_bytes.small_pool.current,
            static_cast<int64_t>(2 * kMiB - 512));
  char* b = New(s, 512);
  EXPECT_OK(FreeMemory(a));
  EXPECT_EQ(Read().inactive_split.all.current, 2);
  EXPECT_OK(FreeMemory(b));
  const MemoryStatistics after = Read();
  EXPECT_EQ(after.inactive_split.all.current, 0);
  EXPECT_EQ(after.inactive_split_bytes.all.current, 0);
  EXPECT_EQ(after.inactive_split.all.peak - before.inactive_split.all.peak, 2);
  for (const PoolStat& stat :
       {after.allocation, after.active, after.inactive_split,
        after.inactive_split_bytes, after.reserved_bytes}) {
    EXPECT_EQ(stat.all.allocated - stat.all.freed, stat.all.current);
  }
}

TEST_F(DeviceMemory, ZeroBytesAndNull) {
  Stream s = NewStream();
  const MemoryStatistics before = Read();
  absl::StatusOr<void*> none = AllocateMemory(s, 0);
  ASSERT_OK(none.status());
  EXPECT_EQ(*none, nullptr);
  EXPECT_OK(FreeMemory(nullptr));
  EXPECT_OK(FreeMemory(nullptr, s));
  EXPECT_EQ(Read().allocation.all.allocated, before.allocation.all.allocated);
}

TEST_F(DeviceMemory, BadFreesAreNamed) {
  Stream s = NewStream();
  char* p = New(s, 4096);
  char* q = New(s, 4096);
  int on_the_stack = 0;
  for (void* bad : {static_cast<void*>(p + 512), static_cast<void*>(p + 1),
                    static_cast<void*>(&on_the_stack)}) {
    EXPECT_EQ(FreeMemory(bad).code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_THAT(std::string(FreeMemory(p + 512).message()),
              HasSubstr("512 bytes into the block at"));
  EXPECT_OK(FreeMemory(p));
  const absl::Status twice = FreeMemory(p);
  EXPECT_EQ(twice.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(twice.message()),
              AllOf(HasSubstr("lies in no live block"), HasSubstr("freed at"),
                    HasSubstr("device_memory_test.cc")));
  // Raw memory and cached memory do not mix.
  absl::StatusOr<void*> raw = Allocate(dev(), 4096);
  ASSERT_OK(raw.status());
  EXPECT_EQ(FreeMemory(*raw).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Free(dev(), q).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Free(dev(), q).message()),
              HasSubstr("from AllocateMemory"));
  EXPECT_OK(Free(dev(), *raw));
  EXPECT_EQ(FreeMemory(q, DefaultStream(dev(1))).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_OK(FreeMemory(q));
  EXPECT_OK(s.Synchronize());
}

TEST_F(DeviceMemory, BlocksAreSeenAsBlocks) {
  Stream s = NewStream();
  char* p = New(s, 1000);
  char* q = New(s, 1000);
  for (char* at : {p, p + 1, p + 999}) {
    absl::StatusOr<PointerInfo> info = GetPointerInfo(at);
    ASSERT_OK(info.status());
    EXPECT_EQ(info->kind, PointerKind::kDevice);
    EXPECT_EQ(info->base, p);
    EXPECT_EQ(info->size, 1000u);
    EXPECT_EQ(info->device, dev());
    EXPECT_NE(info->id, GetPointerInfo(q)->id);
  }
  const uint64_t id = GetPointerInfo(p)->id;
  // A copy that would leave its block is refused, though it stays in memory
  // that the driver gave.
  std::vector<char> host(2000);
  EXPECT_EQ(CopyAsync(s, p, host.data(), 1001).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_OK(CopyAsync(s, p, host.data(), 1000));
  EXPECT_OK(s.Synchronize());
  EXPECT_OK(FreeMemory(p));
  char* again = New(s, 1000);
  EXPECT_EQ(again, p);
  EXPECT_NE(GetPointerInfo(again)->id, id);
  EXPECT_OK(FreeMemory(again));
  EXPECT_OK(FreeMemory(q));
  EXPECT_OK(s.Synchronize());
}

TEST_F(DeviceMemory, ShutdownCountsLiveBlocks) {
  Stream s = NewStream();
  char* p = New(s, 512);
  const absl::Status refused = sim().Reset("");
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("1 allocation"));
  EXPECT_OK(FreeMemory(p));
}

TEST_F(DeviceMemory, DestroyedStream) {
  auto s = std::make_unique<Stream>(NewStream());
  const StreamRef stale = s->ref();
  char* p = New(stale, 512);
  s.reset();
  EXPECT_EQ(AllocateMemory(stale, 512).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_OK(FreeMemory(p));  // as of the stream's end
  EXPECT_EQ(FreeMemory(p).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(DeviceMemory, OutOfMemoryTexts) {
  Stream s = NewStream();
  char* small = New(s, 1024);
  for (uint64_t bytes : {uint64_t{858993459200000000}, uint64_t{1} << 59}) {
    const absl::Status status = AllocateMemory(s, bytes).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    const auto info = GetOutOfMemoryInfo(status);
    ASSERT_TRUE(info.has_value());
    EXPECT_EQ(info->requested, bytes);
    EXPECT_EQ(info->allocated, 1024u);
    EXPECT_EQ(info->reserved_unallocated, 2 * kMiB - 1024);
  }
  EXPECT_THAT(
      std::string(AllocateMemory(s, 858993459200000000).status().message()),
      StartsWith("MTIA out of memory. Tried to allocate 800000000.00 GiB. GPU "
                 "0 has a total capacity of "));
  EXPECT_THAT(
      std::string(AllocateMemory(s, uint64_t{1} << 60).status().message()),
      StartsWith(
          "MTIA out of memory. Tried to allocate more than 1EB memory."));
  EXPECT_EQ(
      AllocateMemory(s, std::numeric_limits<uint64_t>::max()).status().code(),
      absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Read().reserved_bytes.all.current, static_cast<int64_t>(2 * kMiB));
  EXPECT_OK(FillAsync(s, small, 1, 1024));
  EXPECT_OK(s.Synchronize());
  EXPECT_OK(FreeMemory(small));
}

TEST_F(DeviceMemory, ResourcesOfTheDevice) {
  Stream s = NewStream();
  std::shared_ptr<MemoryResource> caching = CachingResource(dev());
  EXPECT_EQ(caching, CachingResource(dev()));
  EXPECT_EQ(caching->properties().name, "caching");
  absl::StatusOr<void*> p = caching->Allocate(s, 512, 256);
  ASSERT_OK(p.status());
  EXPECT_EQ(caching->Allocate(s, 512, 4096).status().code(),
            absl::StatusCode::kUnimplemented);
  std::shared_ptr<MemoryResource> own = PrivateCachingResource(dev());
  absl::StatusOr<void*> q = own->Allocate(s, 512);
  ASSERT_OK(q.status());
  EXPECT_EQ(caching->Deallocate(s, *q, 512).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_OK(own->Deallocate(s, *q, 512));
  // Blocks know where they belong, whoever frees them; the last one takes the
  // memory of an abandoned resource with it.
  q = own->Allocate(s, 512);
  own.reset();
  EXPECT_OK(s.Synchronize());
  EXPECT_OK(FreeMemory(*q));
  EXPECT_OK(s.Synchronize());
  EXPECT_OK(caching->Deallocate(s, *p, 512));
  EXPECT_OK(caching->Trim());
  EXPECT_EQ(sim().Stats()->live_blocks, 0u);
}

TEST_F(DeviceMemory, InsideHostFunctions) {
  Stream s = NewStream();
  char* p = New(s, 512);
  std::vector<absl::StatusCode> codes;
  EXPECT_OK(LaunchHostFunc(s, [&](const absl::Status&) {
    codes.push_back(AllocateMemory(s, 512).status().code());
    codes.push_back(FreeMemory(p).code());
    codes.push_back(RecordStream(p, s).code());
    codes.push_back(EmptyCache(dev()).code());
  }));
  EXPECT_OK(s.Synchronize());
  EXPECT_EQ(codes, std::vector<absl::StatusCode>(
                       4, absl::StatusCode::kFailedPrecondition));
  EXPECT_OK(FreeMemory(p));
}

}  // namespace
}  // namespace devrt::testing
