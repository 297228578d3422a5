// SPDX-License-Identifier: Apache-2.0
//
// The raw resource and the driver's; Buffer over them.

#include <cstdlib>
#include <optional>
#include <utility>

#include "memory/device/device_allocator.h"
#include "tests/memory/resources/resource_fixture.h"
#include "tests/support/spy_backend.h"

namespace devrt {
namespace {

using testing::kLong;
using testing::LogCapture;
using testing::Must;
using testing::ResourceTest;
using testing::Scripted;

using RawResourceTest = ResourceTest;

TEST_F(RawResourceTest, EachDeviceHasASingleRawResource) {
  ExpectBasics(*Raw());
  EXPECT_EQ(RawResource(dev()), RawResource(dev()));
  EXPECT_NE(RawResource(dev()), RawResource(dev(1)));
  EXPECT_EQ(Raw()->properties().name, "raw");
}

TEST_F(RawResourceTest, SizesOfAnyKind) {
  const auto r = Raw();
  for (const uint64_t bytes : {uint64_t{1} << 59, uint64_t{1} << 60,
                               ~uint64_t{0}, ~uint64_t{0} - 511}) {
    EXPECT_STATUS(r->Allocate(stream(), bytes), kResourceExhausted,
                  "out of memory");
  }
}

// A free waits for the stream and for uses that were recorded, on no other.
TEST_F(RawResourceTest, FreesWaitForRecordedUses) {
  InVirtualSchedules([] {
    const auto r = RawResource(dev());
    Stream own = NewStream();
    Stream other = NewStream();
    void* block = Must(r->Allocate(own, 64));
    ASSERT_OK(Spin(own, kLong));
    ASSERT_OK(Spin(other, kLong));
    ASSERT_OK(r->RecordUse(static_cast<char*>(block) + 64, other));
    EXPECT_OK(r->Deallocate(own, block, 64));
    EXPECT_TRUE(Must(own.Query()));
    EXPECT_TRUE(Must(other.Query()));
    // The next block at that place has no such use.
    void* next = Must(r->Allocate(own, 64));
    Flag flag = NewFlag();
    ASSERT_OK(flag.WaitOn(other));
    EXPECT_OK(r->Deallocate(own, next, 64));
    EXPECT_FALSE(Must(other.Query()));
    ASSERT_OK(flag.Set());
    ASSERT_OK(other.Synchronize());
  });
}

TEST_F(RawResourceTest, StreamsMayEndBeforeTheirBlocks) {
  InVirtualSchedules([] {
    const auto r = RawResource(dev());
    std::optional<Stream> own = NewStream();
    const StreamRef ref = own->ref();
    void* block = Must(r->Allocate(*own, 64));
    ASSERT_OK(FillAsync(*own, block, 1, 64));
    ASSERT_OK(Spin(*own, kLong));
    own.reset();
    EXPECT_OK(r->Deallocate(ref, block, 64));
  });
}

TEST_F(RawResourceTest, UsesNeedALiveBlock) {
  const auto r = Raw();
  int local = 0;
  EXPECT_STATUS(r->RecordUse(&local, stream()), kInvalidArgument,
                "needs a live block of its own");
  EXPECT_STATUS(r->RecordUse(nullptr, stream()), kInvalidArgument, "raw");
  void* block = Must(r->Allocate(stream(), 64));
  EXPECT_OK(r->RecordUse(block, stream()));
  EXPECT_OK(r->RecordUse(static_cast<char*>(block) + 64, stream()));
  EXPECT_FALSE(r->RecordUse(static_cast<char*>(block) + 65, stream()).ok());
  EXPECT_OK(r->Deallocate(stream(), block, 64));
  EXPECT_FALSE(r->RecordUse(block, stream()).ok());
}

TEST_F(RawResourceTest, NothingInsideHostFunctions) {
  const auto r = Raw();
  void* block = Must(r->Allocate(stream(), 64));
  absl::Status answers[4];
  ASSERT_OK(LaunchHostFunc(stream(), [&](const absl::Status&) {
    answers[0] = r->Allocate(stream(), 64).status();
    answers[1] = r->Deallocate(stream(), block, 64);
    answers[2] = r->RecordUse(block, stream());
    answers[3] = r->Trim();
  }));
  ASSERT_OK(stream().Synchronize());
  for (const absl::Status& answer : answers) {
    EXPECT_EQ(answer.code(), absl::StatusCode::kFailedPrecondition) << answer;
  }
  EXPECT_OK(r->Deallocate(stream(), block, 64));
}

TEST_F(RawResourceTest, ALostDevicesBlocksGoBack) {
  ExpectALostDevicesBlocksGoBack(*Raw());
}

// driver_test.cc has the one of a backend with it.
TEST_F(RawResourceTest, TheDriversNeedsTheCapability) {
  const Device without = testing::SpyBackend::Get().device(0);
  ASSERT_FALSE(without.backend().Has(DEVRT_CAP_ASYNC_ALLOC));
  EXPECT_STATUS(DriverResource(without), kUnimplemented, "ASYNC_ALLOC");
}

// ---- Private ones -----------------------------------------------------------

size_t CountAllocators(Device device) {
  return internal::DeviceAllocator::Of(device.record())
      ->family()
      .Members()
      .size();
}

// A new private resource reuses the allocator of a destroyed one, because the
// end of a stream looks at all allocators.
TEST_F(ResourceTest, PrivateResourcesReuseAllocators) {
  const auto use = [](MemoryResource& r) {
    EXPECT_OK(r.Deallocate(stream(), Must(r.Allocate(stream(), 512)), 512));
  };
  use(*PrivateCachingResource(dev()));
  const size_t before = CountAllocators(dev());
  for (int i = 0; i < 20; ++i) use(*PrivateCachingResource(dev()));
  EXPECT_EQ(CountAllocators(dev()), before);
  // Not while a block of it is alive, or a stream may use what is free.
  auto first = PrivateCachingResource(dev());
  char* block = static_cast<char*>(Must(first->Allocate(stream(), 512)));
  first.reset();
  const auto second = PrivateCachingResource(dev());
  char* other = static_cast<char*>(Must(second->Allocate(stream(), 512)));
  EXPECT_GE(std::abs(other - block), 2 << 20) << "a segment of its own";
  EXPECT_EQ(CountAllocators(dev()), before + 1);
  ASSERT_OK(Spin(stream(), kLong));
  EXPECT_OK(FreeMemory(block));
  const auto third = PrivateCachingResource(dev());
  EXPECT_EQ(CountAllocators(dev()), before + 2);
  ASSERT_OK(stream().Synchronize());
  const auto fourth = PrivateCachingResource(dev());
  EXPECT_EQ(CountAllocators(dev()), before + 2);
  EXPECT_OK(second->Deallocate(stream(), other, 512));
  EXPECT_OK(second->Trim());
}

// ---- Buffer -----------------------------------------------------------------

using BufferTest = ResourceTest;

// A resource may hold its upstream's memory in a buffer.  That block is not the
// program's, so only the upstream itself can free it.
TEST_F(BufferTest, FreesABlockThatAResourceHolds) {
  const auto upstream = StatisticsResource::Make(Raw());
  std::optional<Buffer> held;
  Scripted r(
      dev(),
      [&](const MemoryRequest& request) -> absl::StatusOr<void*> {
        held = Must(Buffer::Allocate(upstream, request.stream, request.bytes));
        return held->data();
      },
      [&](const MemoryReturn&) {
        held.reset();
        return absl::OkStatus();
      });
  void* const block = Must(r.Allocate(stream(), 64));
  EXPECT_EQ(upstream->bytes().current, 64);
  EXPECT_OK(r.Deallocate(stream(), block, 64));
  EXPECT_EQ(upstream->bytes().current, 0);
}

TEST_F(BufferTest, OwnsUntilItsEnd) {
  const auto seen = StatisticsResource::Make(Raw());
  {
    Buffer a = Must(Buffer::Allocate(seen, stream(), 100));
    EXPECT_NE(a.data(), nullptr);
    EXPECT_EQ(a.size(), 100u);
    EXPECT_EQ(a.stream(), stream());
    Buffer b = std::move(a);
    EXPECT_EQ(a.data(), nullptr);
    EXPECT_EQ(a.size(), 0u);
    EXPECT_EQ(a.stream(), std::nullopt);
    Buffer& self = b;
    b = std::move(self);
    EXPECT_NE(b.data(), nullptr);
    b = Must(Buffer::Allocate(seen, stream(), 200));
    EXPECT_EQ(seen->allocations().current, 1) << "the first went back";
  }
  EXPECT_EQ(seen->allocations().current, 0);
}

// Frees are refused inside host functions (C42): it goes back right after.
TEST_F(BufferTest, MayEndInAHostFunction) {
  const auto seen = StatisticsResource::Make(Raw());
  LogCapture log;
  Stream s = NewStream();
  for (const auto& resource : {std::shared_ptr<MemoryResource>(seen), {}}) {
    auto buffer =
        std::make_shared<Buffer>(Must(Buffer::Allocate(resource, s, 4096)));
    ASSERT_OK(LaunchHostFunc(
        s, [b = std::move(buffer)](absl::Status) mutable { b.reset(); }));
    ASSERT_OK(s.Synchronize());
  }
  EXPECT_OK(EmptyCache(dev()));  // a call of devrt's: what was put off is done
  EXPECT_EQ(seen->allocations().current, 0);
  EXPECT_EQ(GetMemoryStatistics(dev()).allocation.all.current, 0);
  EXPECT_EQ(log.Count(), 0);
}

TEST_F(BufferTest, ReleaseGivesAway) {
  const auto r = Raw();
  void* block = nullptr;
  {
    Buffer a = Must(Buffer::Allocate(r, stream(), 100));
    block = a.Release();
    EXPECT_EQ(a.data(), nullptr);
  }
  EXPECT_OK(r->Deallocate(stream(), block, 100));
}

TEST_F(BufferTest, IsFreedOnItsSetStream) {
  InVirtualSchedules([] {
    Stream first = NewStream();
    Stream second = NewStream();
    Buffer a = Must(Buffer::Allocate(RawResource(dev()), first, 100));
    EXPECT_STATUS(a.SetStream(DefaultStream(dev(1))), kInvalidArgument,
                  "mtia:0");
    ASSERT_OK(a.SetStream(second));
    Flag flag = NewFlag();
    ASSERT_OK(flag.WaitOn(first));
    ASSERT_OK(Spin(second, kLong));
    a.Reset();
    EXPECT_TRUE(Must(second.Query()));
    EXPECT_FALSE(Must(first.Query()));
    ASSERT_OK(flag.Set());
    ASSERT_OK(first.Synchronize());
  });
}

TEST_F(BufferTest, OutlivesItsStream) {
  LogCapture log;
  std::optional<Stream> s = NewStream();
  Buffer a = Must(Buffer::Allocate(Raw(), *s, 100));
  ASSERT_OK(a.RecordUse(stream()));
  s.reset();
  a.Reset();
  EXPECT_EQ(log.Count(), 0);
}

TEST_F(BufferTest, EmptyBufferHasNoStreamAndNoData) {
  Buffer none;
  EXPECT_STATUS(none.SetStream(stream()), kInvalidArgument, "empty");
  EXPECT_STATUS(none.RecordUse(stream()), kInvalidArgument, "empty");
  none.Reset();
  EXPECT_EQ(none.Release(), nullptr);
  const Buffer zero = Must(Buffer::Allocate(Raw(), stream(), 0));
  EXPECT_EQ(zero.data(), nullptr);
}

}  // namespace
}  // namespace devrt
