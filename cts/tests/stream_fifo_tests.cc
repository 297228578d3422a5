// SPDX-License-Identifier: Apache-2.0
//
// Order within a stream, and no order between two streams (C6, C7).
#include <atomic>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "cts/api_block.h"
#include "cts/catalog.h"
#include "cts/objects.h"
#include "cts/ordered_op.h"

namespace devrt::cts {
namespace stream_fifo_tests {
namespace {

using Ops = devrt_ops_v0;

constexpr uint64_t kSize = 4096;

// ---- C6

// Each operation reads the result of the one before.
void ThousandOperations(Test& t) {
  constexpr int kOperations = 1000;
  t.InEverySchedule([&] {
    const DeviceBlock x(t, t.device(), 2 * kOperations);
    const RawStream s(t, t.device());
    s.Fill(x.ptr(), 7, 1);
    for (int i = 1; i < kOperations; ++i) {
      s.Copy(x.ptr() + i, x.ptr() + i - 1, 1, DEVRT_COPY_D2D);
    }
    s.Sync();
    const std::vector<uint8_t> bytes = x.Read();
    t.Equal(bytes[kOperations - 1], 7, "the byte that went from cell to cell");
  });
}

void LastFillWins(Test& t) {
  t.InEverySchedule([&] {
    const DeviceBlock x(t, t.device(), kSize);
    const RawStream s(t, t.device());
    for (int i = 1; i <= 200; ++i) {
      s.Fill(x.ptr(), static_cast<uint8_t>(i), kSize);
    }
    s.Sync();
    t.Expect(x.Holds(200), "the last of 200 fills has the last word");
  });
}

// A large operation, then a small one that would be ready earlier.
void SmallWaitsForLarge(Test& t) {
  constexpr uint64_t kLarge = 4 << 20;
  t.InEverySchedule([&] {
    const DeviceBlock x(t, t.device(), kLarge), y(t, t.device(), kLarge);
    const HostBlock out(t, t.device(), kSize);
    const RawStream s(t, t.device());
    s.Fill(x.ptr(), 1, kLarge);
    s.Copy(y.ptr(), x.ptr(), kLarge, DEVRT_COPY_D2D);
    s.Copy(out.ptr(), y.ptr() + kLarge - kSize, kSize, DEVRT_COPY_D2H);
    s.Sync();
    t.Expect(out.Holds(1), "the small copy is behind the large operations");
  });
}

// Each kind of operation behind a fill that is held, and before another one.
void EveryKindKeepsItsPlace(Test& t) {
  for (const uint32_t device : t.devices()) {
    t.InEverySchedule([&] {
      for (const OpKind kind : OrderedOp::Kinds(t)) {
        const RawStream s(t, device);
        OrderedOp op(t, kind, device);
        {
          Gate gate(t);
          gate.Hold(s);
          op.Produce(s);
          op.Enqueue(s);
          op.EnqueueLater(s);
          op.ExpectNotYet();
        }
        s.Sync();
        op.ExpectAfter();
      }
    });
  }
}

// Each kind of operation completes before the next one begins.
void NothingOvertakes(Test& t) {
  t.InEverySchedule([&] {
    for (const OpKind kind : OrderedOp::Kinds(t)) {
      const RawStream s(t, t.device());
      OrderedOp op(t, kind, t.device());
      op.Produce(s);
      op.Enqueue(s);
      const RawEvent behind(t, t.device());
      behind.Record(s);
      behind.Sync();
      op.ExpectAfter();
    }
  });
}

// A copy behind a host function sees the data that the function wrote.
void HostFunctionsAreInOrder(Test& t) {
  t.InEverySchedule([&] {
    const DeviceBlock x(t, t.device(), kSize);
    const HostBlock in(t, t.device(), kSize), out(t, t.device(), kSize);
    const RawStream s(t, t.device());
    const auto seen = std::make_shared<std::atomic<int>>(-1);
    s.Delay(100'000);
    s.Fill(x.ptr(), 1, kSize);
    s.Copy(out.ptr(), x.ptr(), kSize, DEVRT_COPY_D2H);
    s.HostFunc([&, seen](devrt_code) {
      *seen = out.ptr()[kSize - 1];
      std::fill_n(in.ptr(), kSize, uint8_t{2});
    });
    s.Copy(x.ptr(), in.ptr(), kSize, DEVRT_COPY_H2D);
    s.Sync();
    t.Equal(seen->load(), 1, "what the host function read");
    t.Expect(x.Holds(2), "the copy behind it has what it wrote");
  });
}

// Fewer operations than any limit, so no enqueue may wait for the stream.
void EnqueueDoesNotWait(Test& t) {
  constexpr int kOperations = 900;
  const DeviceBlock x(t, t.device(), kSize);
  const RawStream s(t, t.device());
  const RawEvent opened(t, t.device());
  Gate gate(t);
  gate.Hold(s);
  opened.Record(s);
  for (int i = 0; i < kOperations; ++i) s.Fill(x.ptr(), 1, kSize);
  t.Expect(!s.Query(), "900 operations are enqueued behind one that runs");
  // A call that waits for the stream would return at the timeout of the gate.
  t.Expect(!opened.Query(), "no call has waited for the one that runs");
  gate.Open();
  s.Sync();
  t.Expect(x.Holds(1), "they have run");
}

// A full stream may block its caller, but no other thread.
void FullStreamKeepsOnlyItsCaller(Test& t) {
  const bool is_sim = t.machine().IsVirtual();
  const uint32_t depth =
      is_sim ? 1000 : t.machine().props(t.device()).queue_depth;
  if (depth == 0) t.Skip("a stream holds any number of operations");
  if (depth > 100'000) t.Skip("a stream holds more than 100,000 operations");
  if (is_sim) {
    t.Require(t.machine().Reset("queue_depth=1000"), "reset of the simulator");
  }
  {
    const DeviceBlock x(t, t.device(), kSize), y(t, t.device(), kSize);
    const RawStream s(t, t.device()), other(t, t.device());
    std::atomic<uint32_t> enqueued{0};
    Threads threads;
    Gate gate(t);
    gate.Hold(s);
    threads.Start([&] {
      for (uint32_t i = 0; i < depth + 100; ++i) {
        s.Fill(x.ptr(), 1, kSize);
        ++enqueued;
      }
    });
    t.Expect(t.Eventually([&] { return enqueued + 2 >= depth; }),
             "the stream takes as many operations as it promises");
    other.Fill(y.ptr(), 2, kSize);
    const RawEvent e(t, t.device());
    e.Record(other);
    t.Expect(t.Eventually([&] { return e.Query(); }),
             "another stream goes on meanwhile");
    // None of these waits for room in the full stream.
    RawStream made(t, t.device());
    RawEvent recorded(t, t.device());
    recorded.Record(made);
    other.Wait(recorded);
    if (t.machine().Has(DEVRT_CAP_HOST_FUNC)) made.HostFunc([](devrt_code) {});
    t.Ok(recorded.Destroy(), "destruction of an event");
    t.Ok(made.Destroy(), "destruction of a stream");
    t.Expect(!s.Query(), "the full stream is still held");
    gate.Open();
    threads.Join();
    s.Sync();
    t.Expect(x.Holds(1) && y.Holds(2), "all operations have run");
  }
  if (is_sim) t.Require(t.machine().Reset(""), "reset of the simulator");
}

// ---- C7

void StreamsAreUnordered(Test& t) {
  t.Reaches({"1", "2"}, [&] {
    const DeviceBlock x(t, t.device(), kSize);
    const RawStream a(t, t.device()), b(t, t.device());
    a.Fill(x.ptr(), 1, kSize);
    b.Fill(x.ptr(), 2, kSize);
    a.Sync();
    b.Sync();
    return absl::StrCat(x.Read()[0]);
  });
}

void HeldStreamHoldsNoOther(Test& t) {
  for (const uint32_t device : t.devices()) {
    const DeviceBlock x(t, device, kSize);
    const RawStream a(t, device), b(t, device), c(t, device);
    Gate gate(t);
    gate.Hold(b);
    a.Fill(x.ptr(), 1, 1);
    c.Fill(x.ptr() + 1, 1, 1);
    t.Expect(t.Eventually([&] { return a.Query() && c.Query(); }),
             "streams made before and after the held one go on");
    t.Expect(!b.Query(), "it is still held");
  }
}

// The core adds no order either.
void StreamsOfTheApiAreUnordered(Test& t) {
  t.Reaches({"1", "2"}, [&] {
    const ApiBlock x(t, t.cpp_device(), kSize);
    const Stream a = t.Require(Stream::Create(t.cpp_device()), "stream");
    const Stream b = t.Require(Stream::Create(t.cpp_device()), "stream");
    t.Ok(FillAsync(a, x.ptr(), 1, kSize), "fill");
    t.Ok(FillAsync(b, x.ptr(), 2, kSize), "fill");
    t.Ok(a.Synchronize(), "synchronise");
    t.Ok(b.Synchronize(), "synchronise");
    return absl::StrCat(x.Read()[0]);
  });
}

constexpr TestCase kTests[] = {
    {"stream.thousand_operations", "C6",
     "Operations of one stream run in the order of submission, each seeing the "
     "effects of the one before it.",
     &ThousandOperations},
    {"stream.last_fill_wins", "C6",
     "Of many writes in one stream the last one stays.", &LastFillWins},
    {"stream.small_waits_for_large", "C6",
     "An operation waits for the one before it, also for a long one.",
     &SmallWaitsForLarge},
    {"stream.every_kind_keeps_its_place", "C6",
     "Operations of every kind run after earlier submissions and before later "
     "ones.",
     &EveryKindKeepsItsPlace, 0, kNeedsGate},
    {"stream.nothing_overtakes", "C6",
     "Operations of every kind complete before the next one begins.",
     &NothingOvertakes},
    {"stream.host_functions_are_in_order", "C6 C41",
     "A host function sees the effects of earlier work, and later work sees "
     "the effects of the host function.",
     &HostFunctionsAreInOrder, DEVRT_CAP_HOST_FUNC | DEVRT_CAP_PINNED_HOST},
    {"stream.enqueue_does_not_wait", "C6",
     "Enqueuing fewer than 1,000 operations behind a running one waits for "
     "nothing.",
     &EnqueueDoesNotWait, 0, kNeedsGate},
    {"stream.full_stream_keeps_only_its_caller", "C6",
     "An enqueue that waits for room in its stream holds no lock that other "
     "calls need.",
     &FullStreamKeepsOnlyItsCaller, 0, kNeedsGate},
    {"stream.are_unordered", "C7", "Two non-blocking streams are unordered.",
     &StreamsAreUnordered},
    {"stream.held_stream_holds_no_other", "C7",
     "A stream that is busy keeps no other stream waiting.",
     &HeldStreamHoldsNoOther, 0, kNeedsGate},
    {"stream.of_the_api_are_unordered", "C7",
     "devrt orders no two streams of its API.", &StreamsOfTheApiAreUnordered},
};

}  // namespace
}  // namespace stream_fifo_tests

absl::Span<const TestCase> StreamFifoTests() {
  return stream_fifo_tests::kTests;
}

}  // namespace devrt::cts
