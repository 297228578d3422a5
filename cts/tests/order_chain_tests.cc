// SPDX-License-Identifier: Apache-2.0
//
// Transitive order: through streams without work, long chains, across devices,
// through the host, and through destroyed objects.
#include <memory>
#include <vector>

#include "cts/catalog.h"
#include "cts/held_stream.h"
#include "cts/objects.h"

namespace devrt::cts {
namespace order_chain_tests {
namespace {

constexpr uint64_t kSize = 4096;

// A chain of streams: each stream waits for the one before it.
class Chain {
 public:
  // Begins the chain with `first`.
  Chain(Test& t, const RawStream& first) : t_(t) { Record(first); }

  // Adds a stream at the end.  A wait is its only work.
  const RawStream& Add(uint32_t device, uint32_t flags = 0) {
    streams_.push_back(std::make_unique<RawStream>(t_, device, flags));
    Add(*streams_.back());
    return *streams_.back();
  }
  void Add(const RawStream& stream) {
    stream.Wait(*events_.back());
    Record(stream);
  }
  // Destroys all links but the last event.
  void Shed() {
    streams_.clear();
    events_.erase(events_.begin(), events_.end() - 1);
  }
  const RawEvent& end() const { return *events_.back(); }

 private:
  void Record(const RawStream& stream) {
    events_.push_back(std::make_unique<RawEvent>(t_, stream.device()));
    events_.back()->Record(stream);
  }
  Test& t_;
  std::vector<std::unique_ptr<RawStream>> streams_;
  std::vector<std::unique_ptr<RawEvent>> events_;
};

// A chain from a fill that is held to another fill of the same memory.
struct HeldChain {
  explicit HeldChain(Test& test)
      : t(test),
        x(t, t.device(), kSize),
        first(t, t.device()),
        last(t, t.device()),
        held(t, first),
        chain(Begin()) {}

  // Submits the fill at the end.
  void End() {
    last.Wait(chain.end());
    last.Fill(x.ptr(), 2, x.size());
  }
  void ExpectOrder() {
    held.Blocks(chain.end(), "an event at the end of a chain is pending");
    held.Blocks(last, "the stream at the end of a chain waits");
    held.Open();
    last.Sync();
    t.Expect(x.Holds(2), "the end of the chain comes after its beginning");
  }

  Test& t;
  const DeviceBlock x;
  const RawStream first, last;
  HeldStream held;
  Chain chain;

