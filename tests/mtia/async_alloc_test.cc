// SPDX-License-Identifier: Apache-2.0
//
// Stream-ordered memory of the simulator, beyond what the conformance suite
// asks of every backend: uses out of order are faults, capacity goes on within
// a stream, failures give it back.
#include <cstring>
#include <string>
#include <vector>

#include "tests/mtia/engine_fixture.h"

namespace devrt::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr uint64_t kMiB = 1 << 20;

class AsyncAllocTest : public EngineTest {
 protected:
  static Result TryAlloc(devrt_stream s, uint64_t size, void** ptr,
                         uint64_t alignment = 0) {
    return Take(ops().alloc_async(self(), s, size, alignment, ptr));
  }
  static char* Alloc(devrt_stream s, uint64_t size, uint64_t alignment = 0) {
    void* ptr = nullptr;
    const Result result = TryAlloc(s, size, &ptr, alignment);
    EXPECT_EQ(result.code, DEVRT_OK) << result.text;
    return static_cast<char*>(ptr);
  }
  static void Dealloc(devrt_stream s, void* ptr, uint64_t size) {
    OK(ops().dealloc_async(self(), s, ptr, size));
  }
  static Result TryDealloc(devrt_stream s, void* ptr) {
    return Take(ops().dealloc_async(self(), s, ptr, 1));
  }
  static devrt_status TryFill(devrt_stream s, void* ptr, uint64_t size) {
    return ops().fill_async(self(), s, ptr, 7, size);
  }
  static uint64_t Free(uint32_t device = 0) {
    uint64_t free = 0, total = 0;
    OK(ops().mem_info(self(), device, &free, &total));
    return free;
  }
  static devrt_pointer_info_v0 Info(const void* ptr) {
    devrt_pointer_info_v0 info = {};
    info.struct_size = sizeof info;
    OK(ops().pointer_info(self(), ptr, &info));
    return info;
  }
  // A stream that `body` is submitted behind, and then let go.
  template <typename Do>
  static void Held(devrt_stream s, Do body) {
    const devrt_flag gate = NewFlag();
    Hold(s, gate);
    body();
    Set(gate);
  }
  static Result Synced(devrt_stream s) {
    return Take(ops().stream_sync(self(), s));
  }
  static std::string Config(const char* strategy) {
    return std::string("memory=16MiB,overhead=1MiB,strategy=") + strategy;
  }
};

// The address is there at once, the memory lasts until the stream has come to
// the free.
TEST_F(AsyncAllocTest, LivesInStreamOrder) {
  for (const char* strategy : kStrategies) {
    Reset(Config(strategy));
    const uint64_t before = Free();
    const devrt_stream s = NewStream();
    Held(s, [&] {
      char* const p = Alloc(s, kMiB);
      EXPECT_EQ(Info(p).kind, DEVRT_POINTER_DEVICE);
      EXPECT_EQ(Info(p + 5).base, p);
      EXPECT_EQ(Info(p).size, kMiB);
      OK(TryFill(s, p, kMiB));
      Dealloc(s, p, kMiB);
      EXPECT_EQ(Info(p).kind, DEVRT_POINTER_UNREGISTERED);
      EXPECT_EQ(Info(p).host_readable, 0u);
      EXPECT_EQ(Free(), before - kMiB);
      EXPECT_EQ(Stats().live_blocks, 1u);
    });
    Sync(s);
    EXPECT_EQ(Free(), before);
    EXPECT_EQ(Stats().live_blocks, 0u);
  }
}

TEST_F(AsyncAllocTest, AnEventOrdersAnotherStream) {
  for (const char* strategy : kStrategies) {
    Reset(Config(strategy));
    const devrt_stream a = NewStream(), b = NewStream();
    int64_t* cell = nullptr;
    Held(a, [&] {
      cell = reinterpret_cast<int64_t*>(Alloc(a, sizeof *cell));
      Wait(b, Mark(a));
      Put(b, cell, 5);
      MulAdd(b, cell, 2, 1);
      OK(TryFill(b, cell, sizeof *cell));
      Wait(a, Mark(b));
      Dealloc(a, cell, sizeof *cell);
    });
    Sync(a);
    EXPECT_EQ(Stats().live_blocks, 0u);
  }
}

