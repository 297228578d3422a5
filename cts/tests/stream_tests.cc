// SPDX-License-Identifier: Apache-2.0
//
// Queries of streams (C19, C20).
#include <string>

#include "absl/strings/str_cat.h"
#include "cts/catalog.h"
#include "cts/objects.h"
#include "cts/ordered_op.h"

namespace devrt::cts {
namespace stream_tests {
namespace {

using Ops = devrt_ops_v0;

constexpr uint64_t kSize = 4096;

// Flags of every kind of stream that a test can make.
constexpr uint32_t kFlags[] = {0, DEVRT_STREAM_BLOCKING};

void RunningOperationCounts(Test& t) {
  for (const uint32_t device : t.devices()) {
    for (const uint32_t flags : kFlags) {
      t.InEverySchedule([&] {
        const RawStream s(t, device, flags);
        Gate gate(t);
        gate.Hold(s);  // the only operation
        for (int i = 0; i < 20; ++i) {
          t.Expect(!s.Query(), "the operation that runs is not complete");
        }
        t.Settle();
        t.Expect(!s.Query(), "nor is it a while later");
        gate.Open();
        t.Expect(t.Eventually([&] { return s.Query(); }),
                 "a query becomes true by itself");
      });
    }
  }
}

// The last of several operations, after all others are complete.
void LastOperationCounts(Test& t) {
  t.InEverySchedule([&] {
    const DeviceBlock x(t, t.device(), kSize);
    const RawStream s(t, t.device());
    const RawEvent before(t, t.device());
    s.Fill(x.ptr(), 1, kSize);
    before.Record(s);
    Gate gate(t);
    gate.Hold(s);
    t.Expect(t.Eventually([&] { return before.Query(); }),
             "what is before it completes");
    t.Settle();
    t.Expect(!s.Query(), "the last operation runs");
  });
}

// Operations that have not begun.
void PendingOperationsCount(Test& t) {
  t.InEverySchedule([&] {
    for (const OpKind kind : OrderedOp::Kinds(t)) {
      const RawStream first(t, t.device()), s(t, t.device());
      const RawEvent e(t, t.device());
      OrderedOp op(t, kind, t.device());
      Gate gate(t);
      gate.Hold(first);
      op.Produce(first);
      e.Record(first);
      s.Wait(e);
      op.Enqueue(s);
      t.Settle();
      t.Expect(!s.Query(), absl::StrCat("a ", ToString(kind),
                                        " that waits is not complete"));
    }
  });
}

void TrueAnswersAreTrue(Test& t) {
  t.InEverySchedule([&] {
    const DeviceBlock x(t, t.device(), kSize);
    const HostBlock out(t, t.device(), kSize);
    const RawStream s(t, t.device());
    s.Delay(1'000'000);
    s.Fill(x.ptr(), 1, kSize);
    s.Copy(out.ptr(), x.ptr(), kSize, DEVRT_COPY_D2H);
    t.Require(t.Eventually([&] { return s.Query(); }),
              "a query becomes true by itself");
    t.Expect(out.Holds(1), "then all work is complete, and seen");
    for (int i = 0; i < 5; ++i) {
      t.Expect(s.Query(), "it stays true while nothing is submitted");
    }
  });
}

void BareWaitCounts(Test& t) {
  const RawStream first(t, t.device()), s(t, t.device());
  const RawEvent e(t, t.device());
  Gate gate(t);
  gate.Hold(first);
  e.Record(first);
  s.Wait(e);
  t.Settle();
  t.Expect(!s.Query(), "a wait with nothing behind it is not complete");
  gate.Open();
  s.Sync();
  t.Expect(e.Query(), "synchronising the stream covers its wait");
}

// On CUDA such a record counts for neither stream, though its event is pending.
void BareRecordBehindLegacyCounts(Test& t) {
  for (const uint32_t kind : {0u, 1u}) {
    const RawStream legacy = Legacy(t);
    const RawStream s = kind == 0 ? Blocking(t) : PerThread(t);
    const RawEvent e(t, t.device());
    Gate gate(t);
    gate.Hold(legacy);
    e.Record(s);
    t.Settle();
    t.Expect(!e.Query(), "a record behind legacy work is pending");
    t.Expect(!s.Query(), "so its stream is busy");
    gate.Open();
    s.Sync();
    t.Expect(e.Query(), "synchronising the stream covers the record");
  }
}

void NewStreamIsIdle(Test& t) {
  for (const uint32_t device : t.devices()) {
    for (const uint32_t flags : kFlags) {
      const RawStream s(t, device, flags);
      t.Expect(s.Query(), "a new stream is idle");
      s.Sync();
    }
  }
}

// ---- C20

void NotReadyIsNoError(Test& t) {
  Machine& m = t.machine();
  for (const uint32_t device : t.devices()) {
    const DeviceBlock x(t, device, kSize);
    const RawStream s(t, device);
    {
      Gate gate(t);
      gate.Hold(s);
      for (int i = 0; i < 20; ++i) {
        uint32_t done = 77;
        t.Ok(m.Call<&Ops::stream_query>(s.handle(), &done), "a query");
        t.Equal(done, 0u, "its answer");
      }
      // The query leaves no error that a later call would report.
      const RawStream other(t, device);
      other.Fill(x.ptr(), 1, kSize);
      other.Sync();
    }
    s.Sync();
    uint32_t done = 77;
    t.Ok(m.Call<&Ops::stream_query>(s.handle(), &done), "a query");
    t.Equal(done, 1u, "its answer");
    t.Ok(m.Call<&Ops::device_sync>(device), "a sync of the device");
    t.Expect(x.Holds(1), "work between the queries has happened");
  }
}

// Events do so, too, and the C++ API returns a value.
void NotReadyIsAValue(Test& t) {
  const RawStream s(t, t.device());
  const Stream stream = t.Require(Stream::Create(t.cpp_device()), "stream");
  const Event event = t.Require(Event::Create(t.cpp_device()), "event");
  const RawEvent e(t, t.device());
  Gate gate(t);
  gate.Hold(s);
  e.Record(s);
  uint32_t done = 77;
  t.Ok(t.machine().Call<&Ops::event_query>(e.handle(), &done), "event query");
  t.Equal(done, 0u, "its answer");
  t.Require(t.machine().Call<&Ops::stream_wait_event>(s.handle(), e.handle()),
            "wait");
  gate.Hold(stream);
  t.Ok(event.Record(stream), "record");
  t.Expect(!t.Require(stream.Query(), "Stream::Query"), "it is not complete");
  t.Expect(!t.Require(event.Query(), "Event::Query"), "it is not complete");
  gate.Open();
  t.Ok(stream.Synchronize(), "Synchronize");
  t.Expect(t.Require(stream.Query(), "Stream::Query"), "it is complete");
  t.Expect(t.Require(event.Query(), "Event::Query"), "it is complete");
}

constexpr TestCase kTests[] = {
    {"stream.running_operation_counts", "C19",
     "The operation that is being executed counts as incomplete.",
     &RunningOperationCounts, 0, kNeedsGate},
    {"stream.last_operation_counts", "C19",
     "A query is false while the last operation runs, the others being "
     "complete.",
     &LastOperationCounts, 0, kNeedsGate},
    {"stream.pending_operations_count", "C19",
     "A query is false while an operation of any kind waits.",
     &PendingOperationsCount, 0, kNeedsGate},
    {"stream.true_answers_are_true", "C19",
     "A query is true only if all operations are complete, and becomes so by "
     "itself.",
     &TrueAnswersAreTrue, DEVRT_CAP_PINNED_HOST},
    {"stream.bare_wait_counts", "C19", "A wait counts as an operation.",
     &BareWaitCounts, 0, kNeedsGate},
    {"stream.bare_record_behind_legacy_counts", "C19",
     "A record counts as an operation, behind legacy work, too.",
     &BareRecordBehindLegacyCounts, 0, kNeedsGate},
    {"stream.new_stream_is_idle", "C19", "A new stream is idle.",
     &NewStreamIsIdle},
    {"stream.not_ready_is_no_error", "C20",
     "Not ready is a result and no error, and leaves no error behind.",
     &NotReadyIsNoError, 0, kNeedsGate},
    {"stream.not_ready_is_a_value", "C20",
     "Not ready is a result of queries of events and of devrt's API, too.",
     &NotReadyIsAValue, 0, kNeedsGate},
};

}  // namespace
}  // namespace stream_tests

absl::Span<const TestCase> StreamTests() { return stream_tests::kTests; }

}  // namespace devrt::cts
