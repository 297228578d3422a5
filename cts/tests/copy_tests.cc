// SPDX-License-Identifier: Apache-2.0
//
// Asynchronous copies through the table.
#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "cts/catalog.h"
#include "cts/core_objects.h"
#include "cts/objects.h"

namespace devrt::cts {
namespace copy_tests {
namespace {

using Ops = devrt_ops_v0;

constexpr uint64_t kSizes[] = {1,   2,    3,    4,    7,     8,    9,   15,
                               16,  17,   63,   64,   65,    511,  512, 513,
                               999, 4095, 4096, 4097, 65536, 65537};
constexpr uint64_t kRoom = 65537 + 64;

// True if [offset, offset + size) of `got` is `want`, and the rest is 0xee.
bool IsPatch(const uint8_t* got, uint64_t offset, uint64_t size,
             const uint8_t* want) {
  for (uint64_t i = 0; i < kRoom; ++i) {
    const bool inside = i >= offset && i < offset + size;
    if (got[i] != (inside ? want[i - offset] : 0xee)) return false;
  }
  return true;
}

// One copy of each kind, between odd addresses.
void CopyEachWay(Test& t, const RawStream& s, bool pinned, uint64_t size) {
  const uint32_t device = s.device();
  const uint64_t from = size % 7, to = 1 + size % 11;
  const DeviceBlock x(t, device, kRoom), y(t, device, kRoom);
  const HostBlock in(t, device, kRoom, pinned), out(t, device, kRoom, pinned);
  const std::vector<uint8_t> bytes =
      Pattern(kRoom, static_cast<uint32_t>(size) + device);
  std::memcpy(in.ptr(), bytes.data(), kRoom);
  std::memset(out.ptr(), 0xee, kRoom);
  s.Fill(x.ptr(), 0xee, kRoom);
  s.Fill(y.ptr(), 0xee, kRoom);
  s.Sync();
  s.Copy(x.ptr() + to, in.ptr() + from, size, DEVRT_COPY_H2D);
  s.Copy(y.ptr() + from, x.ptr() + to, size, DEVRT_COPY_D2D);
  s.Copy(out.ptr() + to, y.ptr() + from, size, DEVRT_COPY_D2H);
  s.Sync();
  const uint8_t* const want = bytes.data() + from;
  const std::string what = absl::StrCat(" of ", size, " bytes moves these ",
                                        pinned ? "(pinned)" : "(pageable)");
  t.Expect(IsPatch(x.Read().data(), to, size, want), "a copy H2D" + what);
  t.Expect(IsPatch(y.Read().data(), from, size, want), "a copy D2D" + what);
  t.Expect(IsPatch(out.ptr(), to, size, want), "a copy D2H" + what);
}

void EveryByte(Test& t) {
  for (const uint32_t device : t.devices()) {
    const RawStream s(t, device);
    for (const uint64_t size : kSizes) CopyEachWay(t, s, true, size);
  }
}

void EveryByteOfPageable(Test& t) {
  const RawStream s(t, t.device());
  for (const uint64_t size : kSizes) CopyEachWay(t, s, false, size);
}

// 3 MiB: more than a staging buffer holds, and more than a simulator copies in
// two phases.
void LargeBlocks(Test& t) {
  const uint64_t size = (3u << 20) + 3;
  for (const bool pinned : {true, false}) {
    const DeviceBlock x(t, t.device(), size), y(t, t.device(), size);
    const HostBlock in(t, t.device(), size, pinned);
    const HostBlock out(t, t.device(), size, pinned);
    const std::vector<uint8_t> bytes = Pattern(size, pinned ? 1 : 2);
    std::memcpy(in.ptr(), bytes.data(), size);
    const RawStream s(t, t.device());
    s.Copy(x.ptr(), in.ptr(), size, DEVRT_COPY_H2D);
    s.Copy(y.ptr(), x.ptr(), size, DEVRT_COPY_D2D);
    s.Copy(out.ptr(), y.ptr(), size, DEVRT_COPY_D2H);
    s.Sync();
    t.Expect(std::memcmp(out.ptr(), bytes.data(), size) == 0,
             "3 MiB arrive through two device blocks");
  }
}

// The core always passes a known kind, but the table has to accept INFER, too.
void Inferred(Test& t) {
  const DeviceBlock x(t, t.device(), 600), y(t, t.device(), 600);
  const HostBlock in(t, t.device(), 600), out(t, t.device(), 600);
  std::memset(in.ptr(), 0x3d, 600);
  const RawStream s(t, t.device());
  s.Copy(x.ptr(), in.ptr(), 600, DEVRT_COPY_INFER);
  s.Copy(y.ptr(), x.ptr(), 600, DEVRT_COPY_INFER);
  s.Copy(out.ptr(), y.ptr(), 600, DEVRT_COPY_INFER);
  s.Sync();
  t.Expect(out.Holds(0x3d), "copies of kind INFER move the bytes");
}

// `host` is page-locked memory of any kind.
void ExpectLate(Test& t, uint8_t* host, uint64_t size) {
  const DeviceBlock x(t, t.device(), size), y(t, t.device(), size);
  const RawStream s(t, t.device()), d2h(t, t.device());
  const Reader reader(t, t.device(), size);
  s.Fill(x.ptr(), 7, size);
  s.Sync();
  {
    Gate gate(t);
    gate.Hold(s);
    gate.Hold(d2h);
    std::memset(host, 5, size / 2);
    s.Copy(y.ptr(), host, size / 2, DEVRT_COPY_H2D);
    d2h.Copy(host + size / 2, x.ptr(), size / 2, DEVRT_COPY_D2H);
    t.Settle();
    t.Expect(!s.Query(), "a copy H2D behind a held stream is not complete");
    t.Expect(!d2h.Query(), "a copy D2H behind a held stream is not complete");
    t.Expect(reader.Holds(y.ptr(), 0),
             "a copy H2D behind a held stream has not happened");
    t.Expect(host[size / 2] == 0 && host[size - 1] == 0,
             "a copy D2H behind a held stream has not happened");
  }
  t.Expect(y.Read()[0] == 5 && y.Read()[size / 2 - 1] == 5,
           "the copy H2D has happened when its stream is complete");
  t.Expect(host[size / 2] == 7 && host[size - 1] == 7,
           "the copy D2H has happened when its stream is complete");
}

void PinnedIsAsynchronous(Test& t) {
  t.InEverySchedule([&] {
    for (const uint64_t size : {uint64_t{2}, uint64_t{100'000}}) {
      const HostBlock host(t, t.device(), size);
      ExpectLate(t, host.ptr(), size);
    }
  });
}

void RegisteredIsAsynchronous(Test& t) {
  t.InEverySchedule([&] {
    std::vector<uint8_t> memory(100'000);
    t.Require(t.machine().Call<&Ops::host_register>(
                  t.device(), static_cast<void*>(memory.data()),
                  uint64_t{memory.size()}),
              "registration");
    ExpectLate(t, memory.data(), memory.size());
    t.Ok(t.machine().Call<&Ops::host_unregister>(
             static_cast<void*>(memory.data())),
         "end of the registration");
  });
}

void DeviceCopiesAreAsynchronous(Test& t) {
  t.InEverySchedule([&] {
    const DeviceBlock x(t, t.device(), 7000), y(t, t.device(), 7000);
    const RawStream s(t, t.device());
    const Reader reader(t, t.device(), 7000);
    s.Fill(x.ptr(), 3, 7000);
    s.Sync();
    Gate gate(t);
    gate.Hold(s);
    s.Fill(x.ptr(), 4, 7000);
    s.Copy(y.ptr(), x.ptr(), 7000, DEVRT_COPY_D2D);
    t.Settle();
    t.Expect(!s.Query(), "a copy D2D behind a held stream is not complete");
    t.Expect(reader.Holds(y.ptr(), 0),
             "a copy D2D behind a held stream has not happened");
    gate.Open();
    s.Sync();
    t.Expect(y.Holds(4), "it copies what its stream has written before it");
  });
}

// Through pinned memory and back: each copy reads the result of the last one.
void SourceIsReadInOrder(Test& t) {
  t.InEverySchedule([&] {
    const uint64_t size = 10'000;
    const DeviceBlock x(t, t.device(), size), y(t, t.device(), size);
    const HostBlock pinned(t, t.device(), size);
    const RawStream s(t, t.device());
    s.Delay(100'000);
    s.Fill(x.ptr(), 6, size);
    s.Copy(pinned.ptr(), x.ptr(), size, DEVRT_COPY_D2H);
    s.Copy(y.ptr(), pinned.ptr(), size, DEVRT_COPY_H2D);
    s.Fill(x.ptr(), 8, size);
    s.Copy(pinned.ptr(), x.ptr(), size, DEVRT_COPY_D2H);
    s.Sync();
    t.Expect(y.Holds(6),
             "a copy H2D reads its source when its turn comes, not before");
    t.Expect(pinned.Holds(8), "the later copy D2H overwrites the earlier");
  });
}

// A copy from host to host waits for the stream, also through the table.
void HostToHost(Test& t) {
  t.InEverySchedule([&] {
    const uint64_t size = 5000;
    const DeviceBlock x(t, t.device(), size);
    const HostBlock a(t, t.device(), size), b(t, t.device(), size);
    const RawStream s(t, t.device());
    s.Fill(x.ptr(), 2, size);
    s.Delay(200'000);
    s.Copy(a.ptr(), x.ptr(), size, DEVRT_COPY_D2H);
    s.Copy(b.ptr(), a.ptr(), size, DEVRT_COPY_H2H);
    t.Expect(b.Holds(2),
             "a copy H2H has happened at its return, behind what its stream "
             "holds");
    t.Expect(s.Query(), "its stream is drained at its return");
  });
}

uint32_t PageableNow(Test& t) {
  devrt_device_props_v0 props = {};
  props.struct_size = sizeof props;
  t.Require(t.machine().Call<&Ops::device_props>(t.device(), &props),
            "device_props");
  return props.pageable_async;
}

// Compares the property `pageable_async` with a copy behind work that takes a
// while.
void ExpectPageable(Test& t, uint32_t promise) {
  const uint64_t size = 40'000;
  const DeviceBlock x(t, t.device(), size), y(t, t.device(), size);
  const HostBlock in(t, t.device(), size, false);
  const HostBlock out(t, t.device(), size, false);
  const RawStream s(t, t.device());
  std::memset(in.ptr(), 3, size);
  s.Fill(y.ptr(), 9, size);
  s.Sync();
  s.Delay(200'000);
  s.Copy(x.ptr(), in.ptr(), size, DEVRT_COPY_H2D);
  if (promise == DEVRT_PAGEABLE_SYNC) {
    t.Expect(s.Query(), "pageable_async=sync: complete at the return");
  }
  if (promise != DEVRT_PAGEABLE_LATE) std::memset(in.ptr(), 4, size);
  s.Delay(200'000);
  s.Copy(out.ptr(), y.ptr(), size, DEVRT_COPY_D2H);
  if (promise != DEVRT_PAGEABLE_LATE) {
    t.Expect(s.Query(),
             "sync and staged: a copy D2H is complete at its return");
    t.Expect(out.Holds(9), "sync and staged: its bytes have arrived");
  }
  s.Sync();
  t.Expect(x.Holds(3),
           "sync and staged: the source may be reused at the return; always: "
           "the bytes arrive");
  t.Expect(out.Holds(9), "the bytes of a copy D2H arrive");
}

void PageableKeepsItsPromise(Test& t) {
  const uint32_t promise = PageableNow(t);
  t.Expect(promise >= DEVRT_PAGEABLE_SYNC && promise <= DEVRT_PAGEABLE_LATE,
           "pageable_async is sync, staged or late");
  t.InEverySchedule([&] { ExpectPageable(t, promise); });
}

void SimulatorsOfferAllThree(Test& t) {
  if (!t.machine().simulator().has_value())
    t.Skip("only a simulator can show it");
  constexpr struct {
    const char* config;
    uint32_t promise;
  } kModes[] = {{"pageable=sync", DEVRT_PAGEABLE_SYNC},
                {"pageable=staged", DEVRT_PAGEABLE_STAGED},
                {"pageable=late", DEVRT_PAGEABLE_LATE}};
  for (const auto& mode : kModes) {
    t.Require(t.machine().Reset(mode.config), "reset of the simulator");
    t.Equal(PageableNow(t), mode.promise, mode.config);
    ExpectPageable(t, mode.promise);
    if (mode.promise == DEVRT_PAGEABLE_SYNC) continue;
    // Neither copy waits for a held stream.
    const DeviceBlock x(t, t.device(), 4000);
    const HostBlock in(t, t.device(), 4000, false);
    const RawStream s(t, t.device());
    Gate gate(t);
    gate.Hold(s);
    std::memset(in.ptr(), 1, 4000);
    s.Copy(x.ptr(), in.ptr(), 4000, DEVRT_COPY_H2D);
    t.Expect(!s.Query(), "staged and late: a copy H2D does not wait");
    const bool staged = mode.promise == DEVRT_PAGEABLE_STAGED;
    if (staged) std::memset(in.ptr(), 2, 4000);
    gate.Open();
    s.Sync();
    t.Expect(x.Holds(1), staged ? "staged: the source was read before"
                                : "late: the copy reads the source");
  }
  t.Require(t.machine().Reset(""), "reset of the simulator");
}

// The largest numbers of copies that ran at once, of one engine and of all.
struct Overlap {
  int same = 0;
  int all = 0;
};

Overlap OverlapOf(const std::vector<SimulatedOp>& ops) {
  Overlap result;
  for (const SimulatedOp& a : ops) {
    if (a.kind != SimulatedOp::Kind::kCopy) continue;
    int same = 0, all = 0;
    for (const SimulatedOp& b : ops) {
      if (b.kind != SimulatedOp::Kind::kCopy || a.begin_ns < b.begin_ns ||
          a.begin_ns >= b.end_ns) {
        continue;
      }
      same += a.engine == b.engine;
      ++all;
    }
    result.same = std::max(result.same, same);
    result.all = std::max(result.all, all);
  }
  return result;
}

// "serial", "overlap", or the text of a violation.
std::string ThreeCopies(Test& t) {
  const Simulator& sim = *t.machine().simulator();
  const uint64_t size = 10'000;
  const DeviceBlock x(t, t.device(), size), y(t, t.device(), size);
  const HostBlock a(t, t.device(), size), b(t, t.device(), size);
  const RawStream in(t, t.device()), in2(t, t.device()), out(t, t.device());
  t.Ok(sim.EnableTimeline(true), "timeline");
  in.Copy(x.ptr(), a.ptr(), size / 2, DEVRT_COPY_H2D);
  in2.Copy(x.ptr() + size / 2, a.ptr(), size / 2, DEVRT_COPY_H2D);
  out.Copy(b.ptr(), y.ptr(), size, DEVRT_COPY_D2H);
  in.Sync();
  in2.Sync();
  out.Sync();
  const auto ops = t.Require(sim.Timeline(), "timeline");
  t.Ok(sim.EnableTimeline(false), "timeline");
  const Overlap overlap = OverlapOf(ops);
  if (overlap.same > 1) return "two copies in one engine";
  if (overlap.all >
      static_cast<int>(t.machine().props(t.device()).copy_engines)) {
    return "more copies at once than copy_engines";
  }
  return overlap.all > 1 ? "overlap" : "serial";
}

void EnginesMayOverlap(Test& t) {
  const bool several = t.machine().props(t.device()).copy_engines > 1;
  std::vector<std::string> outcomes = {"serial"};
  if (several) outcomes.push_back("overlap");
  t.Reaches(outcomes, [&] { return ThreeCopies(t); });
  // Reaches ends at the last outcome; an illegal one may come later.
  t.InEverySchedule([&] {
    const std::string seen = ThreeCopies(t);
    t.Expect(seen == "serial" || (several && seen == "overlap"), seen);
  });
}

constexpr TestCase kTests[] = {
    {"copy.moves_every_byte_and_no_other", "C54",
     "An asynchronous copy moves every byte of its range, at any offset and of "
     "any size, and touches no other.",
     &EveryByte},
    {"copy.pageable_moves_every_byte", "C53",
     "A correct program sees every byte with pageable memory, too.",
     &EveryByteOfPageable},
    {"copy.large_blocks", "C53 C54", "Copies of megabytes move every byte.",
     &LargeBlocks},
    {"copy.kind_is_inferred", "C55", "The kind is inferred.", &Inferred},
    {"copy.pinned_is_asynchronous", "C54",
     "A copy with pinned memory returns before completion, at any size.",
     &PinnedIsAsynchronous, DEVRT_CAP_PINNED_HOST, kNeedsGate},
    {"copy.registered_is_asynchronous", "C54 C70",
     "A copy with registered memory returns before completion, too.",
     &RegisteredIsAsynchronous, DEVRT_CAP_HOST_REGISTER, kNeedsGate},
    {"copy.within_device_is_asynchronous", "C51",
     "A copy within one device is ordered in its stream and waits for nothing.",
     &DeviceCopiesAreAsynchronous, 0, kNeedsGate},
    {"copy.source_is_read_in_stream_order", "C54 C6",
     "A copy with pinned memory reads its source in stream order.",
     &SourceIsReadInOrder, DEVRT_CAP_PINNED_HOST},
    {"copy.host_to_host_drains_the_stream", "C52",
     "A copy from host to host drains its stream and is complete on return.",
     &HostToHost},
    {"copy.pageable_keeps_its_promise", "C53",
     "An asynchronous copy with pageable memory behaves as pageable_async "
     "promises.",
     &PageableKeepsItsPromise},
    {"copy.simulators_offer_all_pageable_modes", "C53",
     "A simulator offers all three values of pageable_async.",
     &SimulatorsOfferAllThree, 0, kNeedsProbe},
    {"copy.engines_may_overlap", "C60",
     "Copies of different engines may overlap and need not; copies of one "
     "engine do not, and never more overlap than copy_engines says.",
     &EnginesMayOverlap, 0, kNeedsSim},
};

}  // namespace
}  // namespace copy_tests

absl::Span<const TestCase> CopyTests() { return copy_tests::kTests; }

}  // namespace devrt::cts