// Work of each kind that comes before the allocation has.
TEST_F(AsyncAllocTest, UseBeforeTheAllocationIsAFault) {
  for (int kind = 0; kind < 3; ++kind) {
    Reset("");
    const devrt_stream a = NewStream(), b = NewStream();
    Hold(a, NewFlag());
    char* const p = Alloc(a, 64);
    if (kind == 0) {
      OK(TryFill(b, p, 64));
    } else {
      std::vector<devrt_access_v0> accesses;
      if (kind == 1) {
        accesses.push_back({p, 64, DEVRT_ACCESS_READ, 0});
      }
      Launch(
          b,
          [p](const devrt_kernel_context_v0* context) {
            context->local(context, p, 64, DEVRT_ACCESS_READ);
          },
          accesses);
    }
    const Result result = Synced(b);
    EXPECT_EQ(result.native_code, 700);
    EXPECT_THAT(result.text, AllOf(HasSubstr("block #"),
                                   HasSubstr("no event orders it behind")));
  }
}

TEST_F(AsyncAllocTest, UseAfterTheFreeIsFound) {
  const devrt_stream a = NewStream(), b = NewStream();
  char* const p = Alloc(a, 64);
  Wait(b, Mark(a));
  const devrt_flag gate = NewFlag();
  Hold(a, gate);
  Dealloc(a, p, 64);
  // The free has not run, and yet nobody may begin anything with the block.
  for (const devrt_stream s : {a, b}) {
    const Result result = Take(TryFill(s, p, 64));
    EXPECT_EQ(result.code, DEVRT_INVALID_ARGUMENT);
    EXPECT_THAT(result.text, HasSubstr("after its stream-ordered free"));
  }
  Launch(b, [p](const devrt_kernel_context_v0* context) {
    context->local(context, p, 64, DEVRT_ACCESS_READ);
  });
  const Result result = Synced(b);
  EXPECT_EQ(result.native_code, 700);
  EXPECT_THAT(result.text, HasSubstr("use after the stream-ordered free"));
}

// A use that no event orders before the free.
TEST_F(AsyncAllocTest, AFreeThatOvertakesAUseIsAFault) {
  const devrt_stream a = NewStream(), b = NewStream();
  char* const p = Alloc(a, 64);
  Wait(b, Mark(a));
  const devrt_flag gate = NewFlag();
  Hold(b, gate);
  OK(TryFill(b, p, 64));
  Dealloc(a, p, 64);
  Sync(a);
  Set(gate);
  const Result result = Synced(b);
  EXPECT_EQ(result.native_code, 700);
  EXPECT_THAT(result.text, HasSubstr("not live memory: it is freed block #"));
}

TEST_F(AsyncAllocTest, AFreeThatOvertakesTheAllocationIsAFault) {
  const devrt_stream a = NewStream(), b = NewStream();
  Hold(a, NewFlag());
  char* const p = Alloc(a, 64);
  Dealloc(b, p, 64);
  const Result result = Synced(b);
  EXPECT_EQ(result.native_code, 700);
  EXPECT_THAT(result.text, HasSubstr("came before its allocation"));
}

// A stream can reuse at once what it freed. Other streams and raw allocations
// cannot.
TEST_F(AsyncAllocTest, CapacityGoesOnWithinAStream) {
  for (const char* strategy : kStrategies) {
    Reset(Config(strategy));
    const devrt_stream a = NewStream(), b = NewStream();
    Held(a, [&] {
      for (int i = 0; i < 4; ++i) {
        char* const large = Alloc(a, 8 * kMiB);
        char* const small = Alloc(a, 6 * kMiB);
        OK(TryFill(a, large, 8 * kMiB));
        OK(TryFill(a, small, 6 * kMiB));
        Dealloc(a, large, 8 * kMiB);
        Dealloc(a, small, 6 * kMiB);
        EXPECT_EQ(Free(), kMiB);
      }
      // 3 of the 14 are lent, the rest waits for its frees.
      char* const third = Alloc(a, 4 * kMiB);
      EXPECT_EQ(Free(), kMiB);
      void* none = nullptr;
      EXPECT_EQ(TryAlloc(b, 2 * kMiB, &none).code, DEVRT_RESOURCE_EXHAUSTED);
      ExpectCode(ops().alloc(self(), 0, 2 * kMiB, 0, &none),
                 DEVRT_RESOURCE_EXHAUSTED);
      EXPECT_EQ(none, nullptr);
      // All that is left, over both blocks' places and the free one.
      char* const rest = Alloc(a, 11 * kMiB);
      EXPECT_EQ(Free(), 0u);
      Dealloc(a, third, 4 * kMiB);
      Dealloc(a, rest, 11 * kMiB);
      EXPECT_EQ(TryAlloc(a, 16 * kMiB, &none).code, DEVRT_RESOURCE_EXHAUSTED);
      EXPECT_EQ(Free(), 0u) << "a request that fails gives nothing away";
    });
    Sync(a);
    EXPECT_EQ(Free(), 15 * kMiB);
    char* const again = Alloc(b, 15 * kMiB);
    Dealloc(b, again, 15 * kMiB);
    Sync(b);
    EXPECT_EQ(Free(), 15 * kMiB);
  }
}

