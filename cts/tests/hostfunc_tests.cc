// SPDX-License-Identifier: Apache-2.0
//
// Host functions: each runs once, in stream order, and sees the data of earlier
// work.  Shared pointers keep the data of a function alive, because a test that
// fails may end before the function.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "cts/catalog.h"
#include "cts/held_stream.h"
#include "cts/objects.h"

namespace devrt::cts {
namespace hostfunc_tests {
namespace {

using Ops = devrt_ops_v0;
constexpr uint64_t kSize = 4096;

using Counter = std::shared_ptr<std::atomic<int>>;
Counter NewCounter() { return std::make_shared<std::atomic<int>>(0); }

void Count(const RawStream& stream, const Counter& counter) {
  stream.HostFunc([counter](devrt_code) { ++*counter; });
}

// Queries inside a host function, where queries are allowed.
uint32_t IsDone(Test& t, devrt_event event) {
  uint32_t done = 2;
  t.Ok(t.machine().Call<&Ops::event_query>(event, &done),
       "an event query inside a host function");
  return done;
}

// ---- C41

void RunsOnce(Test& t) {
  constexpr int kFunctions = 20;
  t.InEverySchedule([&] {
    const RawStream a(t, t.device()), b(t, t.device());
    std::vector<Counter> counters;
    for (int i = 0; i < kFunctions; ++i) {
      counters.push_back(NewCounter());
      Count(i % 2 == 0 ? a : b, counters.back());
    }
    a.Sync();
    b.Sync();
    for (const Counter& counter : counters) {
      if (!t.Equal(counter->load(), 1, "calls of a host function")) break;
    }
    t.Settle();
    for (const Counter& counter : counters) {
      if (!t.Equal(counter->load(), 1, "calls of it later on")) break;
    }
  });
}

void RunsOnEveryKindOfStream(Test& t) {
  t.InEverySchedule([&] {
    for (const uint32_t device : t.devices()) {
      RawStream streams[] = {
          RawStream(t, device),
          Blocking(t, device),
          Legacy(t, device),
          PerThread(t, device),
      };
      for (const RawStream& s : streams) {
        const Counter counter = NewCounter();
        const auto code = std::make_shared<std::atomic<int>>(-1);
        s.HostFunc([counter, code](devrt_code given) {
          ++*counter;
          *code = given;
        });
        s.Sync();
        t.Equal(counter->load(), 1, "calls after its stream was synchronised");
        t.Equal(code->load(), DEVRT_OK, "the status that it was given");
      }
    }
  });
}

void RunsInOrder(Test& t) {
  constexpr int kFunctions = 30;
  t.InEverySchedule([&] {
    const DeviceBlock x(t, t.device(), kSize);
    const RawStream a(t, t.device());
    struct Log {
      std::mutex mutex;
      std::vector<int> seen;
    };
    const auto log = std::make_shared<Log>();
    for (int i = 0; i < kFunctions; ++i) {
      if (i % 3 == 0) a.Fill(x.ptr(), 1, x.size());
      a.HostFunc([log, i](devrt_code) {
        const std::lock_guard<std::mutex> lock(log->mutex);
        log->seen.push_back(i);
      });
    }
    a.Sync();
    const std::lock_guard<std::mutex> lock(log->mutex);
    t.Require(log->seen.size() == kFunctions, "each function has run");
    for (int i = 0; i < kFunctions; ++i) {
      if (!t.Equal(log->seen[static_cast<size_t>(i)], i,
                   "the function that ran as number i")) {
        break;
      }
    }
  });
}

void RunsAfterEarlierWork(Test& t) {
  t.InEverySchedule([&] {
    const RawStream a(t, t.device());
    const Counter counter = NewCounter();
    HeldStream held(t, a);
    Count(a, counter);
    held.Blocks(a, "a stream whose function has not run is not idle");
    t.Equal(counter->load(), 0, "calls before the work before it is over");
    held.Open();
    a.Sync();
    t.Equal(counter->load(), 1, "calls after its stream was synchronised");
  });
}

// A wait counts as earlier work.
void RunsAfterAWait(Test& t) {
  t.InEverySchedule([&] {
    const RawStream a(t, t.device()), b(t, t.device());
    const RawEvent e(t, t.device());
    const Counter counter = NewCounter();
    HeldStream held(t, a);
    e.Record(a);
    b.Wait(e);
    Count(b, counter);
    held.Blocks(b, "a stream whose function has not run is not idle");
    t.Equal(counter->load(), 0, "calls before what its stream waits for");
    held.Open();
    b.Sync();
    t.Equal(counter->load(), 1, "calls after its stream was synchronised");
  });
}

// The function runs for some milliseconds and looks for later work that
// overtakes it.
void RunsBeforeLaterWork(Test& t) {
  constexpr std::chrono::milliseconds kLook(4);
  t.InEverySchedule([&] {
    const DeviceBlock x(t, t.device(), kSize);
    const HostBlock out(t, t.device(), kSize);
    const RawStream a(t, t.device());
    const RawEvent before(t, t.device());
    struct Seen {
      std::atomic<uint32_t> before{2}, out{0};
    };
    const auto seen = std::make_shared<Seen>();
    a.Fill(x.ptr(), 1, x.size());
    before.Record(a);
    const volatile uint8_t* const first = out.ptr();
    a.HostFunc([&t, seen, kLook, first, b = before.handle()](devrt_code) {
      seen->before = IsDone(t, b);
      const auto end = std::chrono::steady_clock::now() + kLook;
      while (std::chrono::steady_clock::now() < end) {
        seen->out = seen->out | *first;
      }
    });
    a.Copy(out.ptr(), x.ptr(), out.size(), DEVRT_COPY_D2H);
    a.Sync();
    t.Equal(seen->before.load(), 1u, "earlier work, seen by the function");
    t.Equal(seen->out.load(), 0u, "later work, seen by the function");
    t.Expect(out.Holds(1), "later work has happened");
  });
}

// A later record is pending as long as the function runs.  A gate holds the
// function until the record is submitted.
void LaterRecordIsPendingInside(Test& t) {
  constexpr int kLooks = 200;
  t.InEverySchedule([&] {
    const RawStream a(t, t.device());
    const RawEvent behind(t, t.device());
    const auto seen = std::make_shared<std::atomic<uint32_t>>(0);
    Gate gate(t);
    gate.Hold(a);
    a.HostFunc([&t, seen, l = behind.handle()](devrt_code) {
      for (int i = 0; i < kLooks; ++i) *seen = *seen | IsDone(t, l);
    });
    behind.Record(a);
    gate.Open();
    a.Sync();
    t.Equal(seen->load(), 0u, "a later record, seen by the function");
    t.Expect(behind.Query(), "it is complete when the function is over");
  });
}

void RunsThoughItsStreamIsGone(Test& t) {
  t.InEverySchedule([&] {
    RawStream a(t, t.device());
    const Counter counter = NewCounter();
    {
      Gate gate(t);
      gate.Hold(a);
      Count(a, counter);
      t.Ok(a.Destroy(), "destruction of a stream with a host function");
      t.Equal(counter->load(), 0, "calls at the destruction");
    }
    t.Require(t.machine().Call<&Ops::device_sync>(t.device()), "device sync");
    t.Equal(counter->load(), 1, "calls after the device was synchronised");
  });
}

// The stream is complete only after the return of the function.
void StreamIsBusyInside(Test& t) {
  t.InEverySchedule([&] {
    const RawStream a(t, t.device());
    const auto done = std::make_shared<std::atomic<uint32_t>>(2);
    a.HostFunc([&t, done, s = a.handle()](devrt_code) {
      uint32_t answer = 2;
      t.Ok(t.machine().Call<&Ops::stream_query>(s, &answer),
           "a stream query inside a host function");
      *done = answer;
    });
    a.Sync();
    t.Equal(done->load(), 0u, "a query of the function's own stream inside");
  });
}

void IsACapability(Test& t) {
  const RawStream a(t, t.device());
  if (t.machine().Has(DEVRT_CAP_HOST_FUNC)) {
    const Counter counter = NewCounter();
    Count(a, counter);
    a.Sync();
    t.Equal(counter->load(), 1, "calls of a host function");
    return;
  }
  void (*const call)(void*, devrt_status) = [](void*, devrt_status) {};
  t.Code(t.machine().Call<&Ops::host_func>(a.handle(), call,
                                           static_cast<void*>(nullptr)),
         DEVRT_UNIMPLEMENTED, "a host function without that capability");
  const Stream s = t.Require(Stream::Create(t.cpp_device()), "a stream");
  t.Code(LaunchHostFunc(s, [](absl::Status) {}), DEVRT_UNIMPLEMENTED,
         "LaunchHostFunc without that capability");
}

// ---- C46

// True if a whole pinned block is `value`.  Called inside a function.
struct ByteCheck {
  std::atomic<int> wrong{0};
  std::atomic<int> runs{0};
};

void CheckBytesOn(const RawStream& stream,
                  const std::shared_ptr<ByteCheck>& check, const uint8_t* bytes,
                  uint64_t size, uint8_t value) {
  stream.HostFunc([check, bytes, size, value](devrt_code) {
    ++check->runs;
    for (uint64_t i = 0; i < size; ++i) {
      if (bytes[i] != value) {
        ++check->wrong;
        break;
      }
    }
  });
}

void SeesEarlierCopies(Test& t) {
  constexpr int kRounds = 10;
  t.InEverySchedule([&] {
    const DeviceBlock x(t, t.device(), kSize);
    const HostBlock out(t, t.device(), kSize);
    const RawStream a(t, t.device());
    const auto check = std::make_shared<ByteCheck>();
    for (int i = 1; i <= kRounds; ++i) {
      const auto value = static_cast<uint8_t>(i);
      a.Fill(x.ptr(), value, x.size());
      a.Copy(out.ptr(), x.ptr(), out.size(), DEVRT_COPY_D2H);
      CheckBytesOn(a, check, out.ptr(), out.size(), value);
    }
    a.Sync();
    t.Equal(check->runs.load(), kRounds, "functions that ran");
    t.Equal(check->wrong.load(), 0, "functions that saw stale data");
  });
}

void SeesJoinedWork(Test& t) {
  t.InEverySchedule([&] {
    const DeviceBlock x(t, t.device(), kSize);
    const HostBlock out(t, t.device(), kSize);
    const RawStream a(t, t.device()), b(t, t.device());
    const RawEvent e(t, t.device());
    const auto check = std::make_shared<ByteCheck>();
    b.Delay(50'000);
    b.Fill(x.ptr(), 7, x.size());
    b.Copy(out.ptr(), x.ptr(), out.size(), DEVRT_COPY_D2H);
    e.Record(b);
    a.Wait(e);
    CheckBytesOn(a, check, out.ptr(), out.size(), 7);
    a.Sync();
    t.Equal(check->runs.load(), 1, "functions that ran");
    t.Equal(check->wrong.load(), 0, "functions that missed joined work");
  });
}

// Later copies and the host see the data that the function writes.
void WritesAreSeenLater(Test& t) {
  t.InEverySchedule([&] {
    const DeviceBlock x(t, t.device(), kSize);
    const HostBlock in(t, t.device(), kSize);
    const RawStream a(t, t.device());
    a.Delay(20'000);
    a.HostFunc([bytes = in.ptr(), size = in.size()](devrt_code) {
      std::fill_n(bytes, size, uint8_t{9});
    });
    a.Copy(x.ptr(), in.ptr(), x.size(), DEVRT_COPY_H2D);
    a.Sync();
    t.Expect(in.Holds(9), "the host sees what the function wrote");
    t.Expect(x.Holds(9), "a later copy reads what the function wrote");
  });
}

constexpr uint64_t kCap = DEVRT_CAP_HOST_FUNC;
constexpr uint64_t kPinned = DEVRT_CAP_HOST_FUNC | DEVRT_CAP_PINNED_HOST;
constexpr TestCase kTests[] = {
    {"hostfunc.runs_once", "C41", "A host function runs exactly once.",
     &RunsOnce, kCap},
    {"hostfunc.runs_on_every_kind_of_stream", "C41",
     "A host function runs on streams of every kind, and is given no error.",
     &RunsOnEveryKindOfStream, kCap},
    {"hostfunc.runs_in_order", "C41",
     "Host functions of one stream run in the order of submission.",
     &RunsInOrder, kCap},
    {"hostfunc.runs_after_earlier_work", "C41",
     "A host function runs after all earlier work of its stream.",
     &RunsAfterEarlierWork, kCap, kNeedsGate},
    {"hostfunc.runs_after_a_wait", "C41 C29",
     "A host function runs after the waits of its stream are complete.",
     &RunsAfterAWait, kCap, kNeedsGate},
    {"hostfunc.runs_before_later_work", "C41",
     "A host function blocks later work of its stream.", &RunsBeforeLaterWork,
     kPinned},
    {"hostfunc.later_record_is_pending_inside", "C41",
     "A host function blocks later records of its stream.",
     &LaterRecordIsPendingInside, kCap, kNeedsProbe},
    {"hostfunc.runs_though_its_stream_is_gone", "C41 C17",
     "A host function runs though its stream is destroyed.",
     &RunsThoughItsStreamIsGone, kCap, kNeedsGate},
    {"hostfunc.stream_is_busy_inside", "C41 C19",
     "A stream is complete only after its host function.", &StreamIsBusyInside,
     kCap},
    {"hostfunc.is_a_capability", "C41",
     "Without HOST_FUNC a host function is UNIMPLEMENTED.", &IsACapability},
    {"hostfunc.sees_earlier_copies", "C46",
     "A host function sees the data that earlier work of its stream wrote.",
     &SeesEarlierCopies, kCap},
    {"hostfunc.sees_joined_work", "C46",
     "Work joined into the stream is visible to the host function.",
     &SeesJoinedWork, kCap},
    {"hostfunc.writes_are_seen_later", "C41 C46",
     "Later work of the stream sees the data that a host function wrote.",
     &WritesAreSeenLater, kPinned},
};

}  // namespace
}  // namespace hostfunc_tests

absl::Span<const TestCase> HostFuncTests() { return hostfunc_tests::kTests; }

}  // namespace devrt::cts
