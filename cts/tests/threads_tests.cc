// SPDX-License-Identifier: Apache-2.0
//
// Many host threads: creation, memory, host functions, a shared stream, and
// per-thread streams.  threads_event_tests.cc has the tests of events.
#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "cts/catalog.h"
#include "cts/held_stream.h"
#include "cts/objects.h"

namespace devrt::cts {
namespace threads_tests {
namespace {

using Ops = devrt_ops_v0;
constexpr uint64_t kSize = 4096;
constexpr int kThreads = 8;

// ---- creation and destruction

void StreamsComeAndGo(Test& t) {
  constexpr int kRounds = 60;
  std::mutex mutex;
  std::set<devrt_stream> live;
  Threads threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.Start([&, i] {
      for (int round = 0; round < kRounds; ++round) {
        RawStream s(
            t, t.devices()[static_cast<size_t>(i + round) % t.devices().size()],
            round % 2 == 0 ? 0 : DEVRT_STREAM_BLOCKING);
        {
          const std::lock_guard<std::mutex> lock(mutex);
          t.Require(live.insert(s.handle()).second,
                    "a new stream's handle is no live stream's");
        }
        s.Delay(1'000);
        if (round % 4 == 0) s.Sync();
        {
          const std::lock_guard<std::mutex> lock(mutex);
          live.erase(s.handle());
        }
        t.Require(s.Destroy(), "stream destruction");
      }
    });
  }
  threads.Join();
}

void EventsComeAndGo(Test& t) {
  constexpr int kRounds = 80;
  std::mutex mutex;
  std::set<devrt_event> live;
  Threads threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.Start([&, i] {
      const uint32_t device =
          t.devices()[static_cast<size_t>(i) % t.devices().size()];
      const RawStream s(t, device);
      for (int round = 0; round < kRounds; ++round) {
        RawEvent e(t, device);
        {
          const std::lock_guard<std::mutex> lock(mutex);
          t.Require(live.insert(e.handle()).second,
                    "a new event's handle is no live event's");
        }
        t.Require(e.Query(), "a new event was never recorded");
        e.Record(s);
        s.Wait(e);
        if (round % 4 == 0) e.Sync();
        {
          const std::lock_guard<std::mutex> lock(mutex);
          live.erase(e.handle());
        }
        t.Require(e.Destroy(), "event destruction");
      }
      s.Sync();
    });
  }
  threads.Join();
}

// All streams are alive at once, each with its own work.
void StreamsOfManyThreadsAreDistinct(Test& t) {
  constexpr size_t kEach = 20;
  std::array<std::vector<RawStream>, kThreads> made;
  const DeviceBlock x(t, t.device(), kThreads * kEach);
  Threads threads;
  for (size_t i = 0; i < kThreads; ++i) {
    threads.Start([&, i] {
      for (size_t k = 0; k < kEach; ++k) {
        made[i].emplace_back(t, t.device());
        made[i].back().Fill(x.ptr() + i * kEach + k,
                            static_cast<uint8_t>(i * kEach + k), 1);
      }
    });
  }
  threads.Join();
  std::set<devrt_stream> handles;
  for (const auto& streams : made) {
    for (const RawStream& s : streams) {
      handles.insert(s.handle());
      s.Sync();
    }
  }
  t.Equal(handles.size(), kThreads * kEach, "distinct live streams");
  const std::vector<uint8_t> bytes = x.Read();
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (!t.Equal(bytes[i], static_cast<uint8_t>(i),
                 "what each stream has written")) {
      break;
    }
  }
}

// ---- memory

// Blocks of different threads are disjoint: each block keeps its mark.
void AllocationsAreDisjoint(Test& t) {
  constexpr int kRounds = 6;
  constexpr size_t kEach = 6;
  Threads threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.Start([&, i] {
      const auto mark = static_cast<uint8_t>(i + 1);
      const uint32_t device = t.device();
      for (int round = 0; round < kRounds; ++round) {
        std::vector<DeviceBlock> blocks;
        const RawStream s(t, device);
        for (size_t k = 0; k < kEach; ++k) {
          blocks.emplace_back(t, device, 256 + 512 * k);
          s.Fill(blocks.back().ptr(), mark, blocks.back().size());
        }
        s.Sync();
        for (const DeviceBlock& block : blocks) {
          t.Require(block.Holds(mark), "a block holds what its thread wrote");
        }
      }
    });
  }
  threads.Join();
}

