// SPDX-License-Identifier: Apache-2.0
//
// The legacy rule: the order between the legacy stream and blocking streams.
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cts/catalog.h"
#include "cts/held_stream.h"
#include "cts/objects.h"

namespace devrt::cts {
namespace order_legacy_tests {
namespace {

constexpr uint64_t kSize = 4096;

// Every kind of operation that the rule covers (C9), except waits.
class Operations {
 public:
  struct Kind {
    const char* name;
    std::function<void(const RawStream&)> submit;
  };

  explicit Operations(Test& t)
      : x_(t, t.device(), kSize),
        y_(t, t.device(), kSize),
        h_(t, t.device(), kSize),
        recorded_(t, t.device()) {
    kinds_ = {
        {"a fill", [this](auto& s) { s.Fill(x_.ptr(), 2, kSize); }},
        {"a copy on the device",
         [this](auto& s) {
           s.Copy(y_.ptr(), x_.ptr(), kSize, DEVRT_COPY_D2D);
         }},
        {"a record", [this](auto& s) { recorded_.Record(s); }},
    };
    if (h_.is_pinned()) {
      kinds_.push_back({"a copy to the device", [this](auto& s) {
                          s.Copy(x_.ptr(), h_.ptr(), kSize, DEVRT_COPY_H2D);
                        }});
      kinds_.push_back({"a copy from the device", [this](auto& s) {
                          s.Copy(h_.ptr(), x_.ptr(), kSize, DEVRT_COPY_D2H);
                        }});
    }
    // A gate may be a host function, and host functions may run one by one.
    if (t.machine().Has(DEVRT_CAP_HOST_FUNC) &&
        t.machine().probe() != nullptr) {
      kinds_.push_back(
          {"a host function", [](auto& s) { s.HostFunc([](devrt_code) {}); }});
    }
  }
  const std::vector<Kind>& kinds() const { return kinds_; }

