// SPDX-License-Identifier: Apache-2.0
//
// Blocks that a spinning stream uses: the seed's tests of record_stream, and
// what must not wait.

#include <string>
#include <vector>

#include "tests/hardware/memory_test.h"

namespace devrt::hardware {
namespace {

class MemoryStreams : public MemoryTest {};

// Filled on the side stream, read on the other one behind a kernel that spins:
// the block is not handed out before, and is handed out again afterwards.
TEST_F(MemoryStreams, RecordStream) {
  const Stream side = NewStream();
  const Stream current = NewStream();
  char* const result = NewPinned(4);
  char* const input = NewPinned(4);
  Gate gate(dev());
  for (int i = 0; i < 4; ++i) input[i] = static_cast<char>(i + 1);
  char* x = New(side, 4);
  ASSERT_OK(CopyAsync(side, x, input, 4));
  ASSERT_OK(current.Wait(side));
  ASSERT_OK(RecordStream(x, current));
  gate.Hold(current);
  ASSERT_OK(CopyAsync(current, result, x, 4));  // behind the mark
  ASSERT_OK(FreeMemory(x));
  EXPECT_EQ(Read().allocation.all.current, 0);
  EXPECT_EQ(Read().active_bytes.all.current, 512);
  char* other = New(side, 4);
  EXPECT_NE(other, x);
  EXPECT_OK(FillAsync(side, other, 9, 4));
  EXPECT_OK(side.Synchronize());
  EXPECT_TRUE(gate.Holds()) << "something waited for the marked stream";
  gate.Release();
  EXPECT_OK(current.Synchronize());
  EXPECT_EQ(std::string(result, 4), "\1\2\3\4");
  char* again = New(side, 4);
  EXPECT_EQ(again, x);
  EXPECT_OK(FreeMemory(again));
  EXPECT_OK(FreeMemory(other));
  EXPECT_OK(FreePinned(result));
  EXPECT_OK(FreePinned(input));
}

// The view is empty and begins where the base ends, which counts as a use
// (F17). The marked stream spins until after the allocating one was
// synchronised: nothing waits for the device (F14).
TEST_F(MemoryStreams, RecordStreamOnShiftedView) {
  for (const uint64_t bytes : {uint64_t{40}, uint64_t{512}, 2 * kMiB}) {
    SCOPED_TRACE(bytes);
    const Stream side = NewStream();
    const Stream marked = NewStream();
    Gate gate(dev());
    char* base = New(side, bytes);
    gate.Hold(marked);
    EXPECT_OK(RecordStream(base + bytes, marked));
    EXPECT_OK(FreeMemory(base));
    EXPECT_OK(side.Synchronize());
    char* next = New(side, bytes);
    EXPECT_NE(next, base);
    EXPECT_TRUE(gate.Holds()) << "something waited for the marked stream";
    gate.Release();
    EXPECT_OK(FreeMemory(next));
    EXPECT_OK(dev().Synchronize());
    EXPECT_OK(EmptyCache(dev()));
  }
}

// One stream that spins holds back what it uses and nothing else.
// F9
TEST_F(MemoryStreams, StuckStreamHoldsBackItsBlocksOnly) {
  const Stream home = NewStream();
  const Stream stuck = NewStream();
  const Stream fine = NewStream();
  Gate gate(dev());
  gate.Hold(stuck);
  char* held = New(home, 4096);
  EXPECT_OK(RecordStream(held, stuck));
  EXPECT_OK(FreeMemory(held));
  for (int i = 0; i < 20; ++i) {
    char* x = New(home, 4096);
    EXPECT_NE(x, held);
    EXPECT_OK(FillAsync(fine, x, 1, 4096));
    EXPECT_OK(FreeMemory(x));
    EXPECT_OK(fine.Synchronize());
  }
  EXPECT_LE(Read().active.all.current, 2) << "held, and the last one";
  EXPECT_TRUE(gate.Holds());
}

// A use is what was submitted before the free, not what the stream got later.
TEST_F(MemoryStreams, LaterWorkHoldsNothingBack) {
  const Stream home = NewStream();
  const Stream other = NewStream();
  Gate later(dev());
  char* x = New(home, 4096);
  EXPECT_OK(home.Synchronize());
  EXPECT_OK(FillAsync(other, x, 1, 4096));
  EXPECT_OK(other.Synchronize());
  later.Hold(other);  // no use of x
  EXPECT_OK(FreeMemory(x));
  char* again = New(home, 4096);
  EXPECT_EQ(again, x);
  EXPECT_TRUE(later.Holds());
  EXPECT_OK(FreeMemory(again));
}

TEST_F(MemoryStreams, AnEventPassesABlockWithoutAHostWait) {
  const Stream a = NewStream();
  const Stream b = NewStream();
  Gate gate(dev());
  char* x = New(a, 30 * kMiB);
  gate.Hold(a);
  EXPECT_OK(FillAsync(a, x, 1, 4096));
  EXPECT_OK(FreeMemory(x));
  EXPECT_OK(b.Wait(a));
  char* y = New(b, 30 * kMiB);
  EXPECT_EQ(y, x);
  EXPECT_OK(FillAsync(b, y, 2, 4096));
  EXPECT_TRUE(gate.Holds());
  EXPECT_THAT(b.Query(), IsOkAndHolds(false));
  gate.Release();
  EXPECT_EQ(Contents(b, y, 4096), std::string(4096, '\2'));
  EXPECT_OK(FreeMemory(y));
}

// Without an order it does not pass, however much is asked for.
TEST_F(MemoryStreams, BlockDoesNotPassToAnUnorderedStream) {
  const Stream a = NewStream();
  const Stream b = NewStream();
  Gate gate(dev());
  char* x = New(a, 30 * kMiB);
  gate.Hold(a);
  EXPECT_OK(FillAsync(a, x, 1, 4096));
  EXPECT_OK(FreeMemory(x));
  char* y = New(b, 30 * kMiB);
  EXPECT_NE(y, x);
  EXPECT_TRUE(gate.Holds());
  EXPECT_OK(FreeMemory(y));
}

// The stream of the block is gone before its last use ended.
TEST_F(MemoryStreams, ABlockOutlivesItsStream) {
  Gate gate(dev());
  const Stream holder = NewStream();
  char* x = nullptr;
  gate.Hold(holder);
  {
    const Stream a = NewStream();
    x = New(a, 30 * kMiB);
    EXPECT_OK(a.Wait(holder));
    EXPECT_OK(FillAsync(a, x, 1, 4096));
  }
  EXPECT_OK(FreeMemory(x));
  const Stream b = NewStream();
  char* y = New(b, 30 * kMiB);
  EXPECT_NE(y, x);
  EXPECT_TRUE(gate.Holds());
  gate.Release();
  EXPECT_OK(dev().Synchronize());
  char* z = New(b, 30 * kMiB);
  EXPECT_EQ(z, x);
  EXPECT_OK(FreeMemory(y));
  EXPECT_OK(FreeMemory(z));
}

}  // namespace
}  // namespace devrt::hardware