void PinnedAllocationsAreDisjoint(Test& t) {
  constexpr int kRounds = 20;
  Threads threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.Start([&, i] {
      const auto mark = static_cast<uint8_t>(i + 1);
      for (int round = 0; round < kRounds; ++round) {
        const HostBlock a(t, t.device(), 100), b(t, t.device(), kSize);
        std::fill_n(a.ptr(), a.size(), mark);
        std::fill_n(b.ptr(), b.size(), mark);
        t.Require(a.Holds(mark) && b.Holds(mark),
                  "pinned memory holds what its thread wrote");
      }
    });
  }
  threads.Join();
}

// No memory is lost: afterwards as much is free as before.
void MemoryComesBack(Test& t) {
  Machine& m = t.machine();
  const auto free_bytes = [&] {
    uint64_t free = 0, total = 0;
    t.Require(m.Call<&Ops::mem_info>(t.device(), &free, &total), "mem_info");
    return free;
  };
  // The first allocations may take memory that is never given back.
  { const DeviceBlock warm(t, t.device(), kSize); }
  const uint64_t before = free_bytes();
  Threads threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.Start([&] {
      for (int round = 0; round < 50; ++round) {
        void* ptr = nullptr;
        t.Require(m.Call<&Ops::alloc>(t.device(), kSize, uint64_t{0}, &ptr),
                  "allocation");
        t.Require(m.Call<&Ops::dealloc>(t.device(), ptr, kSize),
                  "deallocation");
      }
    });
  }
  threads.Join();
  if (m.simulator().has_value()) {
    t.Equal(free_bytes(), before, "free bytes afterwards");
  } else {
    // Other processes may use the device.
    t.Expect(free_bytes() > 0, "memory is free afterwards");
  }
}

// ---- R4: one stream, many threads

// The operations of each thread stay in their order.
void OneStreamForAll(Test& t) {
  constexpr int kEach = 25;
  struct Log {
    std::mutex mutex;
    std::vector<std::pair<int, int>> calls;  // thread, number
  };
  const auto log = std::make_shared<Log>();
  const RawStream s(t, t.device());
  Threads threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.Start([&, i] {
      for (int k = 0; k < kEach; ++k) {
        s.HostFunc([log, i, k](devrt_code) {
          const std::lock_guard<std::mutex> lock(log->mutex);
          log->calls.emplace_back(i, k);
        });
      }
    });
  }
  threads.Join();
  s.Sync();
  const std::lock_guard<std::mutex> lock(log->mutex);
  t.Equal(log->calls.size(), size_t{kThreads * kEach}, "functions that ran");
  std::array<int, kThreads> next = {};
  for (const auto& [thread, number] : log->calls) {
    if (!t.Equal(number, next[static_cast<size_t>(thread)]++,
                 "the number of the thread's next function")) {
      break;
    }
  }
}

// A thread sees the effects of work that it synchronised with, on a stream that
// other threads use at the same time.
void SharedStreamKeepsTheOrderOfCalls(Test& t) {
  constexpr int kEach = 12;
  const DeviceBlock x(t, t.device(), kThreads * 64);
  const RawStream s(t, t.device());
  std::vector<HostBlock> outs;
  for (int i = 0; i < kThreads; ++i) outs.emplace_back(t, t.device(), 64);
  Threads threads;
  for (size_t i = 0; i < kThreads; ++i) {
    threads.Start([&, i] {
      uint8_t* const mine = x.ptr() + i * 64;
      for (int k = 1; k <= kEach; ++k) {
        const auto value = static_cast<uint8_t>(k);
        s.Fill(mine, value, 64);
        s.Copy(outs[i].ptr(), mine, 64, DEVRT_COPY_D2H);
        s.Sync();
        t.Require(outs[i].Holds(value),
                  "a thread's operations take effect in its order");
      }
    });
  }
  threads.Join();
}

