// SPDX-License-Identifier: Apache-2.0
//
// Requests that find no room, in the order of docs/reference/semantics.md 2.6;
// failures of the driver at each call; lost devices.

#include <pthread.h>

#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "devrt/memory/devrt_memory.h"
#include "memory/common/hot_settings.h"
#include "memory/device/deferred_recovery.h"
#include "tests/memory/device/cache_fixture.h"

namespace devrt::testing {
namespace {

using internal::kMiB;
using ::testing::HasSubstr;
using ::testing::Not;

class MemoryRecovery : public DeviceCacheTest {};

// The block that is waited for in the request's own recovery is found.
// F7
TEST_F(MemoryRecovery, SearchesAgainAfterTheWait) {
  Stream s = NewStream();
  Stream other = NewStream();
  char* x = New(s, 150 * kMiB);
  EXPECT_OK(Spin(other, kLong));
  EXPECT_OK(RecordStream(x, other));
  EXPECT_OK(FreeMemory(x));
  char* y = New(s, 150 * kMiB);  // waits for `other`
  EXPECT_EQ(y, x);
  EXPECT_EQ(Read().num_sync_all_streams, 1);
  EXPECT_EQ(Read().num_alloc_retries, 1);
  EXPECT_EQ(Read().num_device_alloc, 1);
  EXPECT_EQ(Read().num_ooms, 0);
  EXPECT_OK(FreeMemory(y));
}

TEST_F(MemoryRecovery, CachedSegmentsGoBackAsFarAsNeeded) {
  Stream s = NewStream();
  std::vector<char*> x;
  for (int i = 0; i < 5; ++i) x.push_back(New(s, 40 * kMiB));
  for (char* p : x) EXPECT_OK(FreeMemory(p));
  EXPECT_OK(s.Synchronize());
  char* large = New(s, 60 * kMiB);
  EXPECT_EQ(Read().num_alloc_retries, 1);
  EXPECT_EQ(Read().num_device_free, 2) << "40 + 40 MiB are enough";
  EXPECT_EQ(Read().num_sync_all_streams, 0);
  EXPECT_OK(FreeMemory(large));
}

// A request whose waits are its caller's: the rounds that it takes.
absl::StatusOr<void*> Deferred(StreamRef stream, uint64_t bytes, int* rounds) {
  internal::DeferredRecovery deferred;
  for (;;) {
    absl::StatusOr<void*> made = [&] {
      const internal::DeferredRecovery::Scope scope(&deferred);
      return AllocateMemory(stream, bytes);
    }();
    *rounds = deferred.rounds();
    const auto work = deferred.TakeWork();
    if (!work) return made;
    EXPECT_STATUS(made, kCancelled, "caller");
    EXPECT_EQ(deferred.device(), stream.device());
    EXPECT_OK(work());
  }
}

TEST_F(MemoryRecovery, DeferredRecoveryEqualsTheDirectOne) {
  Stream s = NewStream();
  Stream other = NewStream();
  int rounds = 0;
  char* x = New(s, 150 * kMiB);
  EXPECT_OK(Spin(other, kLong));
  EXPECT_OK(RecordStream(x, other));
  EXPECT_OK(FreeMemory(x));
  // As in F7: found after the wait, not given back.
  const absl::StatusOr<void*> y = Deferred(s, 150 * kMiB, &rounds);
  ASSERT_OK(y);
  EXPECT_EQ(*y, x);
  // A query may be what lets the work end: then nobody waits.
  EXPECT_EQ(Read().num_sync_all_streams, rounds - 1);
  EXPECT_EQ(Read().num_alloc_retries, 1);
  EXPECT_EQ(Read().num_device_alloc, 1);
  // Step 8, behind the stream's own work.
  EXPECT_OK(Spin(s, kLong));
  EXPECT_OK(FillAsync(s, *y, 1, 4096));
  EXPECT_OK(FreeMemory(*y));
  const absl::StatusOr<void*> z = Deferred(s, 160 * kMiB, &rounds);
  ASSERT_OK(z);
  EXPECT_GE(rounds, 1);
  EXPECT_EQ(Read().num_alloc_retries, 2);
  EXPECT_EQ(Read().num_device_free, 1);
  // No room at all: the fourth round says so.
  EXPECT_EQ(Deferred(s, 200 * kMiB, &rounds).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(rounds, 3);
  EXPECT_EQ(Read().num_ooms, 1);
  EXPECT_OK(FreeMemory(*z));
  // Nothing is left to anybody outside the scope.
  EXPECT_EQ(internal::DeferredRecovery::Current(), nullptr);
}

TEST_F(MemoryRecovery, CachedSegmentsAreLeftToTheCallerAsFarAsNeeded) {
  Stream s = NewStream();
  std::vector<char*> x;
  for (int i = 0; i < 5; ++i) x.push_back(New(s, 40 * kMiB));
  for (char* p : x) EXPECT_OK(FreeMemory(p));
  EXPECT_OK(s.Synchronize());
  int rounds = 0;
  const absl::StatusOr<void*> large = Deferred(s, 60 * kMiB, &rounds);
  ASSERT_OK(large);
  EXPECT_EQ(rounds, 1);
  EXPECT_EQ(Read().num_alloc_retries, 1);
  EXPECT_EQ(Read().num_device_free, 2);
  EXPECT_EQ(Read().num_sync_all_streams, 0);
  EXPECT_OK(FreeMemory(*large));
}

// Step 8: memory whose last use is not over is waited for, not given away.
TEST_F(MemoryRecovery, TheLastStepWaitsForTheStreamsWork) {
  Stream s = NewStream();
  char* x = New(s, 150 * kMiB);
  EXPECT_OK(Spin(s, kLong));
  EXPECT_OK(FillAsync(s, x, 1, 4096));
  EXPECT_OK(FreeMemory(x));
  char* y = New(s, 160 * kMiB);
  EXPECT_EQ(Read().num_device_free, 1);
  EXPECT_OK(FreeMemory(y));
}

// One budget: private resources and the device's make room for each other.
class PrivateRecovery : public MemoryRecovery {
 protected:
  void TearDown() override {
    own_.reset();
    MemoryRecovery::TearDown();
  }
  void* NewPrivate(StreamRef stream, uint64_t bytes) {
    const absl::StatusOr<void*> made = own_->Allocate(stream, bytes);
    EXPECT_OK(made.status());
    return made.ok() ? *made : nullptr;
  }
  std::shared_ptr<MemoryResource> own_ = PrivateCachingResource(dev());
};

TEST_F(PrivateRecovery, CachesMakeRoomForEachOther) {
  Stream s = NewStream();
  EXPECT_OK(FreeMemory(New(s, 150 * kMiB)));
  EXPECT_OK(s.Synchronize());
  void* x = NewPrivate(s, 150 * kMiB);
  EXPECT_OK(own_->Deallocate(s, x, 150 * kMiB));
  EXPECT_OK(s.Synchronize());
  EXPECT_OK(FreeMemory(New(s, 150 * kMiB)));
}

TEST_F(PrivateRecovery, TheLastStepsWaitForBoth) {
  Stream s = NewStream();
  Stream other = NewStream();
  void* x = NewPrivate(s, 150 * kMiB);
  EXPECT_OK(Spin(other, kLong));
  EXPECT_OK(RecordStream(x, other));
  EXPECT_OK(own_->Deallocate(s, x, 150 * kMiB));
  char* y = New(s, 150 * kMiB);
  EXPECT_OK(Spin(other, kLong));
  EXPECT_OK(RecordStream(y, other));
  EXPECT_OK(FreeMemory(y));
  EXPECT_OK(own_->Deallocate(s, NewPrivate(s, 150 * kMiB), 150 * kMiB));
}

TEST_F(PrivateRecovery, EmptyCacheAndGarbageCollectionReachThem) {
  Stream s = NewStream();
  EXPECT_OK(own_->Deallocate(s, NewPrivate(s, 100 * kMiB), 100 * kMiB));
  EXPECT_OK(s.Synchronize());
  const uint64_t before = Must(dev().GetMemoryInfo()).free_bytes;
  EXPECT_OK(EmptyCache(dev()));
  EXPECT_EQ(Must(dev().GetMemoryInfo()).free_bytes, before + 100 * kMiB);
  EXPECT_OK(own_->Deallocate(s, NewPrivate(s, 100 * kMiB), 100 * kMiB));
  EXPECT_OK(s.Synchronize());
  EXPECT_OK(SetAllocatorSettings("garbage_collection_threshold:0.25"));
  EXPECT_OK(FreeMemory(New(s, 10 * kMiB)));
  EXPECT_OK(SetAllocatorSettings("garbage_collection_threshold:0"));
  EXPECT_EQ(Must(dev().GetMemoryInfo()).free_bytes, before + 90 * kMiB);
}

TEST_F(PrivateRecovery, FiguresCountThem) {
  Stream s = NewStream();
  void* x = NewPrivate(s, 150 * kMiB);
  const auto refused = AllocateMemory(s, 150 * kMiB);
  const auto info = GetOutOfMemoryInfo(refused.status());
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->allocated, 150 * kMiB);
  EXPECT_THAT(MemoryReport(dev()),
              AllOf(HasSubstr("all: 150.00 MiB reserved: 150.00 MiB in 1 block"
                              " held"),
                    HasSubstr("private resources: 150.00 MiB reserved")));
  EXPECT_OK(own_->Deallocate(s, x, 150 * kMiB));
}

// The thread is the program's own: it may end in a callback, whichever way the
// memory was asked for.
TEST_F(MemoryRecovery, ACallbackMayEndItsThread) {
  Stream s = NewStream();
  char* held = New(s, 200 * kMiB);
  const uint64_t id = Must(AddOutOfMemoryCallback(
      [](Device, uint64_t) -> bool { pthread_exit(nullptr); }));
  void* native = Must(s.Native());
  const std::shared_ptr<MemoryResource> resource = ThreadSafeResource(
      LoggingResource(CachingResource(dev()), [](std::string_view) {}));
  const std::function<void()> ways[] = {
      [&] { (void)AllocateMemory(s, 190 * kMiB); },
      [&] { (void)resource->Allocate(s, 190 * kMiB); },
      [&] {
        void* made = nullptr;
        devrt_memory_alloc_v0("mtia:0", 190 * kMiB, native, &made);
      },
      [&] {
        const StreamGuard guard(s);
        const int64_t extent = 190 * kMiB;
        (void)Array::Empty({&extent, 1}, kUInt8, dev());
      },
  };
  for (const std::function<void()>& way : ways) {
    bool returned = false;
    std::thread([&] {
      way();
      returned = true;
    }).join();
    EXPECT_FALSE(returned);
  }
  RemoveOutOfMemoryCallback(id);
  EXPECT_OK(FreeMemory(held));
  EXPECT_OK(FreeMemory(New(s, 190 * kMiB)));
  void* block = Must(resource->Allocate(s, kMiB));
  EXPECT_OK(resource->Deallocate(s, block, kMiB));
}

TEST_F(MemoryRecovery, ACallbackThatThrowsEndsTheRequest) {
  Stream s = NewStream();
  const std::shared_ptr<MemoryResource> resource = CachingResource(dev());
  const auto statuses = [&] {
    const StreamGuard guard(s);
    return std::vector<absl::Status>{
        AllocateMemory(s, kMiB).status(),
        Buffer::Allocate(s, kMiB).status(),
        Buffer::Allocate(resource, s, kMiB).status(),
        Array::Zeros({1024}, kUInt8, dev()).status(),
    };
  };
  const std::function<void()> throws[] = {
      [] { throw std::runtime_error("mine"); }, [] { throw 5; }};
  for (const std::function<void()>& thrower : throws) {
    bool later_ran = false;
    const uint64_t id =
        Must(AddOutOfMemoryCallback([&](Device, uint64_t) -> bool {
          thrower();
          return false;
        }));
    const uint64_t later = Must(AddOutOfMemoryCallback(
        [&](Device, uint64_t) { return later_ran = true; }));
    for (const absl::Status& status : statuses()) {
      EXPECT_STATUS(
          status, kInternal,
          absl::StrCat("out-of-memory callback ", id, " threw an exception"));
      EXPECT_THAT(std::string(status.message()),
                  Not(HasSubstr("resource \"caching\"")));
    }
    EXPECT_FALSE(later_ran);
    RemoveOutOfMemoryCallback(id);
    RemoveOutOfMemoryCallback(later);
  }
  EXPECT_EQ(Read().reserved_bytes.all.current, 0);
  EXPECT_EQ(Read().allocation.all.current, 0);
  EXPECT_OK(FreeMemory(New(s, kMiB)));
}

// A copy that throws must not leave the request.
TEST_F(MemoryRecovery, ACallbackIsNotCopied) {
  struct Counted {
    explicit Counted(int* made) : copies(made) {}
    Counted(const Counted& other) : copies(other.copies) { ++*copies; }
    bool operator()(Device, uint64_t) const { return false; }
    int* copies;
  };
  Stream s = NewStream();
  int copies = 0;
  OutOfMemoryCallback callback = Counted(&copies);
  const int before = copies;
  const uint64_t id = Must(AddOutOfMemoryCallback(std::move(callback)));
  EXPECT_OK(FreeMemory(New(s, kMiB)));
  EXPECT_EQ(copies, before);
  RemoveOutOfMemoryCallback(id);
}

TEST_F(MemoryRecovery, AnEmptyCallbackIsRefused) {
  EXPECT_STATUS(AddOutOfMemoryCallback(OutOfMemoryCallback()), kInvalidArgument,
                "AddOutOfMemoryCallback");
}

TEST_F(MemoryRecovery, ACallbackDoesNotAllocate) {
  Stream s = NewStream();
  absl::Status inside;
  int calls = 0;
  const uint64_t id = Must(AddOutOfMemoryCallback([&](Device, uint64_t) {
    if (++calls < 100) inside = AllocateMemory(s, 1024).status();
    return false;
  }));
  EXPECT_OK(FreeMemory(New(s, kMiB)));
  EXPECT_EQ(calls, 1);
  EXPECT_STATUS(inside, kFailedPrecondition, "must not allocate any");
  RemoveOutOfMemoryCallback(id);
}

TEST_F(MemoryRecovery, CallbackAllocatesFromTheCache) {
  Stream s = NewStream();
  EXPECT_OK(FreeMemory(New(s, 1024)));
  absl::StatusOr<void*> inside;
  const uint64_t id = Must(AddOutOfMemoryCallback([&](Device, uint64_t) {
    inside = AllocateMemory(s, 1024);
    return false;
  }));
  EXPECT_OK(FreeMemory(New(s, 4 * kMiB)));
  RemoveOutOfMemoryCallback(id);
  EXPECT_OK(FreeMemory(Must(std::move(inside))));
}

TEST_F(MemoryRecovery, CallbacksMakeRoom) {
  Stream s = NewStream();
  char* spare = New(s, 200 * kMiB);
  std::vector<std::string> calls;
  const uint64_t first =
      Must(AddOutOfMemoryCallback([&](Device d, uint64_t bytes) {
        EXPECT_EQ(d, dev());
        EXPECT_EQ(bytes, 190 * kMiB);
        calls.push_back("first");
        return false;
      }));
  const uint64_t second = Must(AddOutOfMemoryCallback([&](Device, uint64_t) {
    calls.push_back("second");
    EXPECT_OK(FreeMemory(spare));
    return true;
  }));
  char* x = New(s, 190 * kMiB);
  EXPECT_EQ(x, spare);
  EXPECT_EQ(calls, (std::vector<std::string>{"first", "second"}));
  EXPECT_EQ(Read().num_alloc_retries, 0);
  RemoveOutOfMemoryCallback(first);
  RemoveOutOfMemoryCallback(second);
  EXPECT_OK(FreeMemory(x));
}

TEST_F(MemoryRecovery, AFailedRequestChangesNothingElse) {
  Stream s = NewStream();
  char* held = New(s, 200 * kMiB);
  const MemoryStatistics before = Read();
  const absl::Status full = AllocateMemory(s, 100 * kMiB).status();
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  const MemoryStatistics after = Read();
  EXPECT_EQ(after.num_ooms, 1);
  EXPECT_EQ(after.num_alloc_retries, 1);
  EXPECT_EQ(after.allocation.all.allocated, before.allocation.all.allocated);
  EXPECT_EQ(after.active_bytes.all.allocated,
            before.active_bytes.all.allocated);
  EXPECT_EQ(after.reserved_bytes.all.peak, before.reserved_bytes.all.peak);
  char* small = New(s, kMiB);  // C62
  EXPECT_OK(FreeMemory(small));
  EXPECT_OK(FreeMemory(held));
}

// The error says what the program can do about cached memory and the limit.
TEST_F(MemoryRecovery, TheErrorNamesTheRemedies) {
  Stream s = NewStream();
  const auto error_of = [&](uint64_t bytes) {
    return std::string(AllocateMemory(s, bytes).status().message());
  };
  char* held = New(s, 2 * kMiB);  // 18 MiB of its segment are cached
  EXPECT_OK(SetMemoryFraction(dev(), 21.0 / 256));
  // Small blocks are cut from segments of their own.
  EXPECT_THAT(
      error_of(kMiB / 2),
      AllOf(HasSubstr("This process may reserve 21.00 MiB of it"),
            HasSubstr("needs 2.00 MiB in one piece; devrt holds 2.00 MiB for "
                      "the program and 18.00 MiB more that is reserved but "
                      "unallocated."),
            HasSubstr("SetMemoryFraction raises it"),
            HasSubstr("EmptyCache cannot give it back: free blocks")));
  // Above the limit, caches are left as they are.
  EXPECT_THAT(error_of(30 * kMiB), AllOf(HasSubstr("SetMemoryFraction raises"),
                                         Not(HasSubstr("EmptyCache"))));
  EXPECT_OK(SetMemoryFraction(dev(), 1.0));
  EXPECT_THAT(error_of(240 * kMiB),
              AllOf(HasSubstr("EmptyCache"), Not(HasSubstr("SetMemory"))));
  EXPECT_OK(FreeMemory(held));
  // Nothing is cached that could not go back.
  held = New(s, 200 * kMiB);
  EXPECT_THAT(error_of(100 * kMiB),
              AllOf(HasSubstr("in one piece"), Not(HasSubstr("EmptyCache"))));
  EXPECT_OK(FreeMemory(held));
}

// Each allocation of the driver fails in turn, with no room and otherwise: an
// answer each time, no leak, figures that hold.
TEST_F(MemoryRecovery, EachNativeAllocationFailsInTurn) {
  for (const int32_t code : {2, 46}) {  // out of memory; busy, not sticky
    for (uint32_t nth = 1; nth <= 6; ++nth) {
      SCOPED_TRACE(::testing::Message() << "code " << code << " nth " << nth);
      std::optional<Stream> s = NewStream();
      SimulatedFault fault;
      fault.kind = SimulatedFault::Kind::kApi;
      fault.nth = nth;
      fault.native_code = code;
      fault.where = "alloc";
      ASSERT_OK(sim().InjectFault(fault));
      std::vector<void*> live;
      for (const uint64_t bytes :
           {uint64_t{512}, 3 * kMiB, 12 * kMiB, 30 * kMiB, 40 * kMiB}) {
        absl::StatusOr<void*> made = AllocateMemory(*s, bytes);
        if (made.ok()) {
          live.push_back(*made);
        } else {
          EXPECT_EQ(code, 46);
          EXPECT_NE(made.status().code(), absl::StatusCode::kOk);
        }
      }
      EXPECT_EQ(Read().allocation.all.current,
                static_cast<int64_t>(live.size()));
      for (void* p : live) EXPECT_OK(FreeMemory(p));
      ExpectNothingLeft();
      EXPECT_EQ(sim().Stats()->live_blocks, 0u);
      s.reset();
      Reset("memory=256MiB");  // drops a fault that was not reached
    }
  }
}

// ---- Settings ---------------------------------------------------------------

class MemorySettings : public DeviceCacheTest {
 protected:
  void TearDown() override {
    internal::PublishSettings(AllocatorSettings());
    DeviceCacheTest::TearDown();
  }
};

TEST_F(MemorySettings, OversizeBlocksAreNotSplit) {
  AllocatorSettings settings;
  settings.max_split_size = 30 * kMiB;
  internal::PublishSettings(settings);
  Stream s = NewStream();
  // Below the limit, though its segment is not.
  char* below = New(s, 29 * kMiB + 512 * 1024);
  EXPECT_OK(FreeMemory(below));
  char* large = New(s, 40 * kMiB);
  EXPECT_EQ(Read().oversize_allocations.current, 1);
  EXPECT_EQ(Read().oversize_segments.current, 2);
  EXPECT_OK(FreeMemory(large));
  EXPECT_EQ(Read().oversize_allocations.current, 0);
  // A request below the limit gets no block above it ...
  char* small = New(s, 5 * kMiB);
  EXPECT_NE(small, large);
  EXPECT_NE(small, below);
  // ... and one above it gets no block that is more than 20 MiB too large.
  char* fits = New(s, 32 * kMiB);
  EXPECT_EQ(fits, large);
  EXPECT_EQ(Read().allocated_bytes.large_pool.current,
            static_cast<int64_t>(45 * kMiB));
  EXPECT_OK(FreeMemory(fits));
  EXPECT_OK(FreeMemory(small));
  EXPECT_EQ(Read().oversize_allocations.allocated,
            Read().oversize_allocations.freed);
}

TEST_F(MemorySettings, GarbageIsCollectedOldestFirst) {
  Stream s = NewStream();
  char* old = New(s, 40 * kMiB);
  char* young = New(s, 50 * kMiB);
  EXPECT_OK(FreeMemory(old));
  EXPECT_OK(FreeMemory(young));
  young = New(s, 50 * kMiB);
  EXPECT_OK(FreeMemory(young));
  EXPECT_OK(s.Synchronize());
  AllocatorSettings settings;
  settings.garbage_collection_threshold =
      80.0 * static_cast<double>(kMiB) /
      static_cast<double>(dev().Properties()->total_memory);
  internal::PublishSettings(settings);
  char* more = New(s, 60 * kMiB);
  EXPECT_EQ(Read().num_device_free, 1);
  EXPECT_EQ(Read().reserved_bytes.all.current,
            static_cast<int64_t>(110 * kMiB));
  EXPECT_EQ(New(s, 50 * kMiB), young);
  EXPECT_OK(FreeMemory(young));
  EXPECT_OK(FreeMemory(more));
}

TEST_F(MemorySettings, DivisionsOfPowersOfTwo) {
  AllocatorSettings settings;
  settings.roundup_power2_divisions = std::vector<uint32_t>(17, 4);
  internal::PublishSettings(settings);
  EXPECT_EQ(internal::hot_settings.SizeOf(1), 512u);
  EXPECT_EQ(internal::hot_settings.SizeOf(1200 * 1024), 1280u * 1024);
  EXPECT_EQ(internal::hot_settings.SizeOf(kMiB), kMiB);
  EXPECT_EQ(internal::hot_settings.SizeOf(9 * kMiB), 10 * kMiB);
  EXPECT_EQ(internal::hot_settings.SizeOf(15 * kMiB), 16 * kMiB);
  Stream s = NewStream();
  char* x = New(s, 9 * kMiB);
  EXPECT_EQ(Read().allocated_bytes.all.current,
            static_cast<int64_t>(10 * kMiB));
  EXPECT_EQ(Read().requested_bytes.all.current, static_cast<int64_t>(9 * kMiB));
  EXPECT_OK(FreeMemory(x));
}

TEST_F(MemorySettings, NoReuseBetweenStreamsIfSet) {
  AllocatorSettings settings;
  settings.cross_stream_reuse = false;
  internal::PublishSettings(settings);
  Stream a = NewStream();
  Stream b = NewStream();
  char* x = New(a, 30 * kMiB);
  EXPECT_OK(FreeMemory(x));
  EXPECT_OK(a.Synchronize());
  char* y = New(b, 30 * kMiB);
  EXPECT_NE(y, x);
  EXPECT_OK(FreeMemory(y));
}

TEST_F(MemoryRecovery, QuarantineKeepsFreesWorking) {
  std::optional<Stream> stream = NewStream();
  std::optional<Stream> other = NewStream();
  const StreamRef s = *stream;
  char* x = New(s, 4096);
  char* marked = New(s, 4096);
  EXPECT_OK(RecordStream(marked, *other));
  SimulatedFault fault;
  fault.kind = SimulatedFault::Kind::kLost;
  fault.native_code = 46;
  ASSERT_OK(sim().InjectFault(fault));
  (void)s.Synchronize();
  EXPECT_FALSE(AllocateMemory(s, 512).ok());
  EXPECT_OK(FreeMemory(x));
  EXPECT_OK(FreeMemory(marked));
  EXPECT_EQ(FreeMemory(x).code(), absl::StatusCode::kInvalidArgument);
  const absl::Status lost = AllocateMemory(s, 512).status();
  EXPECT_THAT(std::string(lost.message()), HasSubstr("quarantined"));
  EXPECT_FALSE(EmptyCache(dev()).ok());
  EXPECT_EQ(Read().allocation.all.current, 0);
  EXPECT_EQ(Read().active_bytes.all.current, 0);
  stream.reset();
  other.reset();
  Reset("memory=256MiB");
  EXPECT_EQ(Read().reserved_bytes.all.current, 0);
  Stream fresh = NewStream();
  char* y = New(fresh, 512);
  EXPECT_OK(FreeMemory(y));
}

}  // namespace
}  // namespace devrt::testing
