// SPDX-License-Identifier: Apache-2.0
//
// Default streams: the legacy one of a device, and the per-thread one of a
// thread and device (C12, C14, C21).
#include <atomic>
#include <functional>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "cts/catalog.h"
#include "cts/objects.h"
#include "cts/ordered_op.h"

namespace devrt::cts {
namespace stream_default_tests {
namespace {

using Ops = devrt_ops_v0;

constexpr uint64_t kSize = 4096;

void InAnotherThread(const std::function<void()>& body) {
  Threads threads;
  threads.Start(body);
  threads.Join();
}

// ---- C12: identity

void SameEachTime(Test& t) {
  for (const uint32_t device : t.devices()) {
    for (int i = 0; i < 3; ++i) {
      t.Expect(Legacy(t, device).handle() == Legacy(t, device).handle(),
               "the legacy stream has one handle");
      t.Expect(PerThread(t, device).handle() == PerThread(t, device).handle(),
               "the thread's default stream has one handle");
    }
    t.Expect(Legacy(t, device).handle() != PerThread(t, device).handle(),
             "these are two streams");
    const devrt_stream here = Legacy(t, device).handle();
    const devrt_stream mine = PerThread(t, device).handle();
    InAnotherThread([&] {
      t.Expect(Legacy(t, device).handle() == here,
               "all threads have one legacy stream");
      t.Expect(PerThread(t, device).handle() != mine,
               "each thread has a handle of its default stream");
    });
  }
}

void OneNativeHandleForAllThreads(Test& t) {
  const auto native = [&] {
    void* handle = &t;
    t.Require(
        t.machine().Call<&Ops::stream_native>(PerThread(t).handle(), &handle),
        "native stream");
    return handle;
  };
  void* const here = native();
  InAnotherThread([&] {
    t.Expect(native() == here,
             "the native handles of two threads' default streams are equal");
  });
}

// The C++ API distinguishes them nevertheless (F21).
void IdentityIsThreadAndDevice(Test& t) {
  const auto mine = [&](size_t i = 0) {
    return t.Require(PerThreadDefaultStream(t.cpp_device(i)),
                     "per-thread stream");
  };
  const StreamRef here = mine();
  t.Expect(here == mine(), "one thread has one");
  t.Expect(here.kind() == devrt::StreamKind::kPerThread, "its kind says so");
  t.Expect(here != DefaultStream(t.cpp_device()), "it is not the legacy one");
  t.Expect(here.id() != 0, "its id is not 0");
  if (t.devices().size() > 1) {
    t.Expect(mine(1) != here && mine(1).id() != here.id(),
             "another device has another");
  }
  InAnotherThread([&] {
    const StreamRef there = mine();
    t.Expect(there != here, "another thread has another");
    t.Expect(there.id() != here.id(), "their ids differ");
    t.Expect(std::hash<StreamRef>()(there) != std::hash<StreamRef>()(here),
             "their hashes differ");
  });
}

// ---- C12: order

void ThreadsAreUnordered(Test& t) {
  for (const uint32_t device : t.devices()) {
    const DeviceBlock x(t, device, kSize);
    const RawStream here = PerThread(t, device);
    // The native handle may mean the default stream of the calling thread
    // (C12). The event has one meaning in all threads.
    const RawEvent of_here(t, device);
    Gate gate(t);
    gate.Hold(here);
    of_here.Record(here);
    InAnotherThread([&] {
      const RawStream there = PerThread(t, device);
      t.Require(there.Query(), "another thread's default stream is idle");
      there.Fill(x.ptr(), 1, kSize);
      t.Expect(t.Eventually([&] { return there.Query(); }),
               "another thread's default stream goes on");
      t.Expect(!of_here.Query(), "this thread's one is still held");
    });
  }
}

void LegacyWaitsForPerThread(Test& t) {
  t.InEverySchedule([&] {
    const RawStream legacy = Legacy(t), own = PerThread(t);
    ExpectOrdered(t, own, legacy);
  });
}

void PerThreadWaitsForLegacy(Test& t) {
  t.InEverySchedule([&] {
    const RawStream legacy = Legacy(t), own = PerThread(t);
    ExpectOrdered(t, legacy, own, [&] {
      t.Expect(!own.Query(), "the per-thread stream waits for the legacy one");
    });
  });
}

// The legacy stream orders the default streams of two threads.
void LegacyOrdersThreads(Test& t) {
  const DeviceBlock x(t, t.device(), kSize), y(t, t.device(), kSize);
  const DeviceBlock z(t, t.device(), kSize);
  InAnotherThread([&] {
    const RawStream s = PerThread(t);
    s.Delay(1'000'000);
    s.Fill(x.ptr(), 1, kSize);
  });
  Legacy(t).Copy(y.ptr(), x.ptr(), kSize, DEVRT_COPY_D2D);
  InAnotherThread([&] {
    const RawStream s = PerThread(t);
    s.Copy(z.ptr(), y.ptr(), kSize, DEVRT_COPY_D2D);
    s.Sync();
  });
  t.Expect(z.Holds(1), "the threads' work ran in the legacy stream's order");
}

void WorkOutlivesTheThread(Test& t) {
  const DeviceBlock x(t, t.device(), kSize);
  const RawEvent e(t, t.device());
  {
    Gate gate(t);
    InAnotherThread([&] {
      const RawStream s = PerThread(t);
      gate.Hold(s);
      s.Fill(x.ptr(), 1, kSize);
      e.Record(s);
    });
    t.Expect(!e.Query(), "the end of a thread waits for nothing");
  }
  e.Sync();
  t.Expect(x.Holds(1), "what the thread submitted has happened");
}

// ---- C14

void ValidWhereverAStreamIs(Test& t) {
  Machine& m = t.machine();
  for (const uint32_t device : t.devices()) {
    for (const bool is_legacy : {true, false}) {
      t.InEverySchedule([&] {
        const RawStream s =
            is_legacy ? Legacy(t, device) : PerThread(t, device);
        const DeviceBlock x(t, device, kSize), y(t, device, kSize);
        const RawStream other(t, device);
        const RawEvent e(t, device);
        s.Fill(x.ptr(), 4, kSize);
        s.Copy(y.ptr(), x.ptr(), kSize, DEVRT_COPY_D2D);
        s.Delay(1000);
        e.Record(s);
        other.Wait(e);
        e.Record(other);
        s.Wait(e);
        const auto ran = std::make_shared<std::atomic<bool>>(false);
        if (m.Has(DEVRT_CAP_HOST_FUNC)) {
          s.HostFunc([ran](devrt_code) { *ran = true; });
        }
        void* native = nullptr;
        t.Ok(m.Call<&Ops::stream_native>(s.handle(), &native), "native");
        s.Sync();
        t.Expect(s.Query() && e.Query(), "all is complete");
        t.Expect(y.Holds(4), "the work has happened");
        t.Equal(ran->load(), m.Has(DEVRT_CAP_HOST_FUNC), "the host function");
      });
    }
  }
}

void CannotBeDestroyed(Test& t) {
  for (const uint32_t device : t.devices()) {
    for (const uint32_t kind : {DEVRT_STREAM_LEGACY, DEVRT_STREAM_PER_THREAD}) {
      const RawStream s = RawStream::Default(t, device, kind);
      const DeviceBlock x(t, device, kSize);
      for (int i = 0; i < 2; ++i) {
        t.Code(t.machine().Call<&Ops::stream_destroy>(s.handle()),
               DEVRT_INVALID_ARGUMENT, "destroying a default stream");
      }
      s.Fill(x.ptr(), 1, kSize);
      s.Sync();
      t.Expect(x.Holds(1), "it still works");
      t.Expect(RawStream::Default(t, device, kind).handle() == s.handle(),
               "it is still the same");
    }
  }
}

// While work runs: a refusal waits for nothing and drops nothing.
void RefusedDestructionDropsNothing(Test& t) {
  for (const uint32_t kind : {DEVRT_STREAM_LEGACY, DEVRT_STREAM_PER_THREAD}) {
    const DeviceBlock x(t, t.device(), kSize);
    const RawStream s = RawStream::Default(t, t.device(), kind);
    {
      Gate gate(t);
      gate.Hold(s);
      s.Fill(x.ptr(), 1, kSize);
      t.Code(t.machine().Call<&Ops::stream_destroy>(s.handle()),
             DEVRT_INVALID_ARGUMENT, "destroying a busy default stream");
      t.Expect(!s.Query(), "the refusal did not wait for the stream");
    }
    s.Sync();
    t.Expect(x.Holds(1), "its work has happened");
  }
}

// ---- C21

void LegacyCoversBlocking(Test& t) {
  for (const uint32_t device : t.devices()) {
    t.InEverySchedule([&] {
      const DeviceBlock x(t, device, kSize), y(t, device, kSize);
      const HostBlock out(t, device, kSize), own_out(t, device, kSize);
      const RawStream blocking(t, device, DEVRT_STREAM_BLOCKING);
      const RawStream own = PerThread(t, device);
      blocking.Delay(1'000'000);
      blocking.Fill(x.ptr(), 1, kSize);
      blocking.Copy(out.ptr(), x.ptr(), kSize, DEVRT_COPY_D2H);
      own.Delay(1'000'000);
      own.Fill(y.ptr(), 2, kSize);
      own.Copy(own_out.ptr(), y.ptr(), kSize, DEVRT_COPY_D2H);
      Legacy(t, device).Sync();
      t.Expect(out.Holds(1),
               "a sync of the legacy stream covers blocking "
               "streams");
      t.Expect(own_out.Holds(2), "it covers per-thread streams");
    });
  }
}

void LegacyQueryCoversBlocking(Test& t) {
  for (const uint32_t device : t.devices()) {
    for (const bool per_thread : {false, true}) {
      const RawStream legacy = Legacy(t, device);
      const RawStream s =
          per_thread ? PerThread(t, device) : Blocking(t, device);
      t.Expect(t.Eventually([&] { return legacy.Query(); }), "it is idle");
      Gate gate(t);
      gate.Hold(s);
      for (int i = 0; i < 10; ++i) {
        t.Expect(!legacy.Query(),
                 "a query of the legacy stream covers "
                 "blocking and per-thread streams");
      }
      gate.Open();
      t.Expect(t.Eventually([&] { return legacy.Query(); }),
               "it becomes true when they are idle");
    }
  }
}

void LegacyCoversOtherThreads(Test& t) {
  const DeviceBlock x(t, t.device(), kSize);
  const HostBlock out(t, t.device(), kSize);
  InAnotherThread([&] {
    const RawStream s = PerThread(t);
    s.Delay(2'000'000);
    s.Fill(x.ptr(), 1, kSize);
    s.Copy(out.ptr(), x.ptr(), kSize, DEVRT_COPY_D2H);
  });
  Legacy(t).Sync();
  t.Expect(out.Holds(1),
           "a sync of the legacy stream covers other threads' streams");
}

constexpr TestCase kTests[] = {
    {"stream.default_is_the_same_each_time", "C12 C14",
     "A default stream has one handle: the legacy one for all threads, the "
     "per-thread one for each.",
     &SameEachTime},
    {"stream.per_thread_has_one_native_handle", "C12",
     "The native handle of per-thread streams is one for all threads.",
     &OneNativeHandleForAllThreads},
    {"stream.per_thread_is_thread_and_device", "C12",
     "Equality and hashes tell the per-thread streams of threads and devices "
     "apart.",
     &IdentityIsThreadAndDevice},
    {"stream.per_thread_streams_are_unordered", "C12",
     "Work of one thread's default stream is not ordered after another's.",
     &ThreadsAreUnordered, 0, kNeedsGate},
    {"stream.legacy_waits_for_per_thread", "C12 C8",
     "The legacy stream comes after earlier work of per-thread streams.",
     &LegacyWaitsForPerThread, 0, kNeedsGate},
    {"stream.per_thread_waits_for_legacy", "C12 C8",
     "A per-thread stream comes after earlier work of the legacy stream.",
     &PerThreadWaitsForLegacy, 0, kNeedsGate},
    {"stream.legacy_orders_threads", "C12",
     "The legacy stream orders the per-thread streams of all threads.",
     &LegacyOrdersThreads},
    {"stream.per_thread_work_outlives_the_thread", "C12",
     "Work of a per-thread stream outlives the thread.", &WorkOutlivesTheThread,
     0, kNeedsGate},
    {"stream.default_is_valid_wherever_a_stream_is", "C14",
     "The legacy and the per-thread stream are valid wherever a stream is.",
     &ValidWhereverAStreamIs},
    {"stream.default_cannot_be_destroyed", "C14",
     "Destroying a default stream is INVALID_ARGUMENT, and it stays usable.",
     &CannotBeDestroyed},
    {"stream.default_refusal_drops_nothing", "C14",
     "Refusing to destroy a default stream waits for nothing and drops "
     "nothing.",
     &RefusedDestructionDropsNothing, 0, kNeedsGate},
    {"stream.legacy_sync_covers_blocking", "C21",
     "Synchronising the legacy stream covers blocking and per-thread streams.",
     &LegacyCoversBlocking, DEVRT_CAP_PINNED_HOST},
    {"stream.legacy_query_covers_blocking", "C21",
     "A query of the legacy stream covers blocking and per-thread streams.",
     &LegacyQueryCoversBlocking, 0, kNeedsGate},
    {"stream.legacy_sync_covers_other_threads", "C21 C12",
     "Synchronising the legacy stream covers per-thread streams of all "
     "threads.",
     &LegacyCoversOtherThreads, DEVRT_CAP_PINNED_HOST},
};

}  // namespace
}  // namespace stream_default_tests

absl::Span<const TestCase> StreamDefaultTests() {
  return stream_default_tests::kTests;
}

}  // namespace devrt::cts
