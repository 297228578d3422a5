// SPDX-License-Identifier: Apache-2.0
//
// Storages that outlive their streams, owners and threads, calls that fail, and
// threads.

#include <atomic>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "devrt/arrays/operations.h"
#include "devrt/memory/resources.h"
#include "tests/arrays/arrays_fixture.h"

namespace devrt::testing {
namespace {

class StorageLifetime : public ArraysTest {};

// E21.
TEST_F(StorageLifetime, StorageOutlivesItsStream) {
  InEverySchedule([] {
    std::optional<Array> x;
    {
      Stream s = NewStream();
      const StreamGuard guard(s);
      x = NewArray(dev());
      Must(Spin(s, kLong));
      Must(x->Fill(7));
    }
    EXPECT_EQ(Must(Must(x->Index(0, 3)).Item()).Value<int64_t>(), 7);
    EXPECT_OK(x->SetDeallocationStream(DefaultStream(dev())));
    x.reset();
    ExpectNothingLeft();
  });
}

TEST_F(StorageLifetime, StorageOutlivesItsThread) {
  std::optional<Array> x;
  InThreads(1, [&](int) {
    const StreamGuard guard(Must(PerThreadDefaultStream(dev())));
    x = NewArray(dev());
    Must(x->Fill(7));
  });
  ASSERT_OK(x->Ready());
  EXPECT_TRUE(IsAll(*x, 7));
}

// E36.
TEST_F(StorageLifetime, OwnersAreKeptForUsesThatAreNotComplete) {
  const Array memory = Filled(dev(), 1);
  const Array y = Filled(dev(), 2);
  Stream s = NewStream();
  Flag gate = NewFlag();
  ASSERT_OK(gate.WaitOn(s));
  bool gone = false;
  {
    PointerOptions options;
    options.owner = Owner(&gone);
    const Array x = Must(Array::FromPointer(memory.data(), memory.shape(),
                                            kInt32, std::move(options)));
    const StreamGuard guard(s);
    ASSERT_OK(y.CopyFrom(x));
  }
  EXPECT_FALSE(gone);
  EXPECT_EQ(internal::CountStorages().kept, 1);
  internal::RunPendingReleases();
  EXPECT_FALSE(gone);
  ASSERT_OK(gate.Set());
  ASSERT_OK(s.Synchronize());
  EXPECT_FALSE(gone) << "nobody has looked";
  NewArray(Place::Pinned(dev()));  // as any operation
  EXPECT_TRUE(gone);
}

TEST_F(StorageLifetime, OwnersWithoutUsesGoAtOnce) {
  bool gone = false;
  std::vector<int32_t> values(8);
  PointerOptions options;
  options.owner = Owner(&gone);
  options.place = Place::Host();
  Must(Array::FromPointer(values.data(), {8}, kInt32, std::move(options)));
  EXPECT_TRUE(gone);
}

// The lender's stream continues after the last use (E15).
TEST_F(StorageLifetime, TheLendersStreamComesAfterTheLastUse) {
  InEverySchedule([] {
    const Array memory = Filled(dev(), 1);
    const Array y = Filled(dev(), 2);
    Stream lender = NewStream();
    Stream s = NewStream();
    {
      PointerOptions options;
      options.stream = lender;
      const Array x = Must(
          Array::FromPointer(memory.data(), memory.shape(), kInt32, options));
      Must(Spin(s, kLong));
      const StreamGuard guard(s);
      Must(y.CopyFrom(x));
    }
    Must(FillAsync(lender, memory.data(), 0, memory.nbytes()));
    Must(dev().Synchronize());
    EXPECT_TRUE(IsAll(y, 1));
  });
}

TEST_F(StorageLifetime, RecordUseLastsUpToTheEnd) {
  Stream s = NewStream();
  Flag gate = NewFlag();
  std::optional<Array> x = Filled(dev(), 1);
  void* const block = x->data();
  ASSERT_OK(x->RecordUse(s));
  ASSERT_OK(gate.WaitOn(s));
  x.reset();
  x = NewArray(dev());
  EXPECT_NE(x->data(), block);
  ASSERT_OK(gate.Set());
  ASSERT_OK(s.Synchronize());
  const Array y = NewArray(dev());
  EXPECT_EQ(y.data(), block);
}

// Python lets its lock be while memory goes back so.
TEST_F(StorageLifetime, APlainEndGivesTheBlockBackOnce) {
  for (const Place& place : {Place(dev()), Place::Pinned(dev())}) {
    std::optional<Array> x = NewArray(place);
    void* const block = x->data();
    ASSERT_TRUE(x->storage()->EndPlainly());
    EXPECT_EQ(internal::CountStorages().live, 0);
    EXPECT_EQ(NewArray(place).data(), block) << "it is back";
    x.reset();
    EXPECT_EQ(internal::CountStorages().live, 0) << "and goes back once";
    EXPECT_EQ(NewArray(place).data(), block);
  }
}

TEST_F(StorageLifetime, OtherEndsAreNotPlain) {
  Stream s = NewStream();
  Flag gate = NewFlag();
  for (const Place& place : {Place(dev()), Place::Pinned(dev())}) {
    // Of the array, and of the memory alone.
    std::optional<Array> x = Filled(place, 1), y = NewArray(place);
    ASSERT_OK(gate.Clear());
    ASSERT_OK(gate.WaitOn(s));
    ASSERT_OK(x->NoteUse(s));
    ASSERT_OK(place.kind() == MemoryKind::kPinned
                  ? RecordPinnedUse(y->data(), s)
                  : RecordStream(y->data(), s));
    const std::set<void*> blocks = {x->data(), y->data()};
    for (std::optional<Array>* array : {&x, &y}) {
      EXPECT_FALSE((*array)->storage()->EndPlainly());
      array->reset();
    }
    const Array first = NewArray(place), second = NewArray(place);
    EXPECT_EQ(blocks.count(first.data()) + blocks.count(second.data()), 0u)
        << "still used";
    ASSERT_OK(gate.Set());
    ASSERT_OK(s.Synchronize());
  }
  const Array host = Filled(Place::Host(), 1);
  EXPECT_FALSE(host.storage()->EndPlainly());
  const Array borrowed = Must(Array::FromPointer(host.data(), {8}, kInt32));
  EXPECT_FALSE(borrowed.storage()->EndPlainly());
  const Array home = Filled(dev(), 1);
  ASSERT_OK(home.SetDeallocationStream(s));
  EXPECT_FALSE(home.storage()->EndPlainly());
}

// E21.
TEST_F(StorageLifetime, SetDeallocationStream) {
  const Array x = Filled(dev(), 1);
  Stream there = NewStream(dev(1));
  EXPECT_STATUS(x.SetDeallocationStream(there), kInvalidArgument, "mtia:0");
  const Array host = Filled(Place::Host(), 1);
  EXPECT_STATUS(host.SetDeallocationStream(there), kInvalidArgument, "cpu");
  Stream s = NewStream();
  const StreamRef stale = s.ref();
  { Stream moved = std::move(s); }
  EXPECT_STATUS(x.SetDeallocationStream(stale), kInvalidArgument, "destroyed");
  EXPECT_STATUS(x.NoteUse(stale), kInvalidArgument, "destroyed");
  EXPECT_STATUS(x.OrderBefore(stale), kInvalidArgument, "destroyed");
}

// A resource that tracks no uses, and notes where memory goes back.
class Plain final : public MemoryResource {
 public:
  explicit Plain(Device d) : MemoryResource(d) {}
  MemoryProperties properties() const override { return {"plain"}; }
  std::vector<StreamRef> freed;