void HostFunctionsFromManyThreads(Test& t) {
  constexpr int kEach = 25;
  const auto count = std::make_shared<std::atomic<int>>(0);
  Threads threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.Start([&, i] {
      const RawStream s(
          t, t.devices()[static_cast<size_t>(i) % t.devices().size()]);
      for (int k = 0; k < kEach; ++k) {
        s.HostFunc([count](devrt_code) { ++*count; });
      }
      s.Sync();
    });
  }
  threads.Join();
  t.Equal(count->load(), kThreads * kEach, "calls of all functions");
}

void EveryoneSynchronises(Test& t) {
  const DeviceBlock x(t, t.device(), kSize);
  const HostBlock out(t, t.device(), kSize);
  const RawStream s(t, t.device());
  const RawEvent e(t, t.device());
  s.Delay(300'000);
  s.Fill(x.ptr(), 1, x.size());
  s.Copy(out.ptr(), x.ptr(), out.size(), DEVRT_COPY_D2H);
  e.Record(s);
  Threads threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.Start([&, i] {
      if (i % 3 == 0) s.Sync();
      if (i % 3 == 1) e.Sync();
      if (i % 3 == 2) {
        t.Require(t.machine().Call<&Ops::device_sync>(t.device()),
                  "device sync");
      }
      t.Require(out.Holds(1), "each thread that waited sees the work");
    });
  }
  threads.Join();
}

// ---- C12: per-thread streams

void PerThreadStreamsAreDistinct(Test& t) {
  const StreamRef mine = t.Require(PerThreadDefaultStream(t.cpp_device()),
                                   "the per-thread stream");
  const size_t hash = std::hash<StreamRef>()(mine);
  Threads threads;
  threads.Start([&] {
    const StreamRef theirs = t.Require(PerThreadDefaultStream(t.cpp_device()),
                                       "the per-thread stream");
    t.Expect(theirs != mine, "per-thread streams of two threads are unequal");
    t.Expect(theirs.id() != mine.id(), "their ids differ");
    t.Expect(std::hash<StreamRef>()(theirs) != hash, "their hashes differ");
    const StreamRef again = t.Require(PerThreadDefaultStream(t.cpp_device()),
                                      "the per-thread stream");
    t.Expect(theirs == again, "one thread has one of them");
  });
  threads.Join();
  t.Expect(mine == t.Require(PerThreadDefaultStream(t.cpp_device()),
                             "the per-thread stream"),
           "the stream of this thread is still its first one");
}

// The C table has one handle for each device and thread.
void PerThreadHandlesAreStable(Test& t) {
  Threads threads;
  for (int i = 0; i < 4; ++i) {
    threads.Start([&] {
      for (const uint32_t device : t.devices()) {
        const RawStream a = PerThread(t, device);
        const RawStream b = PerThread(t, device);
        t.Expect(a.handle() == b.handle(),
                 "a thread gets one handle each time");
      }
    });
  }
  threads.Join();
}

void PerThreadStreamsAreUnordered(Test& t) {
  t.InEverySchedule([&] {
    const DeviceBlock x(t, t.device(), kSize);
    const RawStream mine = PerThread(t);
    HeldStream held(t, mine);
    Threads threads;
    threads.Start([&] {
      const RawStream theirs = PerThread(t);
      const RawEvent e(t, t.device());
      theirs.Fill(x.ptr(), 1, x.size());
      e.Record(theirs);
      theirs.Sync();
      t.Expect(e.Query(), "work of another thread's stream has completed");
    });
    threads.Join();
    held.StillHolds(
        "work of one per-thread stream is not ordered after "
        "another's");
  });
}