TEST_F(AsyncAllocTest, OutOfMemoryIsThatOfAlloc) {
  Reset("memory=16MiB,overhead=1MiB");
  const devrt_stream s = NewStream();
  const uint64_t before = Free();
  void* none = nullptr;
  for (const uint64_t size : {16 * kMiB, uint64_t{1} << 60, ~uint64_t{0}}) {
    const Result result = TryAlloc(s, size, &none);
    EXPECT_EQ(result.code, DEVRT_RESOURCE_EXHAUSTED);
    EXPECT_EQ(result.flags & DEVRT_ERROR_STICKY, 0u);
    EXPECT_THAT(result.text, HasSubstr("total 16777216, free 15728640"));
  }
  ExpectCode(ops().alloc_async(self(), s, 64, 3, &none),
             DEVRT_INVALID_ARGUMENT);
  EXPECT_EQ(none, nullptr);
  EXPECT_EQ(Free(), before);
  // Fragmented: 10 MiB are free, but not in one place.
  char* const a = Alloc(s, 5 * kMiB);
  char* const b = Alloc(s, 5 * kMiB);
  char* const c = Alloc(s, 5 * kMiB);
  Dealloc(s, a, 5 * kMiB);
  Dealloc(s, c, 5 * kMiB);
  Sync(s);
  EXPECT_THAT(TryAlloc(s, 10 * kMiB, &none).text, HasSubstr("(fragmented)"));
  Dealloc(s, b, 5 * kMiB);
  char* const aligned = Alloc(s, 64, kMiB);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(aligned) % kMiB, 0u);
  Dealloc(s, aligned, 64);
  Sync(s);
  EXPECT_EQ(Free(), before);
}

TEST_F(AsyncAllocTest, WrongFreesAreRefused) {
  Reset("devices=2");
  const devrt_stream s = NewStream(), other = NewStream(1);
  char* const p = Alloc(s, 64);
  void* raw = nullptr;
  OK(ops().alloc(self(), 0, 64, 0, &raw));
  int local = 0;
  const auto refused = [](const Result& result, const char* part) {
    EXPECT_EQ(result.code, DEVRT_INVALID_ARGUMENT);
    EXPECT_THAT(result.text, HasSubstr(part));
  };
  refused(TryDealloc(s, p + 8), "not the start of a block");
  refused(TryDealloc(s, &local), "plain host memory");
  refused(TryDealloc(other, p), "not of mtia:1");
  refused(TryDealloc(s, raw), "not of the stream-ordered allocator");
  Held(s, [&] {
    Dealloc(s, p, 64);
    refused(TryDealloc(s, p), "second free");
    refused(Take(ops().dealloc(self(), 0, p, 64)), "second free");
  });
  Sync(s);
  refused(TryDealloc(s, p), "second free");
  OK(ops().dealloc(self(), 0, raw, 64));
}

// C63, C64: a raw free takes it, and waits for nothing.
TEST_F(AsyncAllocTest, RawFreeOfAnAsyncBlockDoesNotWait) {
  Reset("raw_free_syncs=yes");
  const devrt_stream s = NewStream(), held = NewStream();
  char* const p = Alloc(s, 64);
  OK(TryFill(s, p, 64));
  Sync(s);
  const devrt_flag gate = NewFlag();
  Hold(held, gate);
  OK(ops().dealloc(self(), 0, p, 64));
  EXPECT_FALSE(Done(held));
  EXPECT_EQ(Stats().live_blocks, 0u);
  // Before the stream has come to the allocation.
  char* q = nullptr;
  Held(s, [&] {
    q = Alloc(s, 64);
    OK(ops().dealloc(self(), 0, q, 64));
  });
  Sync(s);
  EXPECT_EQ(Stats().live_blocks, 0u);
  Set(gate);
}

