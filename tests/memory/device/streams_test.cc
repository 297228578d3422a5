// SPDX-License-Identifier: Apache-2.0
//
// Blocks that several streams use: uses, pending frees, reuse between streams.
// tests/hardware/memory_streams.cc has the cases that GPUs run as well.

#include <algorithm>
#include <iterator>
#include <optional>
#include <vector>

#include "tests/memory/device/cache_fixture.h"
#include "tests/support/spy_backend.h"

namespace devrt::testing {
namespace {

using internal::kMiB;

class MemoryStreams : public DeviceCacheTest {};

TEST_F(MemoryStreams, UnknownPointersAreErrors) {
  Stream s = NewStream();
  Stream other = NewStream();
  int local = 0;
  EXPECT_EQ(RecordStream(&local, other).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(RecordStream(nullptr, other).code(),
            absl::StatusCode::kInvalidArgument);
  char* x = New(s, 4096);
  EXPECT_OK(FreeMemory(x));
  EXPECT_EQ(RecordStream(x, other).code(), absl::StatusCode::kInvalidArgument);
}

// devrt's own operations are noted as of their submission; later work of
// that stream does not hold the block back.
// F15
TEST_F(MemoryStreams, UsesAreVersionedAtSubmission) {
  Stream home = NewStream();
  Stream other = NewStream();
  Flag first = NewFlag();
  Flag later = NewFlag();
  char* x = New(home, 4096);
  EXPECT_OK(home.Synchronize());
  EXPECT_OK(first.WaitOn(other));
  EXPECT_OK(FillAsync(other, x, 1, 4096));
  EXPECT_OK(later.WaitOn(other));  // no use of x
  EXPECT_OK(FreeMemory(x));
  char* y = New(home, 4096);
  EXPECT_NE(y, x);
  EXPECT_OK(first.Set());
  // Polls until the fill is seen at its end; `later` is not set meanwhile.
  char* again = nullptr;
  for (int look = 0; look < 1000 && again != x; ++look) {
    if (again != nullptr) {
      EXPECT_OK(FreeMemory(again));
    }
    again = New(home, 4096);
  }
  EXPECT_EQ(again, x);
  EXPECT_OK(later.Set());
  EXPECT_OK(FreeMemory(again));
  EXPECT_OK(FreeMemory(y));
}

// The first block's checkpoint begins a new epoch, which does not count for the
// second block.
TEST(MemoryStreamsOfASpy, OneCheckpointForAllBlocksOfAnOperation) {
  SpyBackend& spy = SpyBackend::Get();
  spy.SetMemory(64 * kMiB);
  const Device device = spy.device(0);
  {
    Stream home = *Stream::Create(device);
    Stream other = *Stream::Create(device);
    void* const x = *AllocateMemory(home, 4096);
    void* const y = *AllocateMemory(home, 4096);
    spy.Reset();
    EXPECT_OK(CopyAsync(other, x, y, 4096));
    EXPECT_EQ(spy.Count("event_record"), 1);
    EXPECT_OK(FreeMemory(x));
    EXPECT_OK(FreeMemory(y));
    EXPECT_EQ(spy.Count("event_record"), 1);
  }
  EXPECT_OK(device.Synchronize());
  EXPECT_OK(EmptyCache(device));
}

TEST_F(MemoryStreams, FreeInTheOrderOfAnotherStream) {
  Stream home = NewStream();
  Stream other = NewStream();
  Flag gate = NewFlag();
  char* x = New(home, 4096);
  EXPECT_OK(other.Wait(home));
  EXPECT_OK(gate.WaitOn(other));
  EXPECT_OK(FillAsync(other, x, 1, 4096));
  EXPECT_OK(FreeMemory(x, other));
  char* y = New(home, 4096);
  EXPECT_NE(y, x);
  // Ordered by an event: no host needs to see the end.
  EXPECT_OK(FreeMemory(y));
  EXPECT_OK(gate.Set());
  EXPECT_OK(other.Synchronize());
  EXPECT_EQ(New(home, 4096), x);
  EXPECT_OK(FreeMemory(x));
}

// A use that the block's own stream is after needs no wait at all.
TEST_F(MemoryStreams, AnEventOrdersInPlaceOfAWait) {
  Stream home = NewStream();
  Stream other = NewStream();
  Flag gate = NewFlag();
  char* x = New(home, 4096);
  EXPECT_OK(gate.WaitOn(other));
  EXPECT_OK(FillAsync(other, x, 1, 4096));
  EXPECT_OK(home.Wait(other));
  EXPECT_OK(FreeMemory(x));
  EXPECT_EQ(New(home, 4096), x);
  EXPECT_OK(FreeMemory(x));
  EXPECT_OK(gate.Set());
}

// ---- Between streams --------------------------------------------------------

TEST_F(MemoryStreams, AFreeSegmentMovesWhenItsUsesAreOver) {
  Stream a = NewStream();
  Stream b = NewStream();
  Flag gate = NewFlag();
  char* x = New(a, 30 * kMiB);
  EXPECT_OK(gate.WaitOn(a));
  EXPECT_OK(FreeMemory(x));
  char* y = New(b, 30 * kMiB);
  EXPECT_NE(y, x) << "a's work may use it";
  EXPECT_OK(FreeMemory(y));
  EXPECT_OK(gate.Set());
  EXPECT_OK(a.Synchronize());
  const int64_t segments = Read().num_device_alloc;
  char* both[2] = {New(b, 30 * kMiB), New(b, 30 * kMiB)};
  EXPECT_EQ(both[0] == x || both[1] == x, true);
  EXPECT_EQ(Read().num_device_alloc, segments);
  EXPECT_OK(FreeMemory(both[0]));
  EXPECT_OK(FreeMemory(both[1]));
}

// Streams that allocate by turns do not take one another's segment for ever:
// each has its own after some turns, until it rests or there is no room.
TEST_F(MemoryStreams, AStreamAtWorkKeepsItsSmallSegment) {
  Stream streams[] = {NewStream(), NewStream(), NewStream()};
  char* last[3] = {};
  for (int turn = 0; turn < 40; ++turn) {
    for (int i = 0; i < 3; ++i) {
      char* const now = New(streams[i], 512);
      EXPECT_OK(FreeMemory(now));
      if (turn >= 36) {
        EXPECT_EQ(now, last[i]);
      }
      last[i] = now;
    }
  }
  EXPECT_EQ(Read().segment.all.current, 3);
  Stream other = NewStream();
  std::vector<char*> blocks;
  while (blocks.size() < 200 &&
         (blocks.empty() || std::find(std::begin(last), std::end(last),
                                      blocks.back()) == std::end(last))) {
    blocks.push_back(New(other, 2048));
    blocks.push_back(New(other, kMiB));
  }
  EXPECT_LT(blocks.size(), 200u) << "no stream that rests gave its segment up";
  for (char* block : blocks) EXPECT_OK(FreeMemory(block));
}

TEST_F(MemoryStreams, WithoutRoomAStreamAtWorkKeepsNothing) {
  Stream a = NewStream();
  Stream b = NewStream();
  for (int turn = 0; turn < 40; ++turn) {
    for (const StreamRef stream : {a.ref(), b.ref()}) {
      EXPECT_OK(FreeMemory(New(stream, 512)));
    }
  }
  EXPECT_EQ(Read().segment.all.current, 2);
  EXPECT_OK(SetMemoryFraction(dev(), 4.0 / 256));
  Stream c = NewStream();
  EXPECT_OK(FreeMemory(New(c, 512)));
  EXPECT_EQ(Read().segment.all.current, 2);
}

// Of a segment that is in use a block is lent, and comes back when its
// holder's stream was passed.
TEST_F(MemoryStreams, ABlockIsLentAndComesBack) {
  Stream a = NewStream();
  Stream b = NewStream();
  Flag gate = NewFlag();
  constexpr uint64_t kBytes = 3 * kMiB;
  char* kept = New(a, kBytes);
  char* x = New(a, kBytes);
  EXPECT_OK(FreeMemory(x));
  EXPECT_OK(a.Synchronize());
  char* lent = New(b, kBytes);
  EXPECT_EQ(lent, x);
  EXPECT_EQ(Read().segment.all.current, 1);
  EXPECT_OK(gate.WaitOn(b));
  EXPECT_OK(FillAsync(b, lent, 1, 512));
  EXPECT_OK(FreeMemory(lent));
  EXPECT_NE(New(a, kBytes), x) << "b's fill has not run";
  EXPECT_OK(gate.Set());
  EXPECT_OK(b.Synchronize());
  EXPECT_EQ(New(a, kBytes), x);
  EXPECT_OK(FreeMemory(x));
  EXPECT_OK(FreeMemory(x + kBytes));
  EXPECT_OK(FreeMemory(kept));
}

// A stream that borrows goes the slow way each time, so a small segment of its
// own is cheaper.
TEST_F(MemoryStreams, SmallBlocksAreLentWhereThereIsNoRoom) {
  Stream a = NewStream();
  Stream b = NewStream();
  char* kept = New(a, 512);
  EXPECT_OK(FreeMemory(New(a, 512)));
  EXPECT_OK(a.Synchronize());
  char* own = New(b, 512);
  EXPECT_EQ(Read().segment.all.current, 2);
  Stream c = NewStream();
  EXPECT_OK(SetMemoryFraction(dev(), 4.0 / 256));
  char* lent = New(c, 512);
  EXPECT_NE(lent, nullptr);
  EXPECT_EQ(Read().segment.all.current, 2);
  for (char* p : {kept, own, lent}) EXPECT_OK(FreeMemory(p));
}

// With the device's memory the loans of its pools are gone.
TEST_F(MemoryStreams, LoansEndWithTheDevice) {
  {
    Stream a = NewStream();
    Stream b = NewStream();
    Flag gate = NewFlag();
    char* kept = New(a, 30 * kMiB);
    char* x = kept + 20 * kMiB;
    EXPECT_OK(FreeMemory(kept));
    kept = New(a, 20 * kMiB);
    EXPECT_OK(a.Synchronize());
    EXPECT_EQ(New(b, 10 * kMiB), x) << "lent";
    EXPECT_OK(gate.WaitOn(b));
    EXPECT_OK(FillAsync(b, x, 1, 512));
    EXPECT_OK(FreeMemory(x));
    EXPECT_OK(FreeMemory(kept));
    SimulatedFault fault;
    fault.kind = SimulatedFault::Kind::kLost;
    fault.native_code = 46;
    ASSERT_OK(sim().InjectFault(fault));
    (void)a.Synchronize();
  }
  Reset("memory=256MiB");
  std::vector<Stream> streams;
  std::vector<char*> blocks;
  const auto pools =
      internal::DeviceAllocator::Of(dev().record())->pools().All();
  for (size_t i = 0; i < pools.size(); ++i) {
    streams.push_back(NewStream());
    blocks.push_back(New(streams.back(), 512));
  }
  for (internal::BlockPool* pool : pools) {
    ASSERT_TRUE(pool->stream().has_value());
    EXPECT_TRUE(pool->IsOwn(*pool->stream())) << "nothing is lent";
  }
  for (char* p : blocks) EXPECT_OK(FreeMemory(p));
}

// A search asks the pools in this order, which no earlier run may change.
TEST_F(MemoryStreams, PoolsComeInTheOrderOfTheirStreamsTheDefaultStreamsLast) {
  internal::StreamPools& pools =
      internal::DeviceAllocator::Of(dev().record())->pools();
  const auto last = [&pools](size_t count) {
    std::vector<uint64_t> serials;
    const auto all = pools.All();
    for (size_t i = all.size() - count; i < all.size(); ++i) {
      serials.push_back(all[i]->serial());
    }
    return serials;
  };
  const StreamRef common = DefaultStream(dev());
  EXPECT_OK(FreeMemory(New(common, 4096)));
  std::optional<Stream> a = NewStream();
  const Stream b = NewStream();
  for (const StreamRef each : {StreamRef(*a), StreamRef(b)}) {
    EXPECT_OK(FreeMemory(New(each, 4096)));
  }
  using Serials = std::vector<uint64_t>;
  const uint64_t first = StreamRef(*a).serial();
  const uint64_t second = StreamRef(b).serial();
  EXPECT_EQ(last(3), (Serials{first, second, common.serial()}));
  // The pool of a stream that has ended serves the next one on its native
  // stream, whose turn is behind the others.
  a.reset();
  const Stream c = NewStream();
  EXPECT_OK(FreeMemory(New(c, 4096)));
  EXPECT_EQ(last(3), (Serials{second, StreamRef(c).serial(), common.serial()}));
}

// Later work of a blocking stream waits for the legacy default stream.  But an
// idle blocking stream says nothing about the work of the default stream.
TEST_F(MemoryStreams, TheDefaultStreamsRuleIsNotHandedOn) {
  Stream blocking = NewBlocking();
  Stream third = NewStream();
  Flag gate = NewFlag();
  char* x = New(blocking, 30 * kMiB);
  EXPECT_OK(blocking.Synchronize());
  EXPECT_OK(gate.WaitOn(DefaultStream(dev())));
  EXPECT_OK(FillAsync(DefaultStream(dev()), x, 1, 4096));
  EXPECT_OK(FreeMemory(x));
  char* y = New(third, 30 * kMiB);
  EXPECT_NE(y, x);
  EXPECT_OK(gate.Set());
  EXPECT_OK(dev().Synchronize());
  EXPECT_OK(FreeMemory(y));
}

// ---- Streams that end -------------------------------------------------------

// A block that was freed on a destroyed stream does not pass for a new stream's
// block.
// F20
TEST_F(MemoryStreams, BlocksOfAnEndedStreamWait) {
  Flag gate = NewFlag();
  char* x = nullptr;
  {
    Stream a = NewStream();
    x = New(a, 30 * kMiB);
    EXPECT_OK(gate.WaitOn(a));
    EXPECT_OK(FillAsync(a, x, 1, 4096));
    EXPECT_OK(FreeMemory(x));
  }
  Stream b = NewStream();
  char* y = New(b, 30 * kMiB);
  EXPECT_NE(y, x);
  EXPECT_OK(gate.Set());
  EXPECT_OK(dev().Synchronize());
  char* z = New(b, 30 * kMiB);
  EXPECT_EQ(z, x) << "its stream is over, and nothing uses it";
  EXPECT_OK(FreeMemory(y));
  EXPECT_OK(FreeMemory(z));
}

// Another library destroys a marked stream before the free.  What it was
// given runs to its end, and is waited for.
// F22
TEST_F(MemoryStreams, AForeignStreamIsDestroyedBeforeTheFree) {
  Stream home = NewStream();
  Flag gate = NewFlag();
  std::optional<Stream> foreign = NewStream();
  Stream adopted = Must(Stream::FromNative(dev(), Must(foreign->Native())));
  char* x = New(home, 4096);
  EXPECT_OK(gate.WaitOn(adopted));
  EXPECT_OK(RecordStream(x, adopted));
  EXPECT_OK(FillAsync(adopted, x, 1, 4096));
  foreign.reset();
  EXPECT_OK(FreeMemory(x));
  char* y = New(home, 4096);
  EXPECT_NE(y, x);
  EXPECT_OK(gate.Set());
  EXPECT_OK(dev().Synchronize());
  EXPECT_EQ(New(home, 4096), x);
  EXPECT_OK(FreeMemory(x));
  EXPECT_OK(FreeMemory(y));
}

TEST_F(MemoryStreams, AMarkedStreamEndsBeforeTheFree) {
  Stream home = NewStream();
  Flag gate = NewFlag();
  char* x = New(home, 4096);
  {
    Stream marked = NewStream();
    EXPECT_OK(gate.WaitOn(marked));
    EXPECT_OK(RecordStream(x, marked));
    EXPECT_OK(FillAsync(marked, x, 1, 4096));
  }
  EXPECT_OK(FreeMemory(x));
  char* y = New(home, 4096);
  EXPECT_NE(y, x);
  EXPECT_OK(gate.Set());
  EXPECT_OK(dev().Synchronize());
  EXPECT_EQ(New(home, 4096), x);
  EXPECT_OK(FreeMemory(x));
  EXPECT_OK(FreeMemory(y));
}

// The next Stream on the same native one waits for work that a pending
// block is used by; the block came back as of the end of its own stream, and so
// for nobody else.
// F20
TEST_F(MemoryStreams, WaitsOfARecycledStreamDoNotFreeTheEndedStreamsBlocks) {
  Stream first = NewStream();
  Stream second = NewStream();
  Stream third = NewStream();
  Flag first_gate = NewFlag();
  Flag second_gate = NewFlag();
  std::optional<Stream> home = NewStream();
  internal::Timeline* const timeline = internal::TimelineOf(*home);
  char* x = New(*home, 30 * kMiB);
  EXPECT_OK(first_gate.WaitOn(first));
  EXPECT_OK(second_gate.WaitOn(second));
  EXPECT_OK(FillAsync(second, x, 7, 4096));
  EXPECT_OK(FillAsync(first, x + kMiB, 8, 4096));
  EXPECT_OK(FreeMemory(x));
  home.reset();
  Stream next = NewStream();  // allocates nothing
  EXPECT_EQ(internal::TimelineOf(next), timeline) << "recycled";
  EXPECT_OK(next.Wait(second));
  EXPECT_OK(first_gate.Set());
  EXPECT_OK(first.Synchronize());
  char* y = New(third, 30 * kMiB);
  EXPECT_NE(y, x) << "the fill on `second` has not run";
  EXPECT_OK(second_gate.Set());
  EXPECT_OK(second.Synchronize());
  EXPECT_EQ(New(third, 30 * kMiB), x);
  EXPECT_OK(FreeMemory(x));
  EXPECT_OK(FreeMemory(y));
}

TEST_F(MemoryStreams, ManyStreamsLeaveNoPoolsBehind) {
  internal::DeviceAllocator* allocator =
      internal::DeviceAllocator::Of(dev().record());
  for (int i = 0; i < 200; ++i) {
    Stream s = NewStream();
    char* x = New(s, 4096);
    EXPECT_OK(FillAsync(s, x, 1, 4096));
    EXPECT_OK(FreeMemory(x));
    EXPECT_OK(s.Synchronize());
  }
  EXPECT_LE(allocator->pools().All().size(), 30u);  // of all tests before, too
  EXPECT_EQ(Read().segment.all.current, 1);
}

}  // namespace
}  // namespace devrt::testing
