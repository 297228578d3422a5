// SPDX-License-Identifier: Apache-2.0
//
// Every function of memory/ in a child of fork, while a thread of the
// parent holds all locks of the allocators: FAILED_PRECONDITION, or nothing in
// the figures, at once and without a lock (C105).

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "devrt/devrt.h"
#include "devrt/memory/devrt_memory.h"
#include "memory/common/ledger.h"
#include "memory/device/device_allocator.h"
#include "tests/support/mtia_fixture.h"
#include "tests/support/sanitizers.h"
#include "tests/support/subprocess.h"

// ThreadSanitizer has its own function of that name.
#define DEVRT_TEST_COUNTS_LOCKS (!DEVRT_TEST_TSAN)

namespace {
thread_local int t_locks = 0;
}

#if DEVRT_TEST_COUNTS_LOCKS
// In place of the C library's, for devrt's mutexes too.
extern "C" int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  using Function = int (*)(pthread_mutex_t*);
  static const auto lock =
      reinterpret_cast<Function>(dlsym(RTLD_NEXT, "pthread_mutex_lock"));
  ++t_locks;
  return lock(mutex);
}
#endif

namespace devrt::testing {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kBytes = 1 << 20;

// Objects of the parent, which the child destroys too.
struct Made {
  Device device = MtiaTest::dev();
  Stream stream = MtiaTest::NewStream();
  void* block = Must(AllocateMemory(stream, kBytes));
  void* pinned = Must(AllocatePinned(device, kBytes));
  std::shared_ptr<MemoryResource> own = PrivateCachingResource(device);
  std::shared_ptr<StatisticsResource> counted =
      StatisticsResource::Make(ThreadSafeResource(CachingResource(device)));
  void* theirs = Must(counted->Allocate(stream, kBytes));
  std::optional<Buffer> buffer = Must(Buffer::Allocate(stream, kBytes));
  devrt_memory_pool_v0* pool = [] {
    devrt_memory_pool_v0* made = nullptr;
    EXPECT_EQ(devrt_memory_pool_create_v0("mtia:0", &made), 0);
    return made;
  }();
  uint64_t callback =
      AddOutOfMemoryCallback([](Device, uint64_t) { return false; }).value();
};

using Answers = std::vector<std::pair<std::string, absl::Status>>;

Answers BlockCalls(Made* m) {
  const StreamRef s = m->stream;
  void* x = nullptr;
  uint64_t size = 0;
  devrt_memory_pool_v0* pool = nullptr;
  devrt_memory_stats_v0 stats = {};
  stats.struct_size = sizeof stats;
  const auto c = [](int32_t code) {
    return absl::Status(static_cast<absl::StatusCode>(code),
                        devrt_memory_last_error_v0());
  };
  return {
      {"allocate", AllocateMemory(s, 64).status()},
      {"allocate nothing", AllocateMemory(s, 0).status()},
      {"free", FreeMemory(m->block)},
      {"free on", FreeMemory(m->block, s)},
      {"record", RecordStream(m->block, s)},
      {"empty", EmptyCache(m->device)},
      {"fraction", SetMemoryFraction(m->device, 0.5)},
      {"allocate pinned", AllocatePinned(m->device, 64).status()},
      {"free pinned", FreePinned(m->pinned)},
      {"record pinned", RecordPinnedUse(m->pinned, s)},
      {"is pinned", IsPinned(m->pinned).status()},
      {"empty pinned", EmptyPinnedCache(m->device.backend())},
      {"buffer", Buffer::Allocate(s, 64).status()},
      {"buffer of a resource", Buffer::Allocate(m->own, s, 64).status()},
      {"buffer's stream", m->buffer->SetStream(s)},
      {"buffer's use", m->buffer->RecordUse(s)},
      {"C allocate", c(devrt_memory_alloc_v0("mtia:0", 64, nullptr, &x))},
      {"C free", c(devrt_memory_free_v0(m->block))},
      {"C free on", c(devrt_memory_free_on_v0(m->block, &x))},
      {"C record", c(devrt_memory_record_stream_v0(m->block, "mtia:0", &x))},
      {"C record on its own",
       c(devrt_memory_record_stream_v0(m->block, nullptr, &x))},
      {"C fraction", c(devrt_memory_set_fraction_v0("mtia:0", 0.5))},
      {"C base", c(devrt_memory_base_v0(m->block, &x, &size))},
      {"C pool", c(devrt_memory_pool_create_v0("mtia:0", &pool))},
      {"C allocate in a pool",
       c(devrt_memory_pool_alloc_v0(m->pool, 64, nullptr, &x))},
      {"C end", c(devrt_memory_stream_ends_v0("mtia:0", &x))},
      {"C empty", c(devrt_memory_empty_cache_v0("mtia:0"))},
      {"C statistics", c(devrt_memory_stats_read_v0("mtia:0", &stats))},
  };
}

Answers OtherCalls(Made* m) {
  const StreamRef s = m->stream;
  Answers answers = {
      {"set resource", SetMemoryResource(m->device, m->counted)},
      {"record history", RecordMemoryHistory(m->device, HistoryOptions())},
      {"end history", RecordMemoryHistory(m->device, std::nullopt)},
      {"snapshot", TakeMemorySnapshot(m->device).status()},
      {"snapshot's text", MemorySnapshotJson(m->device).status()},
      {"settings", SetAllocatorSettings("max_split_size_mb:32")},
  };
  const auto driver = DriverResource(m->device);
  const std::vector<std::shared_ptr<MemoryResource>> resources = {
      m->own,
      m->counted,
      GetMemoryResource(m->device),
      CachingResource(m->device),
      PrivateCachingResource(m->device),
      RawResource(m->device),
      driver.ok() ? *driver : m->own,
      LimitResource(m->counted, 64),
      LoggingResource(m->counted),
      FailureResource(m->counted, {}),
      ThreadSafeResource(m->counted),
  };
  for (const auto& resource : resources) {
    const std::string name = resource->properties().name;
    answers.emplace_back(name + " allocate",
                         resource->Allocate(s, 64).status());
    answers.emplace_back(name + " deallocate",
                         resource->Deallocate(s, m->theirs, kBytes));
    answers.emplace_back(name + " record", resource->RecordUse(m->theirs, s));
    answers.emplace_back(name + " trim", resource->Trim());
  }
  return answers;
}

void ExpectNoFigures(Made* m) {
  EXPECT_EQ(GetMemoryStatistics(m->device).allocation.all.current, 0);
  ResetPeakMemoryStatistics(m->device);
  ResetAccumulatedMemoryStatistics(m->device);
  const Backend backend = m->device.backend();
  EXPECT_EQ(GetPinnedStatistics(backend).allocations.current, 0);
  ResetPeakPinnedStatistics(backend);
  ResetAccumulatedPinnedStatistics(backend);
  EXPECT_EQ(m->counted->allocations().current, 0);
  EXPECT_EQ(m->counted->bytes().current, 0);
  EXPECT_EQ(m->counted->failures(), 0u);
  EXPECT_EQ(GetMemoryFraction(m->device), 1.0);
  EXPECT_EQ(ToString(GetAllocatorSettings()), ToString(AllocatorSettings()));
  EXPECT_THAT(MemoryReport(m->device), HasSubstr("forked child"));
  EXPECT_EQ(AddOutOfMemoryCallback({}).value(), 0u);
  RemoveOutOfMemoryCallback(m->callback);
}

// In a child, which opens the backend and forks its own with all locks taken.
void InGrandchild(const std::function<void(Made*)>& body) {
  InChild([&] {
    setenv("DEVRT_MTIA", "devices=1,pinned=64MiB", 1);
    std::optional<Made> made(std::in_place);
    EXPECT_EQ(t_locks > 0, DEVRT_TEST_COUNTS_LOCKS) << "nothing counts";
    {
      const internal::Ledger::Exclusive held(
          &internal::DeviceAllocator::Of(made->device.record())->ledger());
      InChild(
          [&] {
            t_locks = 0;
            body(&*made);
            EXPECT_EQ(t_locks, 0) << "locks were taken";
            made.reset();
          },
          10);
    }
    // The parent is none the worse for it.
    EXPECT_EQ(GetMemoryStatistics(made->device).allocation.all.current, 3);
    EXPECT_OK(FreeMemory(made->block));
  });
}

void ExpectForked(const Answers& answers) {
  const int locks = t_locks;
  for (const auto& [name, status] : answers) {
    EXPECT_STATUS(status, kFailedPrecondition, "forked child") << name;
  }
  t_locks = locks;
}

// C105
TEST(MemoryFork, BlocksInAChild) {
  InGrandchild([](Made* m) { ExpectForked(BlockCalls(m)); });
}

// C105
TEST(MemoryFork, ResourcesAndHistoryInAChild) {
  InGrandchild([](Made* m) { ExpectForked(OtherCalls(m)); });
}

// C105
TEST(MemoryFork, FiguresInAChild) { InGrandchild(&ExpectNoFigures); }

}  // namespace
}  // namespace devrt::testing
