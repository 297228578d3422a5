// SPDX-License-Identifier: Apache-2.0
//
// Elapsed time between events (C35).  Bodies that use the C++ API also check
// its error texts.
#include <chrono>
#include <cstdlib>
#include <vector>

#include "cts/catalog.h"
#include "cts/held_stream.h"
#include "cts/objects.h"

namespace devrt::cts {
namespace event_timing_tests {
namespace {

constexpr uint32_t kTiming = DEVRT_EVENT_TIMING;
constexpr uint64_t kSpin = 1'000'000;
constexpr uint64_t kHoldTimeout = 10'000'000'000;
constexpr int64_t kUntouched = 0x5eed;

int64_t Elapsed(Test& t, const RawEvent& begin, const RawEvent& end) {
  int64_t nanoseconds = kUntouched;
  t.Require(begin.ElapsedTo(end, &nanoseconds), "elapsed time");
  return nanoseconds;
}

int64_t Resolution(Test& t) {
  return t.machine().props(t.device()).elapsed_resolution_ns;
}

// The host's clock, to bound the times that the device measures.
class HostClock {
 public:
  // True if `nanoseconds` of a device fit into the time since the beginning.  A
  // simulator in virtual mode has its own clock, where work takes as long as it
  // says and little is added.
  bool Allows(Test& t, double nanoseconds, double work) const {
    if (t.machine().IsVirtual()) return nanoseconds < 10 * work;
    const std::chrono::duration<double, std::nano> since =
        std::chrono::steady_clock::now() - begin_;
    return nanoseconds <= since.count() + 1e6 + Resolution(t);
  }

