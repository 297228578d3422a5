// SPDX-License-Identifier: Apache-2.0
//
// Priorities (C22, C23).
#include <climits>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cts/catalog.h"
#include "cts/objects.h"

namespace devrt::cts {
namespace stream_priority_tests {
namespace {

constexpr uint64_t kSize = 4096;

struct Range {
  int32_t greatest, least;
};

Range RangeOf(Test& t, uint32_t device) {
  const devrt_device_props_v0& props = t.machine().props(device);
  return {props.priority_greatest, props.priority_least};
}

// ---- C22

void EveryPriorityWorks(Test& t) {
  for (const uint32_t device : t.devices()) {
    const Range range = RangeOf(t, device);
    const DeviceBlock x(t, device, kSize);
    uint8_t value = 0;
    for (const int32_t priority :
         {range.greatest, range.least, range.greatest - 5, range.least + 5,
          INT_MIN, INT_MAX}) {
      const RawStream s(t, device, 0, priority);
      s.Fill(x.ptr(), ++value, kSize);
      s.Sync();
      t.Expect(x.Holds(value),
               absl::StrCat("a stream of priority ", priority, " works"));
    }
  }
}

void ApiClamps(Test& t) {
  for (size_t i = 0; i < t.devices().size(); ++i) {
    const Range range = RangeOf(t, t.device(i));
    const struct {
      int32_t asked, got;
    } kCases[] = {
        {range.greatest, range.greatest},
        {range.least, range.least},
        {range.greatest - 5, range.greatest},
        {range.least + 5, range.least},
        {INT_MIN, range.greatest},
        {INT_MAX, range.least},
    };
    for (const auto& c : kCases) {
      StreamOptions options;
      options.priority = c.asked;
      const Stream s =
          t.Require(Stream::Create(t.cpp_device(i), options), "stream");
      t.Equal(s.priority(), c.got, absl::StrCat("the priority for ", c.asked));
    }
  }
}

// Which of two streams runs first when a slot becomes free.
std::string FirstOf(Test& t, int32_t first, int32_t second) {
  t.Require(t.machine().Reset("strategy=hw,slots=1"), "reset of the simulator");
  const auto log = std::make_shared<std::string>();
  const auto mutex = std::make_shared<std::mutex>();
  const auto mark = [&](const RawStream& s, const char* name) {
    s.Delay(1000);
    s.HostFunc([=](devrt_code) {
      const std::lock_guard<std::mutex> lock(*mutex);
      *log += name;
    });
  };
  {
    const RawStream busy(t, t.device());
    const RawStream a(t, t.device(), 0, first), b(t, t.device(), 0, second);
    busy.Delay(50'000'000);
    mark(a, "a");
    mark(b, "b");
    a.Sync();
    b.Sync();
  }
  const std::lock_guard<std::mutex> lock(*mutex);
  return *log;
}

// A simulator shows the priority of a stream.
void ClampedIsTheSame(Test& t) {
  const Range range = RangeOf(t, t.device());
  if (range.greatest == range.least) t.Skip("there is one priority only");
  const auto order = [&](int32_t a, int32_t b, std::string_view expected,
                         const char* what) {
    const std::string got = FirstOf(t, a, b);
    t.Equal(std::string_view(got), expected, what);
  };
  order(range.least, range.greatest, "ba", "the more urgent stream first");
  order(range.greatest, range.least, "ab", "the more urgent stream first");
  order(range.greatest, range.greatest - 5, "ab",
        "beyond the greatest priority there is none");
  order(range.least + 5, range.least, "ab",
        "below the least priority there is none");
  t.Require(t.machine().Reset(""), "reset of the simulator");
}

// ---- C23

std::string Race(Test& t) {
  const Range range = RangeOf(t, t.device());
  const DeviceBlock x(t, t.device(), kSize);
  const RawStream low(t, t.device(), 0, range.least);
  const RawStream high(t, t.device(), 0, range.greatest);
  low.Fill(x.ptr(), 1, kSize);
  high.Fill(x.ptr(), 2, kSize);
  low.Sync();
  high.Sync();
  return absl::StrCat(x.Read()[0]);
}

void PriorityOrdersNothing(Test& t) {
  t.Reaches({"1", "2"}, [&] { return Race(t); });
}

// A busy stream of high priority does not block another one forever.
void UrgentHoldsNobody(Test& t) {
  const Range range = RangeOf(t, t.device());
  const DeviceBlock x(t, t.device(), kSize);
  const RawStream low(t, t.device(), 0, range.least);
  const RawStream high(t, t.device(), 0, range.greatest);
  Gate gate(t);
  gate.Hold(high);
  low.Fill(x.ptr(), 1, kSize);
  t.Expect(t.Eventually([&] { return low.Query(); }),
           "a stream of the least priority goes on");
  t.Expect(!high.Query(), "that of the greatest is still held");
}

// A program that orders its work by an event, against the priorities.
void RunOrderedProgram(Test& t) {
  const Range range = RangeOf(t, t.device());
  const DeviceBlock x(t, t.device(), kSize), y(t, t.device(), kSize);
  const RawStream low(t, t.device(), 0, range.least);
  const RawStream high(t, t.device(), 0, range.greatest);
  const RawEvent e(t, t.device());
  low.Delay(100'000);
  low.Fill(x.ptr(), 1, kSize);
  e.Record(low);
  high.Wait(e);
  high.Copy(y.ptr(), x.ptr(), kSize, DEVRT_COPY_D2D);
  high.Sync();
  t.Expect(y.Holds(1), "an event orders streams of any priorities");
}

void CorrectProgramsPass(Test& t) {
  t.InEverySchedule([&] { RunOrderedProgram(t); });
}

void CorrectProgramsPassInverted(Test& t) {
  for (const char* const schedule : {"strategy=hw", "strategy=lifo"}) {
    t.Require(t.machine().Reset(
                  absl::StrCat(schedule, ",slots=1,invert_priorities=yes")),
              "reset of the simulator");
    RunOrderedProgram(t);
  }
  t.Require(t.machine().Reset(""), "reset of the simulator");
}

constexpr TestCase kTests[] = {
    {"stream.every_priority_works", "C22",
     "A priority beyond the range is no error.", &EveryPriorityWorks},
    {"stream.api_clamps_priorities", "C22",
     "A stream's priority is the requested one, clamped to the range.",
     &ApiClamps},
    {"stream.clamped_priority_is_the_same", "C22",
     "A clamped priority is the greatest or the least one, and the smaller "
     "number is the more urgent.",
     &ClampedIsTheSame, DEVRT_CAP_STREAM_PRIORITY | DEVRT_CAP_HOST_FUNC,
     kNeedsSim},
    {"stream.priority_orders_nothing", "C23",
     "Streams of different priorities run in any order.",
     &PriorityOrdersNothing},
    {"stream.urgent_holds_nobody", "C23",
     "A busy stream of the greatest priority keeps no other waiting.",
     &UrgentHoldsNobody, 0, kNeedsGate},
    {"stream.correct_programs_need_no_priorities", "C23",
     "Events order streams of any priorities.", &CorrectProgramsPass},
    {"stream.correct_programs_pass_inverted", "C23",
     "A correct program passes under inverted priorities.",
     &CorrectProgramsPassInverted, DEVRT_CAP_STREAM_PRIORITY, kNeedsSim},
};

}  // namespace
}  // namespace stream_priority_tests

absl::Span<const TestCase> StreamPriorityTests() {
  return stream_priority_tests::kTests;
}

}  // namespace devrt::cts
