// SPDX-License-Identifier: Apache-2.0
//
// How often the allocator calls the driver for blocks that several streams use.

#include "devrt/memory/device_memory.h"
#include "devrt/memory/statistics.h"
#include "gtest/gtest.h"
#include "memory/common/rounding.h"
#include "tests/support/spy_backend.h"
#include "tests/support/status_matchers.h"

namespace devrt::testing {
namespace {

using internal::kMiB;

class MemoryDriverCalls : public ::testing::Test {
 protected:
  MemoryDriverCalls() { spy_.SetMemory(256 * kMiB); }
  ~MemoryDriverCalls() override { EXPECT_OK(EmptyCache(device_)); }

  void ExpectCalls(int records, int event_queries, int stream_queries) {
    EXPECT_EQ(spy_.Count("event_record"), records);
    EXPECT_EQ(spy_.Count("event_query"), event_queries);
    EXPECT_EQ(spy_.Count("stream_query"), stream_queries);
    EXPECT_EQ(spy_.Count("event_create"), 0);
    EXPECT_EQ(spy_.Count("alloc"), 0);
    EXPECT_EQ(spy_.bad_handles(), 0);
  }

  // A small block that another stream uses until it is freed.
  void PairWithMark(StreamRef home, StreamRef other) {
    void* const x = Must(AllocateMemory(home, 512));
    EXPECT_OK(RecordStream(x, other));
    EXPECT_OK(FreeMemory(x));
  }

  SpyBackend& spy_ = SpyBackend::Get();
  Device device_ = spy_.device(0);
};

// F15: the event behind the use, and one query when the next block is asked
// for.
TEST_F(MemoryDriverCalls, AMarkTakesOneRecordAndOneQuery) {
  const Stream home = Must(Stream::Create(device_));
  const Stream other = Must(Stream::Create(device_));
  PairWithMark(home, other);
  PairWithMark(home, other);
  spy_.Reset();
  for (int i = 0; i < 6; ++i) PairWithMark(home, other);
  ExpectCalls(6, 6, 0);
  EXPECT_OK(device_.Synchronize());
}

// Where each query found a use that was over, 16 calls share one.
TEST_F(MemoryDriverCalls, ManyMarksShareARecordAndAQuery) {
  const Stream home = Must(Stream::Create(device_));
  const Stream other = Must(Stream::Create(device_));
  for (int i = 0; i < 64; ++i) PairWithMark(home, other);
  spy_.Reset();
  for (int i = 0; i < 160; ++i) PairWithMark(home, other);
  ExpectCalls(10, 10, 0);
  EXPECT_OK(device_.Synchronize());
}

// A large block is asked about by each large request.
TEST_F(MemoryDriverCalls, ALargeBlockComesBackAtTheNextRequest) {
  const Stream home = Must(Stream::Create(device_));
  const Stream other = Must(Stream::Create(device_));
  for (int i = 0; i < 64; ++i) PairWithMark(home, other);
  void* const x = Must(AllocateMemory(home, 20 * kMiB));
  EXPECT_OK(RecordStream(x, other));
  EXPECT_OK(FreeMemory(x));
  EXPECT_EQ(Must(AllocateMemory(home, 20 * kMiB)), x);
  EXPECT_OK(FreeMemory(x));
  EXPECT_OK(device_.Synchronize());
}

// The blocks whose uses have no event yet get one from the next question, and
// come back when that event is complete, though the stream is never idle.
TEST_F(MemoryDriverCalls, BlocksOfABusyStreamComeBackBehindAnEvent) {
  const Stream home = Must(Stream::Create(device_));
  const Stream other = Must(Stream::Create(device_));
  for (int i = 0; i < 64; ++i) PairWithMark(home, other);
  const auto pending = [&] {
    const MemoryStatistics s = GetMemoryStatistics(device_);
    return s.active.all.current - s.allocation.all.current;
  };
  spy_.Reset();
  spy_.SetBusy(true);
  for (int i = 0; i < 40; ++i) PairWithMark(home, other);
  EXPECT_GE(pending(), 24);
  spy_.SetBusy(false);
  EXPECT_OK(FreeMemory(Must(AllocateMemory(home, 512))));
  EXPECT_EQ(pending(), 0);
  EXPECT_EQ(spy_.Count("stream_query"), 0);
  EXPECT_OK(device_.Synchronize());
}

// While the other stream is busy, each request asks about the oldest use alone.
TEST_F(MemoryDriverCalls, ABusyStreamIsAskedOncePerRequest) {
  const Stream home = Must(Stream::Create(device_));
  const Stream other = Must(Stream::Create(device_));
  void* kept[10];
  for (void*& x : kept) x = Must(AllocateMemory(home, 512));
  for (void* x : kept) {
    EXPECT_OK(RecordStream(x, other));
    EXPECT_OK(FreeMemory(x));
  }
  spy_.Reset();
  spy_.SetBusy(true);
  for (int i = 0; i < 5; ++i) {
    EXPECT_OK(FreeMemory(Must(AllocateMemory(home, 512))));
  }
  ExpectCalls(0, 5, 0);
  spy_.SetBusy(false);
  EXPECT_OK(device_.Synchronize());
}

// A block whose use is over serves a request that it fits, though it is not
// the oldest that waits: else a larger block is cut, and the next request for
// that size takes memory from the driver.
TEST_F(MemoryDriverCalls, ARequestGetsTheBlockThatFitsOfSeveralThatAreOver) {
  const Stream home = Must(Stream::Create(device_));
  const Stream other = Must(Stream::Create(device_));
  void* const large = Must(AllocateMemory(home, 32 * kMiB));
  void* const fits = Must(AllocateMemory(home, 20 * kMiB));
  void* const small = Must(AllocateMemory(home, 512));
  for (void* const x : {small, fits}) {
    EXPECT_OK(RecordStream(x, other));
    EXPECT_OK(FreeMemory(x));
  }
  EXPECT_OK(FreeMemory(large));
  spy_.Reset();
  void* const x = Must(AllocateMemory(home, 20 * kMiB));
  EXPECT_EQ(x, fits);
  void* const y = Must(AllocateMemory(home, 32 * kMiB));
  EXPECT_EQ(y, large);
  ExpectCalls(0, 2, 0);
  EXPECT_OK(FreeMemory(x));
  EXPECT_OK(FreeMemory(y));
  EXPECT_OK(device_.Synchronize());
}

// A stream that waits for the block's stream needs no answer of the driver.
TEST_F(MemoryDriverCalls, ABlockPassesToAStreamThatWaitsWithoutAQuery) {
  const Stream a = Must(Stream::Create(device_));
  const Stream b = Must(Stream::Create(device_));
  void* block = nullptr;
  const auto pass = [&](StreamRef from, StreamRef to) {
    void* const x = Must(AllocateMemory(from, 32 * kMiB));
    if (block != nullptr) {
      EXPECT_EQ(x, block);
    }
    block = x;
    EXPECT_OK(FreeMemory(x));
    EXPECT_OK(to.Wait(from));
  };
  pass(a, b);
  pass(b, a);
  spy_.Reset();
  for (int i = 0; i < 10; ++i) {
    pass(a, b);
    pass(b, a);
  }
  ExpectCalls(20, 0, 0);
  EXPECT_EQ(spy_.Count("stream_wait_event"), 20);
  EXPECT_OK(device_.Synchronize());
}

}  // namespace
}  // namespace devrt::testing