 private:
  DeviceBlock x_, y_;
  HostBlock h_;
  RawEvent recorded_;
  std::vector<Kind> kinds_;
};

// ---- both directions, for every kind of operation

void LegacyComesAfterBlocking(Test& t) {
  t.InEverySchedule([&] {
    const Operations operations(t);
    for (const auto& kind : operations.kinds()) {
      const RawStream s = Blocking(t), other = Blocking(t), legacy = Legacy(t);
      HeldStream held(t, s);
      const RawEvent e(t, t.device());
      kind.submit(legacy);
      e.Record(legacy);
      held.Blocks(e, std::string("on the legacy stream, ") + kind.name +
                         " starts after a blocking stream's earlier work");
      kind.submit(other);
      held.Blocks(other, std::string("on another blocking stream, ") +
                             kind.name + " comes after the legacy stream's");
      held.Open();
      legacy.Sync();
    }
  });
}

void BlockingComesAfterLegacy(Test& t) {
  t.InEverySchedule([&] {
    const Operations operations(t);
    for (const auto& kind : operations.kinds()) {
      const RawStream s = Blocking(t), legacy = Legacy(t);
      HeldStream held(t, legacy);
      const RawEvent e(t, t.device());
      kind.submit(s);
      e.Record(s);
      held.Blocks(e, std::string("on a blocking stream, ") + kind.name +
                         " starts after the legacy stream's earlier work");
      held.Open();
      s.Sync();
    }
  });
}

// The legacy operation waits for the running operation of the blocking stream,
// and not for the later one.
void LegacyWaitsForTheRunningOne(Test& t) {
  t.InEverySchedule([&] {
    const DeviceBlock x(t, t.device(), kSize);
    const RawStream s = Blocking(t), legacy = Legacy(t);
    Gate gate(t);
    gate.Hold(s);
    s.Fill(x.ptr(), 1, x.size());
    legacy.Fill(x.ptr(), 2, x.size());
    s.Fill(x.ptr() + kSize / 2, 3, kSize / 2);
    t.Settle();
    t.Expect(!legacy.Query(), "the legacy stream waits");
    gate.Open();
    s.Sync();
    const std::vector<uint8_t> bytes = x.Read();
    t.Equal(bytes[0], uint8_t{2}, "legacy work comes after earlier work");
    t.Equal(bytes[kSize - 1], uint8_t{3}, "and before later work");
  });
}

// Two blocking streams, k1(s1) k2(legacy) k3(s2).
void LegacyStandsBetweenTwo(Test& t) {
  t.InEverySchedule([&] {
    const DeviceBlock x(t, t.device(), kSize);
    const RawStream s1 = Blocking(t), s2 = Blocking(t), legacy = Legacy(t);
    s1.Delay(30'000);
    s1.Fill(x.ptr(), 1, x.size());
    legacy.Delay(30'000);
    legacy.Fill(x.ptr(), 2, x.size());
    s2.Fill(x.ptr(), 3, x.size());
    s2.Sync();
    s1.Sync();
    legacy.Sync();
    t.Expect(x.Holds(3), "k1, k2 and k3 run in this order");
  });
}

// ---- C9: records and waits are operations

void RecordAloneIsABarrier(Test& t) {
  t.InEverySchedule([&] {
    const RawStream s1 = Blocking(t), s2 = Blocking(t), legacy = Legacy(t);
    const RawEvent e(t, t.device()), seen(t, t.device());
    HeldStream held(t, s1);
    e.Record(legacy);
    seen.Record(s2);
    held.Blocks(seen,
                "a record as the only legacy operation stands between "
                "two blocking streams");
    held.Blocks(e, "it comes after the earlier work of blocking streams");
  });
}

void WaitAloneIsABarrier(Test& t) {
  t.InEverySchedule([&] {
    const DeviceBlock x(t, t.device(), kSize);
    const RawStream free(t, t.device());
    const RawStream s2 = Blocking(t), legacy = Legacy(t);
    const RawEvent e(t, t.device());
    {
      HeldStream held(t, free);
      e.Record(free);
      legacy.Wait(e);
      s2.Fill(x.ptr(), 1, x.size());
      held.Blocks(s2, "a wait in the legacy stream holds blocking streams");
      held.Blocks(legacy, "and the legacy stream itself");
    }
    legacy.Sync();
    s2.Sync();
  });
}

// A wait on a blocking stream, without a later operation.
void LegacyComesAfterABareWait(Test& t) {
  t.InEverySchedule([&] {
    const DeviceBlock x(t, t.device(), kSize);
    const RawStream a(t, t.device());
    const RawStream s = Blocking(t), legacy = Legacy(t), s2 = Blocking(t);
    const RawEvent e(t, t.device()), seen(t, t.device());
    HeldStream held(t, a);
    a.Fill(x.ptr(), 1, x.size());
    e.Record(a);
    s.Wait(e);
    seen.Record(legacy);
    held.Blocks(seen, "a legacy record covers a blocking stream's bare wait");
    legacy.Fill(x.ptr(), 2, x.size());
    s2.Fill(x.ptr(), 3, x.size());
    held.Blocks(s2, "order passes from the wait through the legacy stream");
    held.Open();
    s2.Sync();
    t.Expect(x.Holds(3), "all three fills are in order");
  });
}

// A bare record on a blocking stream, behind legacy work.
void RecordOnBlockingBehindLegacy(Test& t) {
  t.InEverySchedule([&] {
    const RawStream s = Blocking(t), legacy = Legacy(t), nb(t, t.device());
    const RawEvent e(t, t.device());
    HeldStream held(t, legacy);
    e.Record(s);
    nb.Wait(e);
    held.Blocks(e, "a bare record behind legacy work is pending");
    held.Blocks(nb, "a stream that waits for it comes after the legacy work");
    held.Open();
    nb.Sync();
  });
}

// ---- per-thread streams are blocking ones

void PerThreadBothWays(Test& t) {
  t.InEverySchedule([&] {
    const RawStream mine = PerThread(t), legacy = Legacy(t);
    const RawEvent e(t, t.device()), f(t, t.device());
    {
      HeldStream held(t, mine);
      e.Record(legacy);
      held.Blocks(e, "legacy work comes after a per-thread stream's");
    }
    legacy.Sync();
    {
      HeldStream held(t, legacy);
      f.Record(mine);
      held.Blocks(f, "a per-thread stream's work comes after legacy work");
    }
    mine.Sync();
  });
}

// Also after the end of the thread.
void PerThreadOfAnotherThread(Test& t) {
  t.InEverySchedule([&] {
    const DeviceBlock x(t, t.device(), kSize);
    const RawStream legacy = Legacy(t), a(t, t.device());
    const RawEvent pending(t, t.device()), e(t, t.device());
    HeldStream held(t, a);
    pending.Record(a);
    {
      Threads threads;
      threads.Start([&] {
        const RawStream theirs = PerThread(t);
        theirs.Wait(pending);
        theirs.Fill(x.ptr(), 1, x.size());
      });
      threads.Join();
    }
    e.Record(legacy);
    legacy.Fill(x.ptr(), 2, x.size());
    held.Blocks(e, "a legacy record covers per-thread streams of all threads");
    held.Open();
    legacy.Sync();
    t.Expect(x.Holds(2), "legacy work comes after theirs");
  });
}

// Also for copies that are so small that a driver may read them at once.
void SmallSourcesAreReadInOrder(Test& t) {
  const auto read_behind = [&](const RawStream& writer,
                               const RawStream& reader) {
    for (const uint64_t size : {4, 512, 40'000}) {
      const HostBlock between(t, t.device(), size);
      const DeviceBlock from(t, t.device(), size), to(t, t.device(), size);
      writer.Fill(from.ptr(), 1, size);
      writer.Sync();
      reader.Sync();
      HeldStream held(t, writer);
      writer.Copy(between.ptr(), from.ptr(), size, DEVRT_COPY_D2H);
      reader.Copy(to.ptr(), between.ptr(), size, DEVRT_COPY_H2D);
      held.Open();
      reader.Sync();
      t.Expect(to.Holds(1), absl::StrCat("the source of a copy of ", size,
                                         " bytes is read behind what the "
                                         "legacy rule puts before it"));
    }
  };
  t.InEverySchedule([&] {
    const RawStream legacy = Legacy(t), mine = PerThread(t), s = Blocking(t);
    read_behind(legacy, s);
    read_behind(s, legacy);
    read_behind(legacy, mine);
    read_behind(mine, legacy);
  });
}

// ---- C21, C30: the legacy stream stands for the blocking ones

void LegacySyncCoversBlocking(Test& t) {
  t.InEverySchedule([&] {
    const HostBlock out(t, t.device(), kSize);
    const DeviceBlock x(t, t.device(), kSize);
    const RawStream s = Blocking(t), legacy = Legacy(t);
    s.Delay(100'000);
    s.Fill(x.ptr(), 1, x.size());
    s.Copy(out.ptr(), x.ptr(), out.size(), DEVRT_COPY_D2H);
    legacy.Sync();
    t.Expect(out.Holds(1),
             "synchronising the legacy stream covers blocking "
             "streams");
    t.Expect(s.Query(), "they are idle then");
  });
}

void LegacyQueryCoversBlocking(Test& t) {
  t.InEverySchedule([&] {
    const RawStream s = Blocking(t), mine = PerThread(t), legacy = Legacy(t);
    for (const RawStream* const each : {&s, &mine}) {
      HeldStream held(t, *each);
      held.Blocks(legacy,
                  "a query of the legacy stream covers blocking and "
                  "per-thread streams");
    }
  });
}

void LegacyRecordCoversPerThread(Test& t) {
  t.InEverySchedule([&] {
    const RawStream mine = PerThread(t), legacy = Legacy(t), nb(t, t.device());
    const RawEvent e(t, t.device());
    HeldStream held(t, mine);
    e.Record(legacy);
    nb.Wait(e);
    held.Blocks(e, "a record on the legacy stream covers per-thread streams");
    held.Blocks(nb, "so does a wait for it");
  });
}

// Each of several blocking streams, one at a time.
void LegacyRecordCoversEach(Test& t) {
  constexpr size_t kStreams = 4;
  t.InEverySchedule([&] {
    for (size_t late = 0; late < kStreams; ++late) {
      const DeviceBlock x(t, t.device(), kStreams);
      std::vector<RawStream> streams;
      for (size_t i = 0; i < kStreams; ++i) streams.push_back(Blocking(t));
      const RawStream legacy = Legacy(t);
      const RawEvent e(t, t.device());
      HeldStream held(t, streams[late]);
      for (size_t i = 0; i < kStreams; ++i) streams[i].Fill(x.ptr() + i, 1, 1);
      e.Record(legacy);
      held.Blocks(e,
                  "a record on the legacy stream covers every blocking "
                  "stream");
    }
  });
}

// The work of a destroyed blocking stream still counts.
void DestroyedBlockingCounts(Test& t) {
  t.InEverySchedule([&] {
    const DeviceBlock x(t, t.device(), kSize);
    const RawStream a(t, t.device()), legacy = Legacy(t);
    const RawEvent pending(t, t.device()), e(t, t.device());
    HeldStream held(t, a);
    pending.Record(a);
    {
      const RawStream s = Blocking(t);
      s.Wait(pending);
      s.Fill(x.ptr(), 1, x.size());
    }
    legacy.Fill(x.ptr(), 2, x.size());
    e.Record(legacy);
    held.Blocks(e, "legacy work comes after a destroyed blocking stream's");
    held.Open();
    legacy.Sync();
    t.Expect(x.Holds(2), "in this order");
  });
}

// ---- several devices

void LegacyOfEachDevice(Test& t) {
  t.InEverySchedule([&] {
    const RawStream l0 = Legacy(t, t.device(0)), l1 = Legacy(t, t.device(1));
    const RawStream s0 = Blocking(t, t.device(0)),
                    s1 = Blocking(t, t.device(1));
    const RawEvent e0(t, t.device(0)), e1(t, t.device(1));
    const RawEvent other(t, t.device(1));
    HeldStream held(t, s0);
    e0.Record(l0);
    e1.Record(l1);
    held.Blocks(e0, "the rule holds on device 0");
    held.LetsPass(e1, "and does not reach device 1");
    // A wait in the legacy stream of device 1 extends the order to device 1.
    l1.Wait(e0);
    other.Record(s1);
    held.Blocks(other,
                "a wait in a legacy stream holds its device's blocking "
                "streams, whatever device it waits for");
    held.Open();
    s1.Sync();
    l1.Sync();
  });
}

// A blocking stream of device 0, the legacy streams of devices 0 and 1, and a
// blocking stream of device 1.
void ChainOverTwoLegacyStreams(Test& t) {
  t.InEverySchedule([&] {
    const RawStream s0 = Blocking(t, t.device(0)), l0 = Legacy(t, t.device(0));
    const RawStream l1 = Legacy(t, t.device(1)), s1 = Blocking(t, t.device(1));
    const RawStream end(t, t.device(0));
    const RawEvent e0(t, t.device(0)), e1(t, t.device(1));
    HeldStream held(t, s0);
    e0.Record(l0);
    l1.Wait(e0);
    e1.Record(s1);
    end.Wait(e1);
    held.Blocks(e1, "order passes through two legacy streams without work");
    held.Blocks(end, "and back to the first device");
    held.Open();
    end.Sync();
  });
}

constexpr TestCase kTests[] = {
    {"order.legacy_comes_after_blocking", "C8 C9",
     "An operation of any kind in the legacy stream starts after all earlier "
     "work of every blocking stream.",
     &LegacyComesAfterBlocking, 0, kNeedsGate},
    {"order.blocking_comes_after_legacy", "C8 C9",
     "An operation of any kind in a blocking stream starts after earlier work "
     "of the legacy stream.",
     &BlockingComesAfterLegacy, 0, kNeedsGate},
    {"order.legacy_waits_for_the_running_one", "C8",
     "The legacy stream's work lies between earlier and later work of a "
     "blocking stream.",
     &LegacyWaitsForTheRunningOne, 0, kNeedsGate},
    {"order.legacy_stands_between_two", "C8 C11",
     "Work of two blocking streams with legacy work between runs in order.",
     &LegacyStandsBetweenTwo},
    {"order.legacy_record_is_a_barrier", "C9 C11",
     "A record in the legacy stream counts as an operation.",
     &RecordAloneIsABarrier, 0, kNeedsGate},
    {"order.legacy_wait_is_a_barrier", "C9",
     "A wait in the legacy stream counts as an operation.",
     &WaitAloneIsABarrier, 0, kNeedsGate},
    {"order.legacy_comes_after_a_bare_wait", "C9 C26 C30",
     "A wait on a blocking stream implies waiting for legacy work, also when "
     "nothing is behind it.",
     &LegacyComesAfterABareWait, 0, kNeedsGate},
    {"order.record_on_blocking_behind_legacy", "C9 C8",
     "A record on a blocking stream comes after earlier legacy work.",
     &RecordOnBlockingBehindLegacy, 0, kNeedsGate},
    {"order.per_thread_both_ways", "C12 C8",
     "A per-thread stream is ordered with the legacy stream both ways.",
     &PerThreadBothWays, 0, kNeedsGate},
    {"order.per_thread_of_another_thread", "C12 C30",
     "The legacy stream covers per-thread streams of all threads, ended ones "
     "too.",
     &PerThreadOfAnotherThread, 0, kNeedsGate},
    {"order.small_sources_are_read_in_order", "C8 C12 C54",
     "A copy of any size reads its source in stream order.",
     &SmallSourcesAreReadInOrder, DEVRT_CAP_PINNED_HOST, kNeedsGate},
    {"order.legacy_sync_covers_blocking", "C21",
     "Synchronising the legacy stream covers all blocking streams.",
     &LegacySyncCoversBlocking, DEVRT_CAP_PINNED_HOST},
    {"order.legacy_query_covers_blocking", "C21",
     "A query of the legacy stream covers all blocking and per-thread streams.",
     &LegacyQueryCoversBlocking, 0, kNeedsGate},
    {"order.legacy_record_covers_per_thread", "C30",
     "A record on the legacy stream captures per-thread streams.",
     &LegacyRecordCoversPerThread, 0, kNeedsGate},
    {"order.legacy_record_covers_each", "C30",
     "A record on the legacy stream captures all blocking streams.",
     &LegacyRecordCoversEach, 0, kNeedsGate},
    {"order.destroyed_blocking_counts", "C8 C17",
     "The legacy stream comes after the work of destroyed blocking streams.",
     &DestroyedBlockingCounts, 0, kNeedsGate},
    {"order.legacy_of_each_device", "C8 C9 C13",
     "The legacy rule holds on each device for itself.", &LegacyOfEachDevice, 0,
     kNeedsGate | kTwoDevices},
    {"order.chain_over_two_legacy_streams", "C9 C30 C32",
     "Order is transitive through the legacy streams of two devices.",
     &ChainOverTwoLegacyStreams, 0, kNeedsGate | kTwoDevices},
};

}  // namespace
}  // namespace order_legacy_tests

absl::Span<const TestCase> OrderLegacyTests() {
  return order_legacy_tests::kTests;
}

}  // namespace devrt::cts