 private:
  absl::StatusOr<void*> DoAllocate(const MemoryRequest& r) override {
    return devrt::Allocate(device(), r.bytes);
  }
  absl::Status DoDeallocate(const MemoryReturn& r) override {
    freed.push_back(r.stream);
    // All work on the block must be complete on that stream.
    DEVRT_RETURN_IF_ERROR(r.stream.Synchronize());
    return devrt::Free(device(), r.pointer);
  }
};

// The memory goes back behind all uses.
TEST_F(StorageLifetime, OtherResources) {
  InEverySchedule([] {
    auto plain = std::make_shared<Plain>(dev());
    Must(SetMemoryResource(dev(), plain));
    Stream home = NewStream();
    Stream s = NewStream();
    const Array y = Filled(dev(1), 2);
    {
      const StreamGuard guard(home);
      const Array x = NewArray(dev());
      Must(x.Fill(1));
      const StreamGuard other(s);
      Must(Spin(s, kLong));
      Must(y.CopyFrom(x));
    }
    EXPECT_EQ(plain->freed.size(), 1u);
    Must(SetMemoryResource(dev(), nullptr));
    Must(dev(1).Synchronize());
    EXPECT_TRUE(IsAll(y, 1));
  });
}

// E21: by the allocator, the device and the stream of its making, or the
// stream that was chosen since, whatever is current and in whatever thread.
TEST_F(StorageLifetime, MemoryGoesBackByItsRecipe) {
  auto plain = std::make_shared<Plain>(dev(1));
  Must(SetMemoryResource(dev(1), plain));
  Stream home = NewStream(dev(1)), chosen = NewStream(dev(1));
  Stream other = NewStream(dev(1)), elsewhere = NewStream(dev());
  for (const bool choose : {false, true}) {
    std::optional<Array> x;
    {
      const StreamGuard guard(home);
      x = NewArray(dev(1));
    }
    if (choose) Must(x->SetDeallocationStream(chosen));
    Must(SetMemoryResource(dev(1), nullptr));
    InThreads(1, [&](int) {
      const StreamGuard same_device(other);
      const StreamGuard guard(elsewhere);
      x.reset();
    });
    ASSERT_EQ(plain->freed.size(), 1u);
    EXPECT_EQ(plain->freed[0], choose ? chosen.ref() : home.ref());
    plain->freed.clear();
    Must(SetMemoryResource(dev(1), plain));
  }
  Must(SetMemoryResource(dev(1), nullptr));
}

// ---- Calls that fail --------------------------------------------------------

void Arm(const std::string& where, int nth = 1) {
  SimulatedFault fault;
  fault.kind = SimulatedFault::Kind::kApi;
  fault.native_code = 2;
  fault.nth = static_cast<uint32_t>(nth);
  fault.where = where;
  Must(MtiaTest::sim().InjectFault(fault));
}

// A join or an enqueue that fails leaves everything as it was.
TEST_F(StorageLifetime, FailuresChangeNothing) {
  for (const char* slot : {"event_record", "stream_wait_event", "copy_async"}) {
    SCOPED_TRACE(slot);
    Reset("");
    Stream a = NewStream();
    Stream b = NewStream();
    const Array x = Filled(dev(), 1);
    const Array y = Filled(dev(), 2);
    ASSERT_OK(Spin(a, kLong));
    {
      const StreamGuard guard(a);
      ASSERT_OK(x.Fill(7));
    }
    const StreamGuard guard(b);
    Arm(slot);
    EXPECT_FALSE(y.CopyFrom(x).ok());
    EXPECT_TRUE(IsAll(y, 2));
    EXPECT_OK(y.CopyFrom(x));
    ASSERT_OK(y.Ready());
    EXPECT_TRUE(IsAll(y, 7));
    ASSERT_OK(x.Ready());
    EXPECT_THAT(x.IsReady(), IsOkAndHolds(true));
  }
}

// No call of a copy with steps of its own may leak, whichever fails.
TEST_F(StorageLifetime, StepsThatFailLeakNothing) {
  const char* const slots[] = {
      "alloc",      "copy_async",      "event_record", "stream_wait_event",
      "host_alloc", "copy_peer_async", "event_create", "stream_sync"};
  for (const char* slot : slots) {
    for (int nth = 1; nth <= 3; ++nth) {
      SCOPED_TRACE(std::string(slot) + " " + std::to_string(nth));
      Reset("");
      for (int i = 0; i < 2; ++i) ASSERT_OK(EmptyCache(dev(i)));
      ASSERT_OK(EmptyPinnedCache(dev().backend()));
      {
        const Array x = Must(Filled(dev(0), 7).Reshape({8, 8}));
        const Array y = Must(Array::Empty({8, 8}, kFloat64, dev(1)));
        const Array host = Must(Array::Empty({8, 8}, kInt16, Place::Host()));
        ASSERT_OK(y.Fill(0));
        ASSERT_OK(host.Fill(0));
        Arm(slot, nth);
        (void)y.Transpose().CopyFrom(x);
        (void)host.Transpose().CopyFrom(x);
        (void)y.CopyFrom(host.Transpose());
        // The armed failure may still be to come.
        (void)y.Transpose().CopyFrom(x);
        (void)host.CopyFrom(y);
        for (int i = 0; i < 3; ++i) (void)y.CopyFrom(x);
        EXPECT_OK(y.Transpose().CopyFrom(x));
        EXPECT_OK(host.CopyFrom(y));
        EXPECT_EQ(host.data_as<int16_t>()[63], 7);
      }
      ExpectNothingLeft();
    }
  }
}

// ---- Threads ----------------------------------------------------------------

// Each operation is one step: a counter in device memory loses nothing.
TEST_F(StorageLifetime, ThreadsShareAnArray) {
  Reset("mode=threaded,memory=32MiB");
  constexpr int kThreads = 4;
  constexpr int kTimes = 50;
  const Array sum = Filled(dev(), 0);
  const Array one = Filled(dev(), 1);
  InThreads(kThreads, [&](int i) {
    Stream mine = NewStream();
    const StreamGuard guard(mine);
    for (int k = 0; k < kTimes; ++k) {
      Must(AddInto(sum, sum, one));
      if (i == 0) Must(sum.IsReady());
      if (k % 16 == 15) Must(sum.Ready());
    }
  });
  ASSERT_OK(sum.Ready());
  EXPECT_TRUE(IsAll(sum, kThreads * kTimes));
}

// Locks of two storages are taken in one order.
TEST_F(StorageLifetime, ThreadsCopyToAndFro) {
  Reset("mode=threaded,memory=32MiB");
  const Array x = Filled(dev(0), 1);
  const Array y = Filled(dev(1), 1);
  const Array pinned = Filled(Place::Pinned(dev()), 1);
  std::atomic<int> owners{0};
  InThreads(4, [&](int i) {
    for (int k = 0; k < 25; ++k) {
      switch (i) {
        case 0:
          Must(x.CopyFrom(y));
          break;
        case 1:
          Must(y.CopyFrom(x));
          break;
        case 2:
          Must(pinned.CopyFrom(x, true));
          Must(y.CopyFrom(pinned, true));
          break;
        default: {
          PointerOptions options;
          owners.fetch_add(1);
          options.owner = std::shared_ptr<void>(
              nullptr, [&](void*) { owners.fetch_sub(1); });
          const Array borrowed = Must(Array::FromPointer(
              x.data(), x.shape(), kInt32, std::move(options)));
          Must(borrowed.Copy().status());
          break;
        }
      }
    }
  });
  ASSERT_OK(x.Ready());
  ASSERT_OK(y.Ready());
  EXPECT_TRUE(IsAll(x, 1));
  EXPECT_TRUE(IsAll(y, 1));
  for (int i = 0; i < 2; ++i) ASSERT_OK(dev(i).Synchronize());
  for (int i = 0; i < 100; ++i) internal::RunPendingReleases();
  EXPECT_EQ(owners.load(), 0);
}

}  // namespace
}  // namespace devrt::testing
