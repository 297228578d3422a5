// SPDX-License-Identifier: Apache-2.0
//
// Where memory comes from other than the device's cache: adaptors, callbacks,
// the driver's own allocators, buffers and segments that grow.  Each block is
// written and read by the device.

#include <deque>
#include <memory>
#include <utility>

#include "backends/abi/devrt_virtual_memory.h"
#include "tests/hardware/memory_test.h"

namespace devrt::hardware {
namespace {

constexpr uint64_t kBytes = 300'000;

class MemoryResources : public MemoryTest {
 protected:
  void TearDown() override {
    EXPECT_OK(SetAllocatorSettings("expandable_segments:False"));
    EXPECT_OK(SetMemoryResource(dev(), nullptr));
    MemoryTest::TearDown();
  }
  // Fills the block and reads it back, at its ends.
  void ExpectUsable(StreamRef stream, void* block, uint64_t bytes, int value) {
    EXPECT_OK(FillAsync(stream, block, static_cast<uint8_t>(value), bytes));
    const std::string contents = Contents(stream, block, bytes);
    EXPECT_EQ(contents, std::string(bytes, static_cast<char>(value)));
  }
  // A block from it, used and given back.
  void ExpectServes(MemoryResource& resource, StreamRef stream) {
    void* const block = Must(resource.Allocate(stream, kBytes));
    ExpectUsable(stream, block, kBytes, 0x5A);
    EXPECT_OK(resource.Deallocate(stream, block, kBytes));
  }
};

TEST_F(MemoryResources, AdaptorsBeforeTheCache) {
  const Stream stream = NewStream();
  std::deque<std::string> lines;
  const auto counted = StatisticsResource::Make(LimitResource(
      LoggingResource(
          ThreadSafeResource(CachingResource(dev())),
          [&lines](std::string_view line) { lines.emplace_back(line); }),
      2 * kBytes));
  ASSERT_OK(SetMemoryResource(dev(), counted));
  char* const a = New(stream, kBytes);
  char* const b = New(stream, kBytes);
  EXPECT_STATUS(AllocateMemory(stream, 1), kResourceExhausted, "limit");
  ASSERT_OK(SetMemoryResource(dev(), nullptr));
  ExpectUsable(stream, a, kBytes, 1);
  ExpectUsable(stream, b, kBytes, 2);
  EXPECT_EQ(counted->allocations().current, 2);
  EXPECT_EQ(counted->bytes().current, 2 * static_cast<int64_t>(kBytes));
  EXPECT_EQ(counted->failures(), 1u);
  // They go back to where they came from.
  EXPECT_OK(FreeMemory(a));
  EXPECT_OK(FreeMemory(b));
  EXPECT_EQ(counted->allocations().current, 0);
  EXPECT_EQ(lines.size(), 4u);  // what was refused did not get there
}

TEST_F(MemoryResources, AFailureIsInjected) {
  const Stream stream = NewStream();
  FailureInjection second;
  second.fail_at = 2;
  const auto failing = FailureResource(CachingResource(dev()), second);
  ExpectServes(*failing, stream);
  EXPECT_STATUS(failing->Allocate(stream, kBytes), kResourceExhausted,
                "failure");
  ExpectServes(*failing, stream);
}

TEST_F(MemoryResources, RawResourceServesRequests) {
  const Stream stream = NewStream();
  ExpectServes(*RawResource(dev()), stream);
}

TEST_F(MemoryResources, ACacheOfItsOwn) {
  const Stream stream = NewStream();
  const auto own = PrivateCachingResource(dev());
  const MemoryStatistics before = Read();
  ExpectServes(*own, stream);
  EXPECT_EQ(Read().reserved_bytes.all.current,
            before.reserved_bytes.all.current);
  EXPECT_OK(own->Trim());
}

TEST_F(MemoryResources, TheDriversInStreamOrder) {
  const auto driver = DriverResource(dev());
  if (absl::IsUnimplemented(driver.status())) {
    GTEST_SKIP() << driver.status();
  }
  ASSERT_OK(driver);
  const Stream stream = NewStream();
  const Stream other = NewStream();
  ExpectServes(**driver, stream);
  // Freed while another stream is held before it uses the block: the free comes
  // behind that use.
  void* const block = Must((*driver)->Allocate(stream, kBytes));
  ASSERT_OK(FillAsync(stream, block, 3, kBytes));
  ASSERT_OK(stream.Synchronize());
  char* const host = NewPinned(kBytes);
  Gate gate(dev());
  gate.Hold(other);
  ASSERT_OK(CopyAsync(other, host, block, kBytes));
  ASSERT_OK((*driver)->RecordUse(block, other));
  ASSERT_OK((*driver)->Deallocate(stream, block, kBytes));
  void* const next = Must((*driver)->Allocate(stream, kBytes));
  ASSERT_OK(FillAsync(stream, next, 4, kBytes));
  EXPECT_TRUE(gate.Holds());
  gate.Release();
  EXPECT_OK(other.Synchronize());
  EXPECT_EQ(std::string(host, kBytes), std::string(kBytes, 3));
  EXPECT_OK((*driver)->Deallocate(stream, next, kBytes));
  EXPECT_OK(FreePinned(host));
}

// A program's allocator, which cuts up one block that it got before.
struct Arena {
  char* begin;
  uint64_t used = 0;
  int live = 0;
  int32_t device = -1;
  bool destroyed = false;

