// SPDX-License-Identifier: Apache-2.0
//
// The resource over the driver's stream-ordered memory.

#include <cstdlib>
#include <optional>
#include <utility>

#include "runtime/registry/records.h"
#include "tests/memory/resources/resource_fixture.h"

namespace devrt {
namespace {

using testing::kLong;
using testing::Must;
using testing::ResourceTest;

class DriverResourceTest : public ResourceTest {
 protected:
  static void SetUpTestSuite() {
    // Read when a device's memory is first asked for.
    ASSERT_EQ(setenv("DEVRT_ALLOC_CONF", "backend:driver", 1), 0);
  }
  static std::shared_ptr<MemoryResource> Driver() {
    return Must(DriverResource(dev()));
  }
  static SimulatedFault OutOfMemoryIn(const char* slot) {
    SimulatedFault fault;
    fault.kind = SimulatedFault::Kind::kApi;
    fault.native_code = 2;
    fault.where = slot;
    return fault;
  }
  static uint64_t FreeBytes() { return Must(dev().GetMemoryInfo()).free_bytes; }
};

TEST_F(DriverResourceTest, IsAResource) {
  ExpectBasics(*Driver());
  EXPECT_EQ(Driver()->properties().name, "driver");
  EXPECT_TRUE(Driver()->properties().stream_ordered);
  EXPECT_EQ(Driver()->properties().alignment, 1u) << "what the driver gives";
}

// A pair in a stream that is held: nothing waits, and the memory lasts.
TEST_F(DriverResourceTest, AllocationAndFreeInAStreamDoNotWait) {
  InVirtualSchedules([] {
    const auto r = Driver();
    const uint64_t before = FreeBytes();
    Stream s = NewStream();
    Flag flag = NewFlag();
    ASSERT_OK(flag.WaitOn(s));
    for (int i = 0; i < 3; ++i) {
      void* block = Must(r->Allocate(s, 1000));
      ASSERT_OK(FillAsync(s, block, i, 1000));
      ASSERT_OK(r->Deallocate(s, block, 1000));
    }
    EXPECT_FALSE(Must(s.Query()));
    EXPECT_LT(FreeBytes(), before);
    ASSERT_OK(flag.Set());
    ASSERT_OK(s.Synchronize());
    EXPECT_EQ(FreeBytes(), before);
  });
}

TEST_F(DriverResourceTest, AnotherStreamBehindAnEvent) {
  InVirtualSchedules([] {
    const auto r = Driver();
    Stream own = NewStream();
    Stream other = NewStream();
    Flag flag = NewFlag();
    ASSERT_OK(flag.WaitOn(own));
    void* block = Must(r->Allocate(own, 64));
    Event made = NewEvent();
    ASSERT_OK(made.Record(own));
    ASSERT_OK(other.Wait(made));
    ASSERT_OK(FillAsync(other, block, 1, 64));
    ASSERT_OK(Spin(other, kLong));
    ASSERT_OK(FillAsync(other, block, 2, 64));
    ASSERT_OK(r->RecordUse(block, other));
    // The free comes behind the use, and the host waits for neither.
    ASSERT_OK(r->Deallocate(own, block, 64));
    EXPECT_FALSE(Must(other.Query()));
    ASSERT_OK(flag.Set());
    ASSERT_OK(own.Synchronize());
    EXPECT_TRUE(Must(other.Query()));
  });
}

// The simulator reports a program that forgets the event.
TEST_F(DriverResourceTest, AUseWithoutOrderIsFound) {
  {
    const auto r = Driver();
    Stream own = NewStream();
    Stream other = NewStream();
    Flag flag = NewFlag();
    ASSERT_OK(flag.WaitOn(own));
    void* block = Must(r->Allocate(own, 64));
    ASSERT_OK(FillAsync(other, block, 1, 64));
    EXPECT_STATUS(other.Synchronize(), kInternal, "no event orders it behind");
    EXPECT_OK(r->Deallocate(own, block, 64)) << "of a lost device";
  }
  Reset("");
}

TEST_F(DriverResourceTest, StreamsMayEndBeforeTheirBlocks) {
  InVirtualSchedules([] {
    const auto r = Driver();
    const uint64_t before = FreeBytes();
    std::optional<Stream> own = NewStream();
    std::optional<Stream> other = NewStream();
    const StreamRef ref = own->ref();
    void* block = Must(r->Allocate(*own, 64));
    ASSERT_OK(other->Wait(*own));
    ASSERT_OK(FillAsync(*other, block, 1, 64));
    ASSERT_OK(Spin(*other, kLong));
    ASSERT_OK(r->RecordUse(block, *other));
    own.reset();
    other.reset();
    EXPECT_OK(r->Deallocate(ref, block, 64));
    ASSERT_OK(dev().Synchronize());
    EXPECT_EQ(FreeBytes(), before);
  });
}

// docs/reference/semantics.md 2.6, 2.7: one text and payload, and nothing has
// changed.
TEST_F(DriverResourceTest, OutOfMemoryHasItsFigures) {
  Reset("memory=16MiB,overhead=1MiB");
  const auto r = Driver();
  Stream s = NewStream();
  void* block = Must(r->Allocate(s, 10 << 20));
  const absl::Status status = r->Allocate(s, 6 << 20).status();
  EXPECT_STATUS(status, kResourceExhausted,
                "MTIA out of memory. Tried to allocate 6.00 MiB. GPU 0 has a "
                "total capacity of 16.00 MiB of which 5.00 MiB is free.");
  const std::optional<OutOfMemoryInfo> info = GetOutOfMemoryInfo(status);
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->requested, uint64_t{6} << 20);
  EXPECT_EQ(info->total, uint64_t{16} << 20);
  EXPECT_EQ(info->free, uint64_t{5} << 20);
  EXPECT_EQ(FreeBytes(), uint64_t{5} << 20);
  void* smaller = Must(r->Allocate(s, 5 << 20));
  ASSERT_OK(r->Deallocate(s, smaller, 5 << 20));
  ASSERT_OK(r->Deallocate(s, block, 10 << 20));
  // A stream reuses memory that it freed before the free has run.
  block = Must(r->Allocate(s, 15 << 20));
  ASSERT_OK(r->Deallocate(s, block, 15 << 20));
  ASSERT_OK(s.Synchronize());
}

TEST_F(DriverResourceTest, WrongFrees) {
  const auto r = Driver();
  void* block = Must(r->Allocate(stream(), 64));
  void* raw = Must(Allocate(dev(), 64));
  int local = 0;
  EXPECT_STATUS(r->Deallocate(stream(), &local, 4), kInvalidArgument, "driver");
  EXPECT_STATUS(r->Deallocate(stream(), raw, 64), kInvalidArgument, "driver");
  EXPECT_STATUS(Free(dev(), block), kInvalidArgument, "AllocateMemory");
  ASSERT_OK(stream().Synchronize());
  EXPECT_OK(r->Deallocate(stream(), block, 64));
  EXPECT_STATUS(r->Deallocate(stream(), block, 64), kInvalidArgument, "freed");
  EXPECT_STATUS(FillAsync(stream(), block, 1, 64), kInvalidArgument, "freed");
  EXPECT_OK(Free(dev(), raw));
  ASSERT_OK(stream().Synchronize());
}

TEST_F(DriverResourceTest, IsFoundAsMemoryOfItsDevice) {
  const auto r = Driver();
  void* block = Must(r->Allocate(stream(), 64));
  const PointerInfo info = Must(GetPointerInfo(static_cast<char*>(block) + 63));
  EXPECT_EQ(info.kind, PointerKind::kDevice);
  EXPECT_EQ(info.base, block);
  EXPECT_EQ(info.size, 64u);
  EXPECT_OK(r->Deallocate(stream(), block, 64));
  EXPECT_EQ(Must(GetPointerInfo(block)).kind, PointerKind::kUnregistered);
  ASSERT_OK(stream().Synchronize());
}

TEST_F(DriverResourceTest, ALostDevicesBlocksGoBack) {
  ExpectALostDevicesBlocksGoBack(*Driver());
}

// A use whose stream cannot be waited for: the block goes back all the same.
TEST_F(DriverResourceTest, AUseOnALostDeviceHoldsNothingBack) {
  {
    const auto r = Driver();
    const uint64_t before = FreeBytes();
    Stream other = NewStream(dev(1));
    void* block = Must(r->Allocate(stream(), 4096));
    ASSERT_OK(r->RecordUse(block, other));
    ASSERT_OK(CommitFault(other, FaultForm::kNullWrite));
    EXPECT_FALSE(other.Synchronize().ok());
    EXPECT_OK(r->Deallocate(stream(), block, 4096));
    ASSERT_OK(stream().Synchronize());
    EXPECT_EQ(FreeBytes(), before);
    EXPECT_EQ(dev().record()->live_allocations.load(), 0);
  }
  Reset("");
}

// Whichever call of a free fails, nobody waits for the block any more.
TEST_F(DriverResourceTest, AFreeThatFailsEnds) {
  for (const char* slot : {"event_record", "stream_wait_event"}) {
    const auto r = Driver();
    const uint64_t before = FreeBytes();
    Stream other = NewStream();
    void* block = Must(r->Allocate(other, 4096));
    ASSERT_OK(r->RecordUse(block, stream()));
    ASSERT_OK(FillAsync(other, block, 1, 4096));
    ASSERT_OK(sim().InjectFault(OutOfMemoryIn(slot)));
    EXPECT_OK(r->Deallocate(other, block, 4096)) << slot;
    ASSERT_OK(other.Synchronize());
    EXPECT_EQ(FreeBytes(), before) << slot;
    EXPECT_EQ(dev().record()->live_allocations.load(), 0) << slot;
  }
  const auto r = Driver();
  void* block = Must(r->Allocate(stream(), 4096));
  ASSERT_OK(sim().InjectFault(OutOfMemoryIn("dealloc_async")));
  EXPECT_FALSE(r->Deallocate(stream(), block, 4096).ok()) << "it is told";
  EXPECT_EQ(dev().record()->live_allocations.load(), 0);
  EXPECT_STATUS(r->Deallocate(stream(), block, 4096), kInvalidArgument,
                "freed");
  Reset("");  // what the driver kept is gone
}

// backend:driver makes it the device's own.
TEST_F(DriverResourceTest, IsChosenByTheSetting) {
  EXPECT_EQ(GetMemoryResource(dev())->properties().name, "driver");
  const uint64_t before = FreeBytes();
  Stream s = NewStream();
  Flag flag = NewFlag();
  ASSERT_OK(flag.WaitOn(s));
  void* block = Must(AllocateMemory(s, 1000));
  ASSERT_OK(FillAsync(s, block, 1, 1000));
  ASSERT_OK(FreeMemory(block));
  EXPECT_LT(FreeBytes(), before) << "the free is the stream's";
  ASSERT_OK(flag.Set());
  ASSERT_OK(s.Synchronize());
  EXPECT_EQ(FreeBytes(), before);
}

TEST_F(DriverResourceTest, BufferFreesBehindItsStream) {
  InVirtualSchedules([] {
    const uint64_t before = FreeBytes();
    Stream s = NewStream();
    {
      Buffer a = Must(Buffer::Allocate(Driver(), s, 100));
      ASSERT_OK(FillAsync(s, a.data(), 1, 100));
      ASSERT_OK(Spin(s, kLong));
    }
    ASSERT_OK(s.Synchronize());
    EXPECT_EQ(FreeBytes(), before);
  });
}

}  // namespace
}  // namespace devrt
