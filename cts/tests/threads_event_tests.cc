// SPDX-License-Identifier: Apache-2.0
//
// One event, used by many threads (C39, R4).
#include <algorithm>
#include <atomic>
#include <functional>
#include <vector>

#include "cts/catalog.h"
#include "cts/objects.h"

namespace devrt::cts {
namespace threads_event_tests {
namespace {

constexpr int kThreads = 8;
constexpr uint64_t kSize = 64;

// All calls at once, in any order.  Each call succeeds, and the event is
// complete at the end.
void EverythingAtOnce(Test& t) {
  constexpr int kRounds = 60;
  const RawEvent e(t, t.device());
  Threads threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.Start([&, i] {
      const DeviceBlock x(t, t.device(), kSize);
      const RawStream s(t, t.device());
      for (int round = 0; round < kRounds; ++round) {
        s.Fill(x.ptr(), static_cast<uint8_t>(round), x.size());
        switch ((i + round) % 4) {
          case 0:
            e.Record(s);
            break;
          case 1:
            s.Wait(e);
            break;
          case 2:
            (void)e.Query();
            break;
          default:
            e.Sync();
        }
      }
      s.Sync();
      t.Require(x.Holds(kRounds - 1), "each thread's work is done in order");
    });
  }
  threads.Join();
  t.Expect(t.Eventually([&] { return e.Query(); }),
           "when all work is done the event is complete");
  e.Sync();
}

// One thread writes byte after byte, records, then publishes a count.  A thread
// that reads the count and waits for the event finds at least as many bytes.
void WaitSeesAnEarlierRecord(Test& t) {
  constexpr int kRounds = 100;
  const DeviceBlock x(t, t.device(), kRounds);
  const RawStream producer(t, t.device());
  const RawEvent e(t, t.device());
  std::atomic<int> recorded{0};
  Threads threads;
  threads.Start([&] {
    for (int i = 0; i < kRounds; ++i) {
      producer.Fill(x.ptr() + i, 1, 1);
      e.Record(producer);
      recorded = i + 1;
    }
  });
  for (int i = 1; i < kThreads; ++i) {
    threads.Start([&] {
      const HostBlock out(t, t.device(), kRounds);
      const RawStream s(t, t.device());
      t.Require(t.Eventually([&] { return recorded > 0; }),
                "a first record takes effect");
      for (int round = 0; round < kRounds / 2; ++round) {
        const int least = recorded;
        s.Wait(e);
        s.Copy(out.ptr(), x.ptr(), static_cast<uint64_t>(least),
               DEVRT_COPY_D2H);
        s.Sync();
        t.Require(std::all_of(out.ptr(), out.ptr() + least,
                              [](uint8_t b) { return b == 1; }),
                  "a wait sees the capture of some record that took effect "
                  "before it");
      }
    });
  }
  threads.Join();
  producer.Sync();
  t.Expect(x.Holds(1), "all records are done");
}

// Like the test above, for queries and synchronisation, with pinned memory.
void QueryAndSyncSeeAnEarlierRecord(Test& t) {
  constexpr int kRounds = 100;
  const DeviceBlock x(t, t.device(), kRounds + 1);
  const HostBlock out(t, t.device(), kRounds + 1);
  const RawStream producer(t, t.device());
  const RawEvent e(t, t.device());
  std::atomic<int> recorded{0}, queries{0};
  producer.Fill(x.ptr(), 1, x.size());
  Threads threads;
  threads.Start([&] {
    for (int i = 1; i <= kRounds; ++i) {
      // A new byte each time, so that no thread reads a byte during its write.
      producer.Copy(out.ptr() + i, x.ptr() + i, 1, DEVRT_COPY_D2H);
      e.Record(producer);
      recorded = i;
    }
  });
  for (int i = 1; i < 5; ++i) {
    threads.Start([&, i] {
      t.Require(t.Eventually([&] { return recorded > 0; }),
                "a first record takes effect");
      for (int round = 0; round < kRounds / 2; ++round) {
        int least = recorded;
        if (i % 2 == 0) {
          t.Require(t.Eventually([&] {
            least = recorded;
            return e.Query();
          }),
                    "a query becomes true");
          ++queries;
        } else {
          e.Sync();
        }
        t.Require(std::all_of(out.ptr() + 1, out.ptr() + least + 1,
                              [](uint8_t b) { return b == 1; }),
                  i % 2 == 0
                      ? "a true query covers what was recorded before it"
                      : "a synchronisation covers what was recorded before it");
      }
    });
  }
  threads.Join();
  t.Expect(queries > 0, "some queries were true");
  producer.Sync();
}

// Holds a stream until the destructor.  A Gate would not do: a simulator opens
// it when all known threads wait for it.
class LongHold {
 public:
  LongHold(Test& t, const RawStream& stream) : t_(t), device_(stream.device()) {
    Machine& m = t.machine();
    t.Require(m.CallExtension(&devrt_probe_v0::flag_create, m.probe(),
                              m.probe_self(), device_, &flag_),
              "flag creation");
    t.Require(
        m.CallExtension(&devrt_probe_v0::flag_wait, m.probe(), m.probe_self(),
                        stream.handle(), flag_, uint64_t{0}),
        "wait for a flag");
  }
  LongHold(const LongHold&) = delete;
  ~LongHold() {
    Machine& m = t_.machine();
    Open();
    t_.Ok(m.Call<&devrt_ops_v0::device_sync>(device_), "device sync");
    t_.Ok(m.CallExtension(&devrt_probe_v0::flag_destroy, m.probe(),
                          m.probe_self(), flag_),
          "flag destruction");
  }
  void Open() {
    Machine& m = t_.machine();
    t_.Ok(m.CallExtension(&devrt_probe_v0::flag_set, m.probe(), m.probe_self(),
                          flag_, 1u),
          "flag set");
  }

