// SPDX-License-Identifier: Apache-2.0
//
// The legacy rule: the default stream and blocking streams of one device are
// ordered (C8, C9); other streams are not (C10, C11, C13).
#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "absl/strings/str_cat.h"
#include "cts/api_block.h"
#include "cts/catalog.h"
#include "cts/held_stream.h"
#include "cts/objects.h"
#include "cts/ordered_op.h"

namespace devrt::cts {
namespace stream_legacy_tests {
namespace {

constexpr uint64_t kSize = 4096;

// ---- C8

void LegacyWaitsForBlocking(Test& t) {
  for (const uint32_t device : t.devices()) {
    t.InEverySchedule([&] {
      const RawStream legacy = Legacy(t, device), b = Blocking(t, device);
      ExpectOrdered(t, b, legacy);
    });
  }
}

void BlockingWaitsForLegacy(Test& t) {
  for (const uint32_t device : t.devices()) {
    t.InEverySchedule([&] {
      const RawStream legacy = Legacy(t, device), b = Blocking(t, device);
      ExpectOrdered(t, legacy, b, [&] {
        t.Expect(!b.Query(), "the blocking stream waits for the legacy one");
      });
    });
  }
}

// Several blocking streams with earlier work, and several with later work.
void RuleCoversEveryBlockingStream(Test& t) {
  constexpr int kStreams = 4;
  t.InEverySchedule([&] {
    const DeviceBlock x(t, t.device(), kStreams), y(t, t.device(), kStreams);
    const DeviceBlock z(t, t.device(), kStreams * kStreams);
    const RawStream legacy = Legacy(t);
    std::vector<RawStream> before, after;
    for (int i = 0; i < kStreams; ++i) {
      before.push_back(Blocking(t));
      after.push_back(Blocking(t));
    }
    for (int i = 0; i < kStreams; ++i) {
      before[i].Delay(1'000'000);
      before[i].Fill(x.ptr() + i, static_cast<uint8_t>(i + 1), 1);
    }
    legacy.Copy(y.ptr(), x.ptr(), kStreams, DEVRT_COPY_D2D);
    for (int i = 0; i < kStreams; ++i) {
      after[i].Copy(z.ptr() + kStreams * i, y.ptr(), kStreams, DEVRT_COPY_D2D);
    }
    for (const RawStream& s : after) s.Sync();
    const std::vector<uint8_t> bytes = z.Read();
    for (size_t i = 0; i < bytes.size(); ++i) {
      t.Equal(bytes[i], i % kStreams + 1,
              "what went from blocking streams through the legacy stream");
    }
  });
}

// k1(s), k2(legacy), k3(s): all three are ordered, not only k1 and k3.
void RuleHoldsForOneStream(Test& t) {
  t.InEverySchedule([&] {
    const DeviceBlock x(t, t.device(), kSize), y(t, t.device(), kSize);
    const DeviceBlock z(t, t.device(), kSize);
    const RawStream legacy = Legacy(t), s = Blocking(t);
    s.Delay(1'000'000);
    s.Fill(x.ptr(), 1, kSize);
    legacy.Delay(1'000'000);
    legacy.Copy(y.ptr(), x.ptr(), kSize, DEVRT_COPY_D2D);
    s.Copy(z.ptr(), y.ptr(), kSize, DEVRT_COPY_D2D);
    s.Sync();
    t.Expect(z.Holds(1), "k1, k2 and k3 ran in this order");
  });
}

void ApiKeepsTheRule(Test& t) {
  t.InEverySchedule([&] {
    const Device device = t.cpp_device();
    const ApiBlock x(t, device, kSize), y(t, device, kSize);
    const ApiBlock z(t, device, kSize);
    StreamOptions options;
    options.blocking = true;
    const Stream s = t.Require(Stream::Create(device, options), "stream");
    const StreamRef legacy = DefaultStream(device);
    t.Ok(FillAsync(s, x.ptr(), 1, kSize), "fill");
    t.Ok(CopyAsync(legacy, y.ptr(), x.ptr(), kSize), "copy");
    t.Ok(CopyAsync(s, z.ptr(), y.ptr(), kSize), "copy");
    t.Ok(s.Synchronize(), "synchronise");
    t.Expect(z.Holds(1), "blocking streams of devrt keep the rule");
  });
}

// ---- C9

// Between the work of two blocking streams there is only a legacy operation on
// other data.
void OneLegacyOperationIsABarrier(Test& t) {
  t.InEverySchedule([&] {
    for (const OpKind kind : OrderedOp::Kinds(t)) {
      const DeviceBlock x(t, t.device(), kSize), y(t, t.device(), kSize);
      const RawStream legacy = Legacy(t);
      const RawStream a = Blocking(t), b = Blocking(t);
      OrderedOp op(t, kind, t.device());
      {
        HeldStream held(t, a);
        a.Fill(x.ptr(), 1, kSize);
        op.Enqueue(legacy);
        b.Copy(y.ptr(), x.ptr(), kSize, DEVRT_COPY_D2D);
        held.Blocks(b, absl::StrCat("a blocking stream waits for a ",
                                    ToString(kind), " of the legacy stream"));
      }
      b.Sync();
      t.Expect(y.Holds(1), absl::StrCat("a ", ToString(kind),
                                        " of the legacy stream orders two "
                                        "blocking streams"));
    }
  });
}

void LegacyWaitIsABarrier(Test& t) {
  t.InEverySchedule([&] {
    const DeviceBlock x(t, t.device(), kSize), y(t, t.device(), kSize);
    const RawStream legacy = Legacy(t), other(t, t.device());
    const RawStream a = Blocking(t), b = Blocking(t);
    const RawEvent e(t, t.device());
    HeldStream held(t, a);
    a.Fill(x.ptr(), 1, kSize);
    other.Fill(y.ptr(), 2, kSize);
    e.Record(other);
    legacy.Wait(e);
    b.Copy(y.ptr(), x.ptr(), kSize, DEVRT_COPY_D2D);
    held.Blocks(b,
                "a wait of the legacy stream comes after earlier work of "
                "blocking streams");
    held.Open();
    b.Sync();
    t.Expect(y.Holds(1), "it orders two blocking streams");
  });
}

// Work that the legacy stream waits for comes before later work of blocking
// streams.
void LegacyWaitHoldsBlockingStreams(Test& t) {
  t.InEverySchedule([&] {
    const DeviceBlock x(t, t.device(), kSize), y(t, t.device(), kSize);
    const RawStream legacy = Legacy(t), other(t, t.device());
    const RawStream b = Blocking(t);
    const RawEvent e(t, t.device());
    HeldStream held(t, other);
    other.Fill(x.ptr(), 1, kSize);
    e.Record(other);
    legacy.Wait(e);
    b.Copy(y.ptr(), x.ptr(), kSize, DEVRT_COPY_D2D);
    held.Blocks(b, "a blocking stream waits for a wait of the legacy stream");
    held.Open();
    b.Sync();
    t.Expect(y.Holds(1), "it sees what the legacy stream waited for");
  });
}

// A wait of a blocking stream is earlier work, also without an operation behind
// it.
void WaitOfABlockingStreamCounts(Test& t) {
  t.InEverySchedule([&] {
    const DeviceBlock x(t, t.device(), kSize), y(t, t.device(), kSize);
    const RawStream legacy = Legacy(t), other(t, t.device());
    const RawStream b = Blocking(t);
    const RawEvent e(t, t.device()), done(t, t.device());
    HeldStream held(t, other);
    other.Fill(x.ptr(), 1, kSize);
    e.Record(other);
    b.Wait(e);
    legacy.Copy(y.ptr(), x.ptr(), kSize, DEVRT_COPY_D2D);
    done.Record(legacy);
    held.Blocks(done,
                "the legacy stream waits for a wait of a blocking stream");
    held.Open();
    legacy.Sync();
    t.Expect(y.Holds(1), "it sees what the blocking stream waited for");
  });
}

// ---- C10

void NonBlockingDoesNotWaitForLegacy(Test& t) {
  for (const uint32_t device : t.devices()) {
    const DeviceBlock x(t, device, kSize);
    const RawStream legacy = Legacy(t, device), s(t, device);
    HeldStream held(t, legacy);
    s.Fill(x.ptr(), 1, kSize);
    held.LetsPass(s, "a non-blocking stream does not wait for the legacy one");
  }
}

void LegacyDoesNotWaitForNonBlocking(Test& t) {
  for (const uint32_t device : t.devices()) {
    const DeviceBlock x(t, device, kSize);
    const RawStream legacy = Legacy(t, device), s(t, device);
    const RawEvent done(t, device);
    HeldStream held(t, s);
    legacy.Fill(x.ptr(), 1, kSize);
    // Not a query of the stream, which may cover more (C21).
    done.Record(legacy);
    held.LetsPass(done,
                  "the legacy stream does not wait for a non-blocking one");
  }
}

void LegacyAndNonBlockingReachBothOrders(Test& t) {
  t.Reaches({"1", "2"}, [&] {
    const DeviceBlock x(t, t.device(), kSize);
    const RawStream legacy = Legacy(t), s(t, t.device());
    legacy.Fill(x.ptr(), 1, kSize);
    s.Fill(x.ptr(), 2, kSize);
    s.Sync();
    legacy.Sync();
    return absl::StrCat(x.Read()[0]);
  });
}

// Streams of devrt are non-blocking unless the program asks otherwise.
void StreamsOfTheApiAreNonBlocking(Test& t) {
  const ApiBlock x(t, t.cpp_device(), kSize);
  const RawStream legacy = Legacy(t);
  const RawEvent held(t, t.device());
  const Stream s = t.Require(Stream::Create(t.cpp_device()), "stream");
  Gate gate(t);
  gate.Hold(legacy);
  held.Record(legacy);
  t.Ok(FillAsync(s, x.ptr(), 1, kSize), "fill");
  t.Expect(t.Eventually([&] { return t.Require(s.Query(), "query"); }),
           "the stream goes on");
  t.Expect(!held.Query(), "the legacy stream is still held");
}

// ---- C11

void BlockingStreamsReachBothOrders(Test& t) {
  t.Reaches({"1", "2"}, [&] {
    const DeviceBlock x(t, t.device(), kSize);
    const RawStream a = Blocking(t), b = Blocking(t);
    a.Fill(x.ptr(), 1, kSize);
    b.Fill(x.ptr(), 2, kSize);
    a.Sync();
    b.Sync();
    return absl::StrCat(x.Read()[0]);
  });
}

void LegacyRecordOrdersThem(Test& t) {
  t.InEverySchedule([&] {
    const DeviceBlock x(t, t.device(), kSize);
    const RawStream a = Blocking(t), b = Blocking(t);
    const RawEvent e(t, t.device());
    a.Delay(500'000);
    a.Fill(x.ptr(), 1, kSize);
    e.Record(Legacy(t));
    b.Fill(x.ptr(), 2, kSize);
    b.Sync();
    a.Sync();
    t.Expect(x.Holds(2),
             "with a record in the legacy stream between them "
             "there is one order");
  });
}

void BlockingStreamHoldsNoOther(Test& t) {
  const DeviceBlock x(t, t.device(), kSize);
  const RawStream a = Blocking(t), b = Blocking(t);
  HeldStream held(t, a);
  b.Fill(x.ptr(), 1, kSize);
  held.LetsPass(b, "a blocking stream does not wait for another one");
}

// ---- C13

void DevicesHaveTheirOwn(Test& t) {
  for (const uint32_t kind : {DEVRT_STREAM_LEGACY, DEVRT_STREAM_PER_THREAD}) {
    const DeviceBlock x(t, t.device(1), kSize);
    const RawStream here = RawStream::Default(t, t.device(0), kind);
    const RawStream there = RawStream::Default(t, t.device(1), kind);
    const RawStream blocking = Blocking(t, t.device(1));
    HeldStream held(t, here);
    there.Fill(x.ptr(), 1, 1);
    blocking.Fill(x.ptr() + 1, 1, 1);
    held.LetsPass(there, "the default stream of another device goes on");
    held.LetsPass(blocking, "a blocking stream of another device goes on");
  }
}

void DevicesReachBothOrders(Test& t) {
  t.Reaches({"01", "10"}, [&] {
    const auto log = std::make_shared<std::string>();
    const auto mutex = std::make_shared<std::mutex>();
    for (const size_t i : {size_t{0}, size_t{1}}) {
      Legacy(t, t.device(i)).HostFunc([=](devrt_code) {
        const std::lock_guard<std::mutex> lock(*mutex);
        *log += absl::StrCat(i);
      });
    }
    Legacy(t, t.device(0)).Sync();
    Legacy(t, t.device(1)).Sync();
    const std::lock_guard<std::mutex> lock(*mutex);
    return *log;
  });
}

constexpr TestCase kTests[] = {
    {"stream.legacy_waits_for_blocking", "C8",
     "An operation in the legacy stream starts after all earlier work of "
     "blocking streams.",
     &LegacyWaitsForBlocking, 0, kNeedsGate},
    {"stream.blocking_waits_for_legacy", "C8",
     "An operation in the legacy stream completes before later work of "
     "blocking streams starts.",
     &BlockingWaitsForLegacy, 0, kNeedsGate},
    {"stream.rule_covers_every_blocking_stream", "C8",
     "The legacy rule holds for every blocking stream of the device.",
     &RuleCoversEveryBlockingStream},
    {"stream.rule_holds_for_one_stream", "C8",
     "A blocking stream, the legacy stream and the blocking stream again run "
     "in this order.",
     &RuleHoldsForOneStream},
    {"stream.api_keeps_the_rule", "C8",
     "Blocking streams and default streams of devrt's API keep the legacy "
     "rule.",
     &ApiKeepsTheRule},
    {"stream.one_legacy_operation_is_a_barrier", "C9",
     "The legacy rule covers every kind of operation.",
     &OneLegacyOperationIsABarrier, 0, kNeedsGate},
    {"stream.legacy_wait_is_a_barrier", "C9",
     "A wait in the legacy stream starts after earlier work of blocking "
     "streams.",
     &LegacyWaitIsABarrier, 0, kNeedsGate},
    {"stream.legacy_wait_holds_blocking_streams", "C9",
     "A wait in the legacy stream completes before later work of blocking "
     "streams starts.",
     &LegacyWaitHoldsBlockingStreams, 0, kNeedsGate},
    {"stream.wait_of_a_blocking_stream_counts", "C9",
     "A wait in a blocking stream is earlier work for the legacy stream.",
     &WaitOfABlockingStreamCounts, 0, kNeedsGate},
    {"stream.non_blocking_does_not_wait_for_legacy", "C10",
     "A non-blocking stream ignores the legacy stream.",
     &NonBlockingDoesNotWaitForLegacy, 0, kNeedsGate},
    {"stream.legacy_does_not_wait_for_non_blocking", "C10",
     "The legacy stream ignores non-blocking streams.",
     &LegacyDoesNotWaitForNonBlocking, 0, kNeedsGate},
    {"stream.legacy_and_non_blocking_reach_both_orders", "C10",
     "The legacy stream and a non-blocking stream are unordered.",
     &LegacyAndNonBlockingReachBothOrders},
    {"stream.of_the_api_are_non_blocking", "C10",
     "Streams of devrt's API are non-blocking unless asked otherwise.",
     &StreamsOfTheApiAreNonBlocking, 0, kNeedsGate},
    {"stream.blocking_streams_reach_both_orders", "C11",
     "Two blocking streams are unordered.", &BlockingStreamsReachBothOrders},
    {"stream.legacy_record_orders_blocking_streams", "C11 C9",
     "With a legacy operation between them two blocking streams have one "
     "order.",
     &LegacyRecordOrdersThem},
    {"stream.blocking_stream_holds_no_other", "C11",
     "A blocking stream keeps no other blocking stream waiting.",
     &BlockingStreamHoldsNoOther, 0, kNeedsGate},
    {"stream.devices_have_their_own_default_streams", "C13",
     "Default streams of different devices are unordered.",
     &DevicesHaveTheirOwn, 0, kTwoDevices | kNeedsGate},
    {"stream.default_streams_of_devices_reach_both_orders", "C13",
     "Default streams of different devices run in any order.",
     &DevicesReachBothOrders, DEVRT_CAP_HOST_FUNC, kTwoDevices},
};

}  // namespace
}  // namespace stream_legacy_tests

absl::Span<const TestCase> StreamLegacyTests() {
  return stream_legacy_tests::kTests;
}

}  // namespace devrt::cts