TEST_F(AsyncAllocTest, PeersReachAsyncBlocks) {
  Reset("devices=2");
  const devrt_stream s = NewStream(1), peer = NewStream(0);
  char* const p = Alloc(s, 64);
  Sync(s);
  ExpectCode(TryFill(peer, p, 64), DEVRT_INVALID_ARGUMENT);
  OK(ops().peer_enable(self(), 0, 1));
  OK(TryFill(peer, p, 64));
  Sync(peer);
  OK(ops().peer_disable(self(), 0, 1));
  ExpectCode(TryFill(peer, p, 64), DEVRT_INVALID_ARGUMENT);
  Dealloc(s, p, 64);
}

// The frees of a stream that failed for another device's sake never run.
TEST_F(AsyncAllocTest, FailedStreamsGiveTheirMemoryBack) {
  Reset("devices=2,memory=16MiB,overhead=1MiB");
  const devrt_stream bad = NewStream(1), s = NewStream(0);
  const devrt_flag gate = NewFlag(1);
  char* const p = Alloc(s, kMiB);
  char* const q = Alloc(s, kMiB);
  char* const lost = Alloc(bad, kMiB);
  Sync(s);
  Sync(bad);
  Hold(bad, gate);
  OK(probe().fault(self(), bad, DEVRT_FAULT_TRAP));
  Wait(s, Mark(bad, 1));
  Dealloc(s, p, kMiB);
  Set(gate);
  EXPECT_NE(Synced(s).code, DEVRT_OK);
  EXPECT_EQ(Free(), 14 * kMiB);
  // C94: taking back goes on.
  Dealloc(s, q, kMiB);
  EXPECT_EQ(Free(), 15 * kMiB);
  Dealloc(bad, lost, kMiB);
  EXPECT_EQ(Stats().live_blocks, 0u);
  ExpectCode(TryFill(NewStream(0), p, 64), DEVRT_INVALID_ARGUMENT);
}

TEST_F(AsyncAllocTest, ResetsForget) {
  const devrt_stream s = NewStream();
  Hold(s, NewFlag());
  char* const p = Alloc(s, 64);
  Dealloc(s, p, 64);
  Reset("");
  EXPECT_EQ(Stats().live_blocks, 0u);
  const devrt_stream fresh = NewStream();
  EXPECT_EQ(TryDealloc(fresh, p).code, DEVRT_INVALID_ARGUMENT);
  EXPECT_EQ(Alloc(fresh, 64), p) << "pointers begin afresh";
}

TEST_F(AsyncAllocTest, ThreadedModeKeepsTheSameRules) {
  Reset("mode=threaded,memory=16MiB,overhead=1MiB");
  const devrt_stream a = NewStream(), b = NewStream();
  for (int i = 0; i < 50; ++i) {
    char* const p = Alloc(a, 10 * kMiB);
    OK(TryFill(a, p, 1000));
    Wait(b, Mark(a));
    OK(TryFill(b, p, 1000));
    Wait(a, Mark(b));
    Dealloc(a, p, 10 * kMiB);
  }
  Sync(a);
  EXPECT_EQ(Free(), 15 * kMiB);
}

TEST_F(AsyncAllocTest, TheTimelineShowsBoth) {
  OK(sim().timeline_enable(self(), 1));
  const devrt_stream s = NewStream();
  Dealloc(s, Alloc(s, 64), 64);
  Sync(s);
  std::vector<uint32_t> kinds;
  OK(sim().timeline(
      self(),
      [](void* arg, const devrt_sim_op_v1* op) {
        EXPECT_EQ(op->bytes, 64u);
        EXPECT_EQ(op->state, DEVRT_SIM_DONE);
        static_cast<std::vector<uint32_t>*>(arg)->push_back(op->kind);
      },
      &kinds));
  EXPECT_EQ(kinds,
            (std::vector<uint32_t>{DEVRT_SIM_OP_ALLOC, DEVRT_SIM_OP_FREE}));
}

}  // namespace
}  // namespace devrt::test
