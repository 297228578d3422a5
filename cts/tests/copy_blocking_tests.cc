// SPDX-License-Identifier: Apache-2.0
//
// Copies of the C++ API: both forms, blocking and asynchronous.
#include <cstring>

#include "absl/strings/str_cat.h"
#include "cts/catalog.h"
#include "cts/core_objects.h"
#include "cts/objects.h"

namespace devrt::cts {
namespace copy_blocking_tests {
namespace {

using Kind = CoreHost::Kind;

Stream NewStream(Test& t, size_t device = 0) {
  return t.Require(Stream::Create(t.cpp_device(device)), "Stream::Create");
}

// Enqueues work that takes a while.
void Delay(Test& t, StreamRef s) {
  if (t.machine().probe() != nullptr) t.Ok(Spin(s, 200'000), "Spin");
}

bool IsDone(Test& t, StreamRef s) { return t.Require(s.Query(), "Query"); }

void PageableIsVisible(Test& t) {
  t.InEverySchedule([&] {
    for (const uint64_t size : {uint64_t{4}, uint64_t{64} << 10,
                                uint64_t{1} << 20, uint64_t{4} << 20}) {
      const CoreBlock x(t, t.cpp_device(), size);
      const CoreHost in(t, t.cpp_device(), size, Kind::kPageable);
      const Stream a = NewStream(t), b = NewStream(t);
      std::memset(in.ptr(), 5, size);
      Delay(t, a);
      t.Ok(Copy(a, x.ptr(), in.ptr(), size), "Copy H2D");
      t.Expect(IsDone(t, a), "a blocking copy H2D is complete on return");
      std::memset(in.ptr(), 6, size);
      std::vector<uint8_t> out(size);
      t.Ok(Copy(b, out.data(), x.ptr(), size), "Copy D2H");
      t.Expect(out == std::vector<uint8_t>(size, 5),
               absl::StrCat(size,
                            " bytes of a blocking copy H2D are seen by "
                            "another stream at once"));
    }
  });
}

void PinnedIsComplete(Test& t) {
  t.InEverySchedule([&] {
    for (const Kind kind : CoreHost::Kinds(t)) {
      if (kind == Kind::kPageable) continue;
      const CoreBlock x(t, t.cpp_device(), 9000);
      const CoreHost in(t, t.cpp_device(), 9000, kind);
      const Stream s = NewStream(t);
      std::memset(in.ptr(), 1, 9000);
      Delay(t, s);
      t.Ok(Copy(s, x.ptr(), in.ptr(), 9000), "Copy H2D");
      t.Expect(IsDone(t, s),
               absl::StrCat("a blocking copy H2D of ", CoreHost::Name(kind),
                            " memory is complete on return"));
      std::memset(in.ptr(), 2, 9000);
      t.Expect(x.Holds(1), "its bytes have arrived");
    }
  });
}

void DeviceToHostIsComplete(Test& t) {
  t.InEverySchedule([&] {
    for (const Kind kind : CoreHost::Kinds(t)) {
      const CoreBlock x(t, t.cpp_device(), 9000);
      const CoreHost out(t, t.cpp_device(), 9000, kind);
      const Stream s = NewStream(t);
      Delay(t, s);
      t.Ok(FillAsync(s, x.ptr(), 3, 9000), "FillAsync");
      t.Ok(Copy(s, out.ptr(), x.ptr(), 9000), "Copy D2H");
      t.Expect(out.Holds(3),
               absl::StrCat("a blocking copy D2H to ", CoreHost::Name(kind),
                            " memory is complete on return"));
      t.Expect(IsDone(t, s), "its stream is idle");
    }
  });
}

void WithinDeviceDoesNotWait(Test& t) {
  t.InEverySchedule([&] {
    const CoreBlock x(t, t.cpp_device(), 5000), y(t, t.cpp_device(), 5000);
    const Stream s = NewStream(t), other = NewStream(t);
    std::vector<uint8_t> seen(5000, 9);
    x.Write(std::vector<uint8_t>(5000, 1));
    Gate gate(t);
    gate.Hold(s);
    t.Ok(FillAsync(s, x.ptr(), 3, 5000), "FillAsync");
    t.Ok(Copy(s, y.ptr(), x.ptr(), 5000), "Copy D2D");
    t.Expect(!IsDone(t, s),
             "a blocking copy within a device returns while its stream is "
             "held");
    t.Settle();
    t.Ok(Copy(other, seen.data(), y.ptr(), 5000), "Copy D2H");
    t.Expect(seen == std::vector<uint8_t>(5000, 0), "it has not happened");
    gate.Open();
    t.Ok(s.Synchronize(), "Synchronize");
    t.Expect(y.Holds(3), "it happens in stream order");
  });
}

// The order that MIOpen#3299 assumed.
void WithinDeviceOrdersNoOther(Test& t) {
  t.Reaches({"old", "new"}, [&]() -> std::string {
    const CoreBlock x(t, t.cpp_device(), 64), y(t, t.cpp_device(), 64);
    const CoreBlock z(t, t.cpp_device(), 64);
    {
      const Stream a = NewStream(t), b = NewStream(t);
      t.Ok(FillAsync(a, x.ptr(), 1, 64), "FillAsync");
      t.Ok(Copy(a, y.ptr(), x.ptr(), 64), "Copy D2D");
      t.Ok(Copy(b, z.ptr(), y.ptr(), 64), "Copy D2D");
      t.Ok(a.Synchronize(), "Synchronize");
      t.Ok(b.Synchronize(), "Synchronize");
    }
    if (z.Holds(1)) return "new";
    return z.Holds(0) ? "old" : "a mixture";
  });
}

void HostToHostOf(Test& t, Kind from, Kind to, bool blocking) {
  const CoreBlock x(t, t.cpp_device(), 3000);
  const CoreHost a(t, t.cpp_device(), 3000, from);
  const CoreHost b(t, t.cpp_device(), 3000, to);
  const Stream s = NewStream(t);
  t.Ok(FillAsync(s, x.ptr(), 8, 3000), "FillAsync");
  Delay(t, s);
  t.Ok(CopyAsync(s, a.ptr(), x.ptr(), 3000), "CopyAsync D2H");
  t.Ok(blocking ? Copy(s, b.ptr(), a.ptr(), 3000)
                : CopyAsync(s, b.ptr(), a.ptr(), 3000),
       "copy H2H");
  t.Expect(b.Holds(8),
           absl::StrCat("a copy from ", CoreHost::Name(from), " to ",
                        CoreHost::Name(to), " memory, ",
                        blocking ? "blocking" : "async",
                        ", is behind what its stream holds, and complete on "
                        "return"));
  t.Expect(IsDone(t, s), "its stream is drained");
}

void HostToHost(Test& t) {
  t.InEverySchedule([&] {
    for (const Kind from : CoreHost::Kinds(t)) {
      for (const Kind to : CoreHost::Kinds(t)) {
        for (const bool blocking : {true, false}) {
          HostToHostOf(t, from, to, blocking);
        }
      }
    }
  });
}

void AsyncPinnedReturns(Test& t) {
  t.InEverySchedule([&] {
    const CoreBlock x(t, t.cpp_device(), 2000), y(t, t.cpp_device(), 2000);
    const CoreHost in(t, t.cpp_device(), 2000, Kind::kPinned);
    const CoreHost out(t, t.cpp_device(), 2000, Kind::kPinned);
    const Stream s = NewStream(t);
    std::memset(in.ptr(), 4, 2000);
    Gate gate(t);
    gate.Hold(s);
    t.Ok(CopyAsync(s, x.ptr(), in.ptr(), 2000), "CopyAsync H2D");
    t.Ok(CopyAsync(s, y.ptr(), x.ptr(), 2000), "CopyAsync D2D");
    t.Ok(CopyAsync(s, out.ptr(), y.ptr(), 2000), "CopyAsync D2H");
    t.Settle();
    t.Expect(!IsDone(t, s), "three copies return before completion");
    t.Expect(out.Holds(0), "nothing has arrived");
    gate.Open();
    t.Ok(s.Synchronize(), "Synchronize");
    t.Expect(out.Holds(4), "all has arrived");
  });
}

void AsyncPageableIsRight(Test& t) {
  t.InEverySchedule([&] {
    const CoreBlock x(t, t.cpp_device(), 70'000);
    const std::vector<uint8_t> in = Pattern(70'000, 1);
    std::vector<uint8_t> out(70'000);
    const Stream s = NewStream(t);
    Delay(t, s);
    t.Ok(CopyAsync(s, x.ptr(), in.data(), in.size()), "CopyAsync H2D");
    t.Ok(CopyAsync(s, out.data(), x.ptr(), in.size()), "CopyAsync D2H");
    t.Ok(s.Synchronize(), "Synchronize");
    t.Expect(in == out,
             "buffers that are kept until completion carry the bytes");
  });
}

constexpr TestCase kTests[] = {
    {"copy.blocking_pageable_is_visible_to_all", "C48",
     "A blocking copy from pageable memory is complete on return and visible "
     "to every stream.",
     &PageableIsVisible},
    {"copy.blocking_pinned_is_complete", "C49",
     "A blocking copy from pinned memory is complete on return.",
     &PinnedIsComplete, DEVRT_CAP_PINNED_HOST},
    {"copy.blocking_to_host_is_complete", "C50",
     "A blocking copy to the host is complete on return, and its stream idle.",
     &DeviceToHostIsComplete},
    {"copy.blocking_within_device_does_not_wait", "C51",
     "A blocking copy within a device is ordered in its stream; the host does "
     "not wait.",
     &WithinDeviceDoesNotWait, 0, kNeedsGate},
    {"copy.blocking_within_device_orders_no_other", "C51",
     "A copy within a device is unordered with a stream that does not wait for "
     "it.",
     &WithinDeviceOrdersNoOther},
    {"copy.host_to_host_in_both_forms", "C52",
     "A copy from host to host drains the given stream and is complete on "
     "return, in both forms and between memory of every kind.",
     &HostToHost},
    {"copy.async_pinned_returns", "C54",
     "Asynchronous copies with pinned memory return before completion.",
     &AsyncPinnedReturns, DEVRT_CAP_PINNED_HOST, kNeedsGate},
    {"copy.async_pageable_is_right", "C53",
     "A program that keeps its pageable buffers until completion is right in "
     "every mode.",
     &AsyncPageableIsRight},
};

}  // namespace
}  // namespace copy_blocking_tests

absl::Span<const TestCase> BlockingCopyTests() {
  return copy_blocking_tests::kTests;
}

}  // namespace devrt::cts