void PerThreadRace(Test& t) {
  t.Reaches({"1", "2"}, [&]() -> std::string {
    const DeviceBlock x(t, t.device(), 64);
    const RawStream mine = PerThread(t);
    mine.Fill(x.ptr(), 1, x.size());
    Threads threads;
    threads.Start([&] { PerThread(t).Fill(x.ptr(), 2, x.size()); });
    threads.Join();
    t.Require(t.machine().Call<&Ops::device_sync>(t.device()), "device sync");
    const std::vector<uint8_t> bytes = x.Read();
    return bytes[0] == 1 ? "1" : bytes[0] == 2 ? "2" : "neither";
  });
}

void PerThreadWorkOutlivesTheThread(Test& t) {
  t.InEverySchedule([&] {
    const DeviceBlock x(t, t.device(), kSize);
    const RawStream a(t, t.device());
    const RawEvent start(t, t.device()), end(t, t.device());
    HeldStream held(t, a);
    start.Record(a);
    Threads threads;
    threads.Start([&] {
      const RawStream theirs = PerThread(t);
      theirs.Wait(start);
      theirs.Fill(x.ptr(), 1, x.size());
      end.Record(theirs);
    });
    threads.Join();
    held.Blocks(end, "work of an ended thread's stream is still pending");
    held.Open();
    end.Sync();
    t.Expect(x.Holds(1), "and gets done");
  });
}

constexpr TestCase kTests[] = {
    {"threads.streams_come_and_go", "C101 C17",
     "Many threads create and destroy streams; the handle of a live one is "
     "unique.",
     &StreamsComeAndGo},
    {"threads.events_come_and_go", "C39 C99",
     "Many threads create and destroy events; the handle of a live one is "
     "unique.",
     &EventsComeAndGo},
    {"threads.streams_are_distinct", "C101",
     "Creations in any threads give streams that differ from all live ones.",
     &StreamsOfManyThreadsAreDistinct},
    {"threads.allocations_are_disjoint", "C63 C61",
     "Blocks of device memory of all threads are disjoint.",
     &AllocationsAreDisjoint},
    {"threads.pinned_allocations_are_disjoint", "C63",
     "Blocks of pinned memory of all threads are disjoint.",
     &PinnedAllocationsAreDisjoint, DEVRT_CAP_PINNED_HOST},
    {"threads.memory_comes_back", "C63 C62",
     "Memory that many threads allocate and free is free again.",
     &MemoryComesBack},
    {"threads.one_stream_for_all", "C41 C6",
     "Any thread may submit to any stream; the order of effects is the order "
     "of the calls.",
     &OneStreamForAll, DEVRT_CAP_HOST_FUNC},
    {"threads.shared_stream_keeps_the_order", "C6",
     "A thread's operations on a stream that others use take effect in its "
     "order.",
     &SharedStreamKeepsTheOrderOfCalls},
    {"threads.host_functions", "C41",
     "Host functions of many threads run once each.",
     &HostFunctionsFromManyThreads, DEVRT_CAP_HOST_FUNC},
    {"threads.everyone_synchronises", "C5 C36",
     "Many threads may wait for one piece of work; each sees it complete.",
     &EveryoneSynchronises},
    {"threads.per_thread_streams_are_distinct", "C12",
     "The identity of a per-thread stream is (thread, device): equality and "
     "hashing distinguish threads.",
     &PerThreadStreamsAreDistinct},
    {"threads.per_thread_handles_are_stable", "C12",
     "There is one per-thread stream of a thread and device.",
     &PerThreadHandlesAreStable},
    {"threads.per_thread_streams_are_unordered", "C12",
     "Work of one thread's stream is not ordered after another's.",
     &PerThreadStreamsAreUnordered, 0, kNeedsGate},
    {"threads.per_thread_race", "C12 C11",
     "Per-thread streams of two threads are mutually unordered.",
     &PerThreadRace, 0, kNeedsSim},
    {"threads.per_thread_work_outlives_the_thread", "C12",
     "The work of a per-thread stream outlives its thread.",
     &PerThreadWorkOutlivesTheThread, 0, kNeedsGate},
};

}  // namespace
}  // namespace threads_tests

absl::Span<const TestCase> ThreadTests() { return threads_tests::kTests; }

}  // namespace devrt::cts