  static void* Allocate(void* context, uint64_t bytes, int32_t device,
                        void* /*stream*/) {
    Arena* const arena = static_cast<Arena*>(context);
    if (arena->used + bytes > 4 * kMiB) return nullptr;
    char* const block = arena->begin + arena->used;
    arena->used += (bytes + 511) / 512 * 512;
    ++arena->live;
    arena->device = device;
    return block;
  }
  static void Free(void* context, void* /*pointer*/, uint64_t /*bytes*/,
                   int32_t /*device*/, void* /*stream*/) {
    --static_cast<Arena*>(context)->live;
  }
  static void Destroy(void* context) {
    static_cast<Arena*>(context)->destroyed = true;
  }
};

TEST_F(MemoryResources, FunctionsOfTheProgram) {
  const Stream stream = NewStream();
  Arena arena{static_cast<char*>(Must(Allocate(dev(), 4 * kMiB)))};
  MemoryCallbacks callbacks;
  callbacks.context = &arena;
  callbacks.allocate = Arena::Allocate;
  callbacks.deallocate = Arena::Free;
  callbacks.destroy = Arena::Destroy;
  ASSERT_OK(SetMemoryResource(dev(), Must(CallbackResource(dev(), callbacks))));
  char* const block = New(stream, kBytes);
  EXPECT_EQ(block, arena.begin);
  EXPECT_EQ(arena.device, dev().index());
  ExpectUsable(stream, block, kBytes, 7);
  EXPECT_STATUS(AllocateMemory(stream, 8 * kMiB), kResourceExhausted,
                "callback");
  ASSERT_OK(SetMemoryResource(dev(), nullptr));
  EXPECT_FALSE(arena.destroyed);  // a block of its is alive
  EXPECT_OK(FreeMemory(block));
  EXPECT_EQ(arena.live, 0);
  EXPECT_TRUE(arena.destroyed);
  EXPECT_OK(Free(dev(), arena.begin));
}

TEST_F(MemoryResources, BuffersPassToOtherStreams) {
  Buffer kept;
  {
    const Stream a = NewStream();
    const Stream b = NewStream();
    Buffer buffer = Must(Buffer::Allocate(a, kBytes));
    EXPECT_EQ(buffer.size(), kBytes);
    ExpectUsable(a, buffer.data(), kBytes, 9);
    ASSERT_OK(buffer.RecordUse(b));
    ASSERT_OK(buffer.SetStream(b));
    ExpectUsable(b, buffer.data(), kBytes, 10);
    kept = std::move(buffer);
    EXPECT_EQ(buffer.data(), nullptr);  // NOLINT(bugprone-use-after-move)
  }
  // Its stream is gone.
  const Stream c = NewStream();
  EXPECT_EQ(Contents(c, kept.data(), kBytes), std::string(kBytes, 10));
  kept.Reset();
  EXPECT_EQ(Read().allocation.all.current, 0);

  Buffer given = Must(Buffer::Allocate(RawResource(dev()), c, kBytes));
  void* const block = given.Release();
  EXPECT_OK(FreeMemory(block));
}

TEST_F(MemoryResources, SegmentsThatGrow) {
  const auto maps = dev().backend().GetExtension(
      DEVRT_VIRTUAL_MEMORY_EXTENSION, sizeof(devrt_virtual_memory_v0));
  if (absl::IsUnimplemented(maps.status())) GTEST_SKIP() << maps.status();
  ASSERT_OK(maps);
  ASSERT_OK(SetAllocatorSettings("expandable_segments:True"));
  const Stream stream = NewStream();
  char* const a = New(stream, 24 * kMiB);
  char* const b = New(stream, 40 * kMiB);
  EXPECT_EQ(b, a + 24 * kMiB);
  EXPECT_EQ(Read().segment.all.current, 0);
  EXPECT_GT(Read().num_device_alloc, 1) << "pages";
  ExpectUsable(stream, a, 24 * kMiB, 11);
  EXPECT_OK(FreeMemory(a));
  EXPECT_OK(FreeMemory(b));
  // One fill, and one copy, over pages that were mapped one after the other.
  char* const whole = New(stream, 64 * kMiB);
  EXPECT_EQ(whole, a);
  ExpectUsable(stream, whole, 64 * kMiB, 12);
  EXPECT_OK(FreeMemory(whole));
  ASSERT_OK(stream.Synchronize());
  ASSERT_OK(EmptyCache(dev()));
  EXPECT_EQ(Read().reserved_bytes.all.current, 0);
}

}  // namespace
}  // namespace devrt::hardware