 private:
  Chain Begin() {
    first.Fill(x.ptr(), 1, x.size());
    return Chain(t, first);
  }
};

void ThroughEmptyStreams(Test& t) {
  t.InEverySchedule([&] {
    HeldChain c(t);
    for (int i = 0; i < 5; ++i) c.chain.Add(t.device());
    c.End();
    c.ExpectOrder();
  });
}

void LongChain(Test& t) {
  constexpr int kLinks = 300;
  t.InEverySchedule([&] {
    const RawStream a(t, t.device());
    HeldStream held(t, a);
    Chain chain(t, a);
    for (int i = 0; i < kLinks; ++i) chain.Add(t.device());
    held.Blocks(chain.end(), "an event at the end of 300 links is pending");
    held.Open();
    chain.end().Sync();
  });
}

// With work at every link: each link overwrites the mark of the one before.
void LongChainWithWork(Test& t) {
  constexpr int kLinks = 60;
  t.InEverySchedule([&] {
    const DeviceBlock x(t, t.device(), kSize);
    std::vector<RawStream> streams;
    for (int i = 0; i < 6; ++i) streams.emplace_back(t, t.device());
    const RawEvent e(t, t.device());
    for (int i = 0; i < kLinks; ++i) {
      const RawStream& s = streams[static_cast<size_t>(i) % streams.size()];
      s.Wait(e);  // one event, recorded again and again
      s.Fill(x.ptr(), static_cast<uint8_t>(i + 1), x.size());
      e.Record(s);
    }
    e.Sync();
    t.Expect(x.Holds(kLinks), "the last link's work comes last");
  });
}

void AcrossDevices(Test& t) {
  t.InEverySchedule([&] {
    HeldChain c(t);
    for (size_t i = 1; i <= 6; ++i) {
      c.chain.Add(t.device(i % t.devices().size()));
    }
    c.End();
    c.ExpectOrder();
  });
}

// Data that goes from device to device through host memory.
void DataAcrossDevices(Test& t) {
  t.InEverySchedule([&] {
    const HostBlock h(t, t.device(0), kSize);
    std::vector<DeviceBlock> blocks;
    std::vector<RawStream> streams;
    for (const uint32_t device : t.devices()) {
      blocks.emplace_back(t, device, kSize);
      streams.emplace_back(t, device);
    }
    std::vector<RawEvent> events;
    streams[0].Delay(50'000);
    streams[0].Fill(blocks[0].ptr(), 5, kSize);
    for (size_t i = 0; i < 6; ++i) {
      const size_t from = i % blocks.size(), to = (i + 1) % blocks.size();
      streams[from].Copy(h.ptr(), blocks[from].ptr(), kSize, DEVRT_COPY_D2H);
      events.emplace_back(t, streams[from].device());
      events.back().Record(streams[from]);
      streams[to].Wait(events.back());
      streams[to].Copy(blocks[to].ptr(), h.ptr(), kSize, DEVRT_COPY_H2D);
      // `from` may be overwritten now, in the order of its own stream.
      streams[from].Fill(blocks[from].ptr(), 0, kSize);
    }
    const size_t last = 6 % blocks.size();
    streams[last].Sync();
    t.Expect(blocks[last].Holds(5), "data goes around all devices in order");
  });
}

// The links are destroyed before the first work has run.
void ThroughGoneObjects(Test& t) {
  t.InEverySchedule([&] {
    HeldChain c(t);
    for (size_t i = 0; i < 5; ++i) {
      c.chain.Add(t.device(i % t.devices().size()));
    }
    c.chain.Shed();
    c.held.StillHolds("destruction of streams and events does not wait");
    c.held.Blocks(c.chain.end(), "a chain holds although its links are gone");
    c.End();
    // The driver may give the handles of the destroyed objects to these.
    std::vector<RawStream> streams;
    std::vector<RawEvent> events;
    for (int i = 0; i < 5; ++i) {
      streams.emplace_back(t, t.device());
      events.emplace_back(t, t.device());
      events.back().Record(streams.back());
      events.back().Sync();
    }
    c.ExpectOrder();
  });
}

// One event is recorded, waited for and recorded again, stream after stream.
void OneEventAllTheWay(Test& t) {
  t.InEverySchedule([&] {
    const RawStream a(t, t.device());
    std::vector<RawStream> streams;
    for (int i = 0; i < 8; ++i) streams.emplace_back(t, t.device());
    const RawEvent e(t, t.device());
    HeldStream held(t, a);
    e.Record(a);
    for (const RawStream& s : streams) {
      s.Wait(e);
      e.Record(s);
    }
    held.Blocks(e, "an event recorded anew at every link is pending");
    for (const RawStream& s : streams) {
      held.Blocks(s, "each link waits for the link before it");
    }
  });
}

// Many streams wait for one, and one stream waits for many.
void FanOutAndIn(Test& t) {
  constexpr int kMiddle = 16;
  t.InEverySchedule([&] {
    const DeviceBlock x(t, t.device(), kMiddle * 64);
    const RawStream first(t, t.device()), last(t, t.device());
    const RawEvent start(t, t.device());
    std::vector<RawStream> middle;
    std::vector<RawEvent> ends;
    HeldStream held(t, first);
    first.Fill(x.ptr(), 1, x.size());
    start.Record(first);
    for (int i = 0; i < kMiddle; ++i) {
      middle.emplace_back(t, t.device());
      ends.emplace_back(t, t.device());
      middle.back().Wait(start);
      middle.back().Fill(x.ptr() + i * 64, 2, 64);
      ends.back().Record(middle.back());
      last.Wait(ends.back());
    }
    held.Blocks(
        last, "a stream that waits for all of the middle waits for the first");
    held.Open();
    last.Sync();
    t.Expect(x.Holds(2), "all of the middle lies between first and last");
  });
}

// Order between two streams through a host thread that synchronises.
void ThroughTheHost(Test& t) {
  t.InEverySchedule([&] {
    const DeviceBlock x(t, t.device(), kSize);
    const RawStream a(t, t.device()), b(t, t.device());
    const RawEvent e(t, t.device());
    Threads threads;
    a.Delay(100'000);
    a.Fill(x.ptr(), 1, x.size());
    e.Record(a);
    threads.Start([&] {
      e.Sync();
      b.Fill(x.ptr(), 2, x.size());
    });
    threads.Join();
    b.Sync();
    t.Expect(x.Holds(2), "a thread that synchronised submits later work");
  });
}

// A host function in the middle of a chain, which processes the data.
void ThroughAHostFunction(Test& t) {
  t.InEverySchedule([&] {
    const DeviceBlock x(t, t.device(), kSize), y(t, t.device(), kSize);
    const HostBlock in(t, t.device(), kSize), out(t, t.device(), kSize);
    const RawStream a(t, t.device()), b(t, t.device()), c(t, t.device());
    const RawEvent e1(t, t.device()), e2(t, t.device());
    a.Delay(50'000);
    a.Fill(x.ptr(), 20, x.size());
    a.Copy(in.ptr(), x.ptr(), in.size(), DEVRT_COPY_D2H);
    e1.Record(a);
    b.Wait(e1);
    b.HostFunc([from = in.ptr(), to = out.ptr()](devrt_code) {
      for (uint64_t i = 0; i < kSize; ++i) {
        to[i] = static_cast<uint8_t>(from[i] + 1);
      }
    });
    e2.Record(b);
    c.Wait(e2);
    c.Copy(y.ptr(), out.ptr(), y.size(), DEVRT_COPY_H2D);
    c.Sync();
    b.Sync();
    t.Expect(y.Holds(21), "a host function takes part in order like any work");
  });
}

// Non-blocking, blocking (a bare wait), legacy (a bare record), non-blocking.
void ThroughTheLegacyRule(Test& t) {
  t.InEverySchedule([&] {
    const DeviceBlock x(t, t.device(), kSize);
    const RawStream a(t, t.device()), z(t, t.device());
    const RawStream blocking(t, t.device(), DEVRT_STREAM_BLOCKING);
    const RawStream legacy = Legacy(t);
    const RawEvent e1(t, t.device()), e2(t, t.device());
    HeldStream held(t, a);
    a.Fill(x.ptr(), 1, x.size());
    e1.Record(a);
    blocking.Wait(e1);
    e2.Record(legacy);
    z.Wait(e2);
    z.Fill(x.ptr(), 2, x.size());
    held.Blocks(e2, "a bare wait, then the legacy rule, then a bare record");
    held.Blocks(z, "and a wait for that");
    held.Open();
    z.Sync();
    t.Expect(x.Holds(2), "order passes all the way");
  });
}

constexpr TestCase kTests[] = {
    {"order.chain_through_empty_streams", "C26",
     "Order is transitive through streams without work.", &ThroughEmptyStreams,
     0, kNeedsGate},
    {"order.long_chain", "C26",
     "Order is transitive through 300 streams without work.", &LongChain, 0,
     kNeedsGate},
    {"order.long_chain_with_work", "C26 C27 C29",
     "Each link of a chain comes after the one before.", &LongChainWithWork},
    {"order.chain_across_devices", "C32 C26",
     "Order is transitive across devices.", &AcrossDevices, 0,
     kNeedsGate | kTwoDevices},
    {"order.data_across_devices", "C32",
     "A consumer on one device sees the producer's data of another.",
     &DataAcrossDevices, DEVRT_CAP_PINNED_HOST, kTwoDevices},
    {"order.chain_through_gone_objects", "C18 C34 C26",
     "Order is kept when the streams and events that made it are destroyed.",
     &ThroughGoneObjects, 0, kNeedsGate},
    {"order.one_event_all_the_way", "C27 C26",
     "An event that is recorded anew carries the order on.", &OneEventAllTheWay,
     0, kNeedsGate},
    {"order.fan_out_and_in", "C29 C26",
     "Many may wait for one event, and one stream for many.", &FanOutAndIn, 0,
     kNeedsGate},
    {"order.chain_through_the_host", "C36",
     "Work that a thread submits after a synchronisation comes after the "
     "synchronised work.",
     &ThroughTheHost},
    {"order.chain_through_a_host_function", "C41 C46",
     "A host function takes part in order like any other operation.",
     &ThroughAHostFunction, DEVRT_CAP_HOST_FUNC | DEVRT_CAP_PINNED_HOST},
    {"order.chain_through_the_legacy_rule", "C9 C26 C30",
     "Order is transitive through waits, the legacy rule and records, also "
     "where no stream has work.",
     &ThroughTheLegacyRule, 0, kNeedsGate},
};

}  // namespace
}  // namespace order_chain_tests

absl::Span<const TestCase> OrderChainTests() {
  return order_chain_tests::kTests;
}

}  // namespace devrt::cts