 private:
  std::chrono::steady_clock::time_point begin_ =
      std::chrono::steady_clock::now();
};

// A refused call leaves the result unchanged.
void Refuses(Test& t, const RawEvent& begin, const RawEvent& end,
             devrt_code code, std::string_view what) {
  int64_t nanoseconds = kUntouched;
  t.Code(begin.ElapsedTo(end, &nanoseconds), code, what);
  t.Equal(nanoseconds, kUntouched, "what was there before the refusal");
}

void MeasuresTheWork(Test& t) {
  const RawStream a(t, t.device());
  const RawEvent e0(t, t.device(), kTiming), e1(t, t.device(), kTiming);
  const RawEvent e2(t, t.device(), kTiming);
  const HostClock clock;
  e0.Record(a);
  a.Delay(kSpin);
  e1.Record(a);
  a.Delay(8 * kSpin);
  e2.Record(a);
  e2.Sync();
  const int64_t slack = 2 * Resolution(t);
  const int64_t first = Elapsed(t, e0, e1), second = Elapsed(t, e1, e2);
  const auto spin = static_cast<int64_t>(kSpin);
  t.Expect(first >= spin - slack,
           "the time around a kernel is at least the kernel's");
  t.Expect(second >= 8 * spin - slack,
           "the time around a longer kernel is longer");
  const int64_t whole = Elapsed(t, e0, e2);
  t.Expect(clock.Allows(t, static_cast<double>(whole), 9.0 * kSpin),
           "the whole is no longer than the host has waited");
  t.Expect(std::abs(whole - first - second) <= slack,
           "the sum of the parts is the whole, within the resolution");
}

void ReversedIsNegative(Test& t) {
  const RawStream a(t, t.device());
  const RawEvent begin(t, t.device(), kTiming), end(t, t.device(), kTiming);
  begin.Record(a);
  a.Delay(kSpin);
  end.Record(a);
  end.Sync();
  const int64_t forward = Elapsed(t, begin, end);
  t.Expect(forward > 0, "the time from an earlier event to a later one");
  t.Equal(Elapsed(t, end, begin), -forward, "the time in reverse");
  t.Equal(Elapsed(t, end, end), 0, "the time from an event to itself");
}

// Without a kernel between them.
void MonotoneInOneStream(Test& t) {
  constexpr int kEvents = 40;
  t.InEverySchedule([&] {
    const DeviceBlock x(t, t.device(), 4096);
    const RawStream a(t, t.device());
    std::vector<RawEvent> events;
    for (int i = 0; i < kEvents; ++i) {
      events.emplace_back(t, t.device(), kTiming);
      a.Fill(x.ptr(), 1, x.size());
      events.back().Record(a);
    }
    events.back().Sync();
    int64_t last = 0;
    for (int i = 1; i < kEvents; ++i) {
      const int64_t since = Elapsed(t, events[0], events[i]);
      t.Require(since >= last, "time does not decrease along a stream");
      t.Require(Elapsed(t, events[i - 1], events[i]) >= 0,
                "time between neighbours is not negative");
      last = since;
    }
  });
}

// Two streams that a wait orders: the time may be negative by the resolution.
void NonNegativeAlongAWait(Test& t) {
  t.InEverySchedule([&] {
    const DeviceBlock x(t, t.device(), 4096);
    const RawStream a(t, t.device()), b(t, t.device());
    const RawEvent begin(t, t.device(), kTiming), end(t, t.device(), kTiming);
    a.Fill(x.ptr(), 1, x.size());
    begin.Record(a);
    b.Wait(begin);
    b.Fill(x.ptr(), 2, x.size());
    end.Record(b);
    end.Sync();
    t.Expect(Elapsed(t, begin, end) >= -Resolution(t),
             "time along a wait is not negative, within the resolution");
  });
}

void NewestRecordCounts(Test& t) {
  const RawStream a(t, t.device());
  const RawEvent moved(t, t.device(), kTiming), fixed(t, t.device(), kTiming);
  moved.Record(a);
  a.Delay(kSpin);
  fixed.Record(a);
  a.Delay(kSpin);
  a.Sync();
  t.Expect(Elapsed(t, moved, fixed) > 0, "the first record is earlier");
  moved.Record(a);
  moved.Sync();
  t.Expect(Elapsed(t, moved, fixed) < 0, "the second record is later");
}

void NeedsTheTimingFlag(Test& t) {
  const RawStream a(t, t.device());
  const RawEvent timed(t, t.device(), kTiming), plain(t, t.device());
  timed.Record(a);
  plain.Record(a);
  a.Sync();
  Refuses(t, plain, timed, DEVRT_INVALID_ARGUMENT, "a begin without timing");
  Refuses(t, timed, plain, DEVRT_INVALID_ARGUMENT, "an end without timing");
  Refuses(t, plain, plain, DEVRT_INVALID_ARGUMENT, "both without timing");
}

void NeedsRecords(Test& t) {
  const RawStream a(t, t.device());
  const RawEvent recorded(t, t.device(), kTiming);
  const RawEvent never(t, t.device(), kTiming);
  recorded.Record(a);
  a.Sync();
  Refuses(t, never, recorded, DEVRT_INVALID_ARGUMENT, "an unrecorded begin");
  Refuses(t, recorded, never, DEVRT_INVALID_ARGUMENT, "an unrecorded end");
  Refuses(t, never, never, DEVRT_INVALID_ARGUMENT, "an unrecorded pair");
}

void NeedsOneDevice(Test& t) {
  const RawStream a(t, t.device(0)), b(t, t.device(1));
  const RawEvent x(t, t.device(0), kTiming), y(t, t.device(1), kTiming);
  x.Record(a);
  y.Record(b);
  x.Sync();
  y.Sync();
  Refuses(t, x, y, DEVRT_INVALID_ARGUMENT, "events of two devices");
  Refuses(t, y, x, DEVRT_INVALID_ARGUMENT, "events of two devices, reversed");
}

void DevicesBeforeCompletion(Test& t) {
  const RawStream a(t, t.device(0)), b(t, t.device(1));
  const RawEvent late(t, t.device(0), kTiming), done(t, t.device(1), kTiming);
  done.Record(b);
  done.Sync();
  HeldStream held(t, a);
  late.Record(a);
  Refuses(t, late, done, DEVRT_INVALID_ARGUMENT,
          "a pending begin of another device");
  Refuses(t, done, late, DEVRT_INVALID_ARGUMENT,
          "a pending end of another device");
  held.StillHolds("a question for the elapsed time does not wait");
}

void CompletionOf(Test& t, uint32_t more_flags) {
  const uint32_t timing = kTiming | more_flags;
  t.InEverySchedule([&] {
    const RawStream a(t, t.device());
    const RawEvent done(t, t.device(), timing), late(t, t.device(), timing);
    const RawEvent plain(t, t.device(), more_flags);
    const RawEvent never(t, t.device(), timing);
    done.Record(a);
    done.Sync();
    HeldStream held(t, a);
    late.Record(a);
    plain.Record(a);
    Refuses(t, done, late, DEVRT_FAILED_PRECONDITION, "a pending end");
    Refuses(t, late, done, DEVRT_FAILED_PRECONDITION, "a pending begin");
    Refuses(t, late, late, DEVRT_FAILED_PRECONDITION, "a pending pair");
    // Checks that are earlier in the list come first.
    Refuses(t, plain, late, DEVRT_INVALID_ARGUMENT,
            "a pending begin without timing");
    Refuses(t, late, never, DEVRT_INVALID_ARGUMENT,
            "a pending begin, an unrecorded end");
    held.StillHolds("a question for the elapsed time does not wait");
    held.Open();
    late.Sync();
    t.Expect(Elapsed(t, done, late) >= 0, "once complete it is answered");
  });
}

void NeedsCompletion(Test& t) { CompletionOf(t, 0); }

void BlockingSyncChangesNothing(Test& t) {
  CompletionOf(t, DEVRT_EVENT_BLOCKING_SYNC);
}

// While a newer record is pending, there is no elapsed time.
void NeedsCompletionOfTheNewestRecord(Test& t) {
  const RawStream a(t, t.device());
  const RawEvent begin(t, t.device(), kTiming), end(t, t.device(), kTiming);
  begin.Record(a);
  end.Record(a);
  end.Sync();
  t.Expect(Elapsed(t, begin, end) >= 0, "both records are complete");
  HeldStream held(t, a);
  end.Record(a);
  Refuses(t, begin, end, DEVRT_FAILED_PRECONDITION, "a newer record pending");
}

// ---- through the C++ API

Event NewEvent(Test& t, size_t device, bool timing) {
  EventOptions options;
  options.timing = timing;
  return t.Require(Event::Create(t.cpp_device(device), options),
                   "event creation");
}

constexpr char kNoTiming[] =
    "Both events must be created with argument 'enable_timing=True'";
constexpr char kNoRecord[] =
    "Both events must be recorded before calculating elapsed time";
constexpr char kPending[] =
    "Both events must be completed before calculating elapsed time";

void Texts(Test& t) {
  const Stream s = t.Require(Stream::Create(t.cpp_device()), "a stream");
  const Event plain = NewEvent(t, 0, false), done = NewEvent(t, 0, true);
  const Event never = NewEvent(t, 0, true), late = NewEvent(t, 0, true);
  t.Ok(done.Record(s), "record");
  t.Ok(s.Synchronize(), "synchronisation");
  const auto refuses = [&](EventRef begin, EventRef end, devrt_code code,
                           std::string_view text) {
    t.Code(ElapsedMilliseconds(begin, end).status(), code, "elapsed time",
           text);
  };
  // For an unrecorded event without timing, the flag is checked first.
  refuses(plain, done, DEVRT_INVALID_ARGUMENT, kNoTiming);
  refuses(done, plain, DEVRT_INVALID_ARGUMENT, kNoTiming);
  refuses(plain, never, DEVRT_INVALID_ARGUMENT, kNoTiming);
  refuses(never, done, DEVRT_INVALID_ARGUMENT, kNoRecord);
  refuses(done, never, DEVRT_INVALID_ARGUMENT, kNoRecord);
}

void PendingText(Test& t) {
  const Stream s = t.Require(Stream::Create(t.cpp_device()), "a stream");
  const Event done = NewEvent(t, 0, true), late = NewEvent(t, 0, true);
  const Event never = NewEvent(t, 0, true);
  const Flag flag = t.Require(Flag::Create(t.cpp_device()), "a flag");
  t.Ok(done.Record(s), "record");
  t.Ok(flag.WaitOn(s, kHoldTimeout), "wait for a flag");
  t.Ok(late.Record(s), "record");
  t.Code(ElapsedMilliseconds(done, late).status(), DEVRT_FAILED_PRECONDITION,
         "elapsed time of a pending event", kPending);
  t.Code(ElapsedMilliseconds(late, never).status(), DEVRT_INVALID_ARGUMENT,
         "elapsed time of a pending and an unrecorded event", kNoRecord);
  t.Ok(flag.Set(), "flag set");
  t.Ok(s.Synchronize(), "synchronisation");
}

void TwoDevicesAreNamed(Test& t) {
  const Stream s = t.Require(Stream::Create(t.cpp_device(0)), "a stream");
  const Stream other = t.Require(Stream::Create(t.cpp_device(1)), "a stream");
  const Event here = NewEvent(t, 0, true), there = NewEvent(t, 1, true);
  // The record is checked before the devices.
  t.Code(ElapsedMilliseconds(here, there).status(), DEVRT_INVALID_ARGUMENT,
         "unrecorded events of two devices", kNoRecord);
  t.Ok(here.Record(s), "record");
  t.Ok(there.Record(other), "record");
  // The flag is checked before the devices, too.
  const Event plain = NewEvent(t, 0, false);
  t.Ok(plain.Record(s), "record");
  t.Code(ElapsedMilliseconds(plain, there).status(), DEVRT_INVALID_ARGUMENT,
         "events of two devices, one without timing", kNoTiming);
  t.Ok(s.Synchronize(), "synchronisation");
  t.Ok(other.Synchronize(), "synchronisation");
  const absl::Status refused = ElapsedMilliseconds(here, there).status();
  for (const size_t i : {0, 1}) {
    t.Code(refused, DEVRT_INVALID_ARGUMENT, "events of two devices",
           t.cpp_device(i).name());
  }
}

void PendingOnTwoDevices(Test& t) {
  const Stream s = t.Require(Stream::Create(t.cpp_device(0)), "a stream");
  const Stream other = t.Require(Stream::Create(t.cpp_device(1)), "a stream");
  const Event late = NewEvent(t, 0, true), done = NewEvent(t, 1, true);
  t.Ok(done.Record(other), "record");
  t.Ok(other.Synchronize(), "synchronisation");
  Gate gate(t);
  gate.Hold(s);
  t.Ok(late.Record(s), "record");
  const absl::Status refused = ElapsedMilliseconds(late, done).status();
  for (const size_t i : {0, 1}) {
    t.Code(refused, DEVRT_INVALID_ARGUMENT,
           "a pending and a complete event of two devices",
           t.cpp_device(i).name());
  }
  gate.Open();
  t.Ok(s.Synchronize(), "synchronisation");
}

void Milliseconds(Test& t) {
  const Stream s = t.Require(Stream::Create(t.cpp_device()), "a stream");
  const Event begin = NewEvent(t, 0, true), end = NewEvent(t, 0, true);
  const HostClock clock;
  t.Ok(begin.Record(s), "record");
  t.Ok(Spin(s, 4 * kSpin), "spin");
  t.Ok(end.Record(s), "record");
  t.Ok(s.Synchronize(), "synchronisation");
  const double forward =
      t.Require(ElapsedMilliseconds(begin, end), "elapsed time");
  t.Expect(forward >= 3.9, "a kernel of 4 ms takes 4 ms at least");
  t.Expect(clock.Allows(t, forward * 1e6, 4.0 * kSpin),
           "it takes no longer than the host has waited");
  t.Expect(t.Require(ElapsedMilliseconds(end, begin), "elapsed") == -forward,
           "the time in reverse is its negative");
  t.Expect(t.Require(ElapsedMilliseconds(end, end), "elapsed") == 0,
           "the time from an event to itself is 0");
}

void TimingIsACapability(Test& t) {
  EventOptions options;
  options.timing = true;
  const auto timed = Event::Create(t.cpp_device(), options);
  if (t.machine().Has(DEVRT_CAP_EVENT_TIMING)) {
    t.Ok(timed.status(), "an event with timing");
    return;
  }
  t.Code(timed.status(), DEVRT_UNIMPLEMENTED, "an event with timing",
         "EVENT_TIMING");
  const RawEvent e(t, t.device());
  int64_t nanoseconds = 0;
  t.Code(e.ElapsedTo(e, &nanoseconds), DEVRT_UNIMPLEMENTED, "elapsed time");
}

constexpr uint64_t kCap = DEVRT_CAP_EVENT_TIMING;
constexpr TestCase kTests[] = {
    {"event.elapsed_measures_the_work", "C35",
     "Elapsed time is the time of the work between two records; the sum of "
     "parts equals the whole within the resolution.",
     &MeasuresTheWork, kCap, kNeedsProbe},
    {"event.elapsed_reversed_is_negative", "C35",
     "An event with itself is 0, reversed is negative.", &ReversedIsNegative,
     kCap, kNeedsProbe},
    {"event.elapsed_is_monotone_in_a_stream", "C35",
     "Elapsed time is non-negative and monotone within one stream.",
     &MonotoneInOneStream, kCap},
    {"event.elapsed_along_a_wait", "C35",
     "Elapsed time between ordered records is not negative, within the "
     "resolution.",
     &NonNegativeAlongAWait, kCap},
    {"event.elapsed_of_the_newest_record", "C35 C27",
     "Elapsed time uses the newest record.", &NewestRecordCounts, kCap,
     kNeedsProbe},
    {"event.elapsed_needs_the_timing_flag", "C35",
     "Elapsed time of an event made without timing is INVALID_ARGUMENT.",
     &NeedsTheTimingFlag, kCap},
    {"event.elapsed_needs_records", "C35 C24",
     "Elapsed time of an event that was never recorded is INVALID_ARGUMENT.",
     &NeedsRecords, kCap},
    {"event.elapsed_needs_one_device", "C35",
     "Elapsed time of two devices' events is INVALID_ARGUMENT.",
     &NeedsOneDevice, kCap, kTwoDevices},
    {"event.elapsed_devices_before_completion", "C35",
     "Elapsed time of two devices' events is INVALID_ARGUMENT even if one is "
     "pending.",
     &DevicesBeforeCompletion, kCap, kNeedsGate | kTwoDevices},
    {"event.elapsed_needs_completion", "C35",
     "Elapsed time of a pending event is FAILED_PRECONDITION; that is checked "
     "last.",
     &NeedsCompletion, kCap, kNeedsGate},
    {"event.elapsed_with_blocking_sync", "C40 C35",
     "The blocking-sync flag changes nothing about elapsed time.",
     &BlockingSyncChangesNothing, kCap, kNeedsGate},
    {"event.elapsed_needs_the_newest_completion", "C35 C27",
     "Elapsed time of an event whose newest record is pending is "
     "FAILED_PRECONDITION.",
     &NeedsCompletionOfTheNewestRecord, kCap, kNeedsGate},
    {"event.elapsed_texts", "C35",
     "The errors of elapsed time have exact texts; the timing flag is checked "
     "before the record.",
     &Texts, kCap},
    {"event.elapsed_text_of_a_pending_event", "C35",
     "The error of a pending event has its exact text; completion is checked "
     "after the record.",
     &PendingText, kCap, kNeedsProbe},
    {"event.elapsed_names_two_devices", "C35",
     "Elapsed time of two devices' events names both.", &TwoDevicesAreNamed,
     kCap, kTwoDevices},
    {"event.elapsed_names_two_devices_first", "C35",
     "Elapsed time of two devices' events names both even if one is pending.",
     &PendingOnTwoDevices, kCap, kNeedsGate | kTwoDevices},
    {"event.elapsed_is_in_milliseconds", "C35",
     "Elapsed time is in milliseconds.", &Milliseconds, kCap, kNeedsProbe},
    {"event.timing_is_a_capability", "C35",
     "Without EVENT_TIMING elapsed time is UNIMPLEMENTED.",
     &TimingIsACapability},
};

}  // namespace
}  // namespace event_timing_tests

absl::Span<const TestCase> EventTimingTests() {
  return event_timing_tests::kTests;
}

}  // namespace devrt::cts