 private:
  Test& t_;
  const uint32_t device_;
  devrt_flag flag_ = nullptr;
};

// Another thread releases threads that wait.
void SyncIsReleasedByAnother(Test& t) {
  const DeviceBlock x(t, t.device(), kSize);
  const HostBlock out(t, t.device(), kSize);
  const RawStream a(t, t.device());
  const RawEvent e(t, t.device());
  std::atomic<int> returned{0};
  Threads threads;
  LongHold hold(t, a);
  a.Fill(x.ptr(), 1, x.size());
  a.Copy(out.ptr(), x.ptr(), out.size(), DEVRT_COPY_D2H);
  e.Record(a);
  for (int i = 0; i < 4; ++i) {
    threads.Start([&] {
      e.Sync();
      ++returned;
      t.Require(out.Holds(1), "a released thread sees the work");
    });
  }
  t.Settle();
  t.Equal(returned.load(), 0, "threads that returned before the work is done");
  t.Expect(!e.Query(), "the event is pending");
  hold.Open();
  threads.Join();
  t.Equal(returned.load(), 4, "threads that were released");
}

// One thread records the event, others wait for it, and a third destroys it.
void HandedFromThreadToThread(Test& t) {
  constexpr int kRounds = 15;
  const DeviceBlock x(t, t.device(), kSize);
  for (int round = 0; round < kRounds; ++round) {
    const RawStream a(t, t.device()), b(t, t.device());
    RawEvent e(t, t.device());
    const auto in_a_thread = [&](const std::function<void()>& body) {
      Threads threads;
      threads.Start(body);
      threads.Join();
    };
    in_a_thread([&] {
      a.Delay(5'000);
      a.Fill(x.ptr(), 1, x.size());
      e.Record(a);
    });
    in_a_thread([&] { b.Wait(e); });
    in_a_thread([&] { t.Require(e.Destroy(), "event destruction"); });
    in_a_thread([&] {
      b.Fill(x.ptr(), 2, x.size());
      b.Sync();
    });
    t.Require(x.Holds(2), "order does not depend on the threads of the calls");
  }
}

constexpr TestCase kTests[] = {
    {"threads.one_event_everything_at_once", "C39",
     "Record, wait, query and synchronise of one event are safe from several "
     "threads.",
     &EverythingAtOnce},
    {"threads.wait_sees_an_earlier_record", "C39",
     "Each wait sees the capture of some record that took effect before it.",
     &WaitSeesAnEarlierRecord},
    {"threads.query_sees_an_earlier_record", "C39 C37",
     "A true query and a synchronisation see the capture of some record that "
     "took effect before them.",
     &QueryAndSyncSeeAnEarlierRecord, DEVRT_CAP_PINNED_HOST},
    {"threads.sync_is_released_by_another", "C36 C39",
     "Threads that wait for an event return when its work is done, not "
     "before.",
     &SyncIsReleasedByAnother, DEVRT_CAP_PINNED_HOST, kNeedsProbe},
    {"threads.event_from_thread_to_thread", "C39 C34",
     "Any thread may call on any event.", &HandedFromThreadToThread},
};

}  // namespace
}  // namespace threads_event_tests

absl::Span<const TestCase> ThreadEventTests() {
  return threads_event_tests::kTests;
}

}  // namespace devrt::cts
