// SPDX-License-Identifier: Apache-2.0
#include "cts/catalog.h"
#include "cts/objects.h"

namespace devrt::cts {
namespace {

void NeverRecorded(Test& t) {
  for (const uint32_t device : t.devices()) {
    const RawEvent e(t, device);
    t.Expect(e.Query(), "a query of an event that was never recorded is true");
    e.Sync();
    const RawStream s(t, device);
    s.Wait(e);
    t.Expect(t.Eventually([&] { return s.Query(); }),
             "a stream that waits for it gets idle");
  }
}

// Wait, record, and another record: the wait keeps what it got.
void WaitKeepsItsCapture(Test& t) {
  t.InEverySchedule([&] {
    const DeviceBlock x(t, t.device(), 4096);
    const HostBlock out(t, t.device(), 4096);
    const RawStream a(t, t.device()), b(t, t.device());
    const RawEvent e(t, t.device());
    a.Fill(x.ptr(), 1, x.size());
    e.Record(a);
    b.Wait(e);
    b.Copy(out.ptr(), x.ptr(), x.size(), DEVRT_COPY_D2H);
    Gate gate(t);
    gate.Hold(a);
    e.Record(a);
    t.Expect(!e.Query(), "the newest record counts for a query");
    t.Expect(t.Eventually([&] { return b.Query(); }),
             "a wait that was issued keeps the capture of its time");
    t.Expect(out.Holds(1), "what the first record covers has happened");
  });
}

constexpr TestCase kTests[] = {
    {"event.never_recorded_is_complete", "C24",
     "An event that was never recorded is an empty set of work.",
     &NeverRecorded},
    {"event.wait_keeps_its_capture", "C27",
     "Recording an event again leaves waits that were issued as they are.",
     &WaitKeepsItsCapture, 0, kNeedsGate},
};

}  // namespace

absl::Span<const TestCase> EventTests() { return kTests; }

}  // namespace devrt::cts
