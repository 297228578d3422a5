// SPDX-License-Identifier: Apache-2.0
//
// The model of random programs: each edge of docs/reference/semantics.md 1.14
// orders, and what is no edge does not.
#include <gtest/gtest.h>

#include <string>

#include "tests/cts/random_program.h"

namespace devrt::cts {
namespace {

constexpr char kRace[] = "it touches memory that something unordered touches";
constexpr char kStuck[] = "it may wait for a closed gate";
constexpr char kOthers[] = "another thread has touched its objects";
constexpr auto kNon = StreamKind::kNonBlocking;
constexpr auto kBlocking = StreamKind::kBlocking;

TEST(RandomModel, StreamOrdersItsOperations) {
  ByHand p;
  const int s = p.Stream(kNon), x = p.Block(Space::kDevice);
  const int out = p.Block(Space::kPinned);
  EXPECT_EQ(p.Fill(s, x, 7), "");
  EXPECT_EQ(p.Fill(s, x, 8), "");
  EXPECT_EQ(p.Copy(s, out, x), "");
  EXPECT_EQ(p.Read(out), kRace);
  EXPECT_EQ(p.Do(Act::kSyncStream, s), "");
  ASSERT_EQ(p.Read(out), "");
  ASSERT_EQ(p.last().found.size(), static_cast<size_t>(ByHand::kSlices));
  EXPECT_EQ(p.last().found[3], (Content{true, 8, 0}));
}

TEST(RandomModel, StreamsAreUnordered) {
  for (const StreamKind kind : {kNon, kBlocking}) {
    ByHand p;
    const int a = p.Stream(kind), b = p.Stream(kind);
    const int x = p.Block(Space::kDevice);
    EXPECT_EQ(p.Fill(a, x, 7), "");
    EXPECT_EQ(p.Fill(b, x, 8), kRace);
  }
}

// C8, C10: the default stream orders blocking and per-thread streams, both
// ways, and no others.
TEST(RandomModel, DefaultStreamOrders) {
  ByHand p;
  const int b = p.Stream(kBlocking), x = p.Block(Space::kDevice);
  EXPECT_EQ(p.Fill(b, x, 1), "");
  EXPECT_EQ(p.Fill(p.Default(), x, 2), "");
  EXPECT_EQ(p.Fill(p.PerThread(), x, 3), "");
  EXPECT_EQ(p.Fill(b, x, 4), kRace);  // two blocking streams
  EXPECT_EQ(p.Fill(p.Default(), x, 5), "");
  EXPECT_EQ(p.Fill(p.Stream(kNon), x, 6), kRace);
  EXPECT_EQ(p.Fill(b, x, 7), "");
}

// C28, C27: a wait takes what the event has at the call.
TEST(RandomModel, WaitTakesTheNewestCapture) {
  ByHand p;
  const int a = p.Stream(kNon), b = p.Stream(kNon), e = p.Event();
  const int x = p.Block(Space::kDevice);
  EXPECT_EQ(p.Do(Act::kWait, b, e), "");
  EXPECT_EQ(p.Fill(a, x, 1), "");
  EXPECT_EQ(p.Do(Act::kRecord, a, e), "");
  EXPECT_EQ(p.Fill(b, x, 2), kRace);
  EXPECT_EQ(p.Do(Act::kWait, b, e), "");
  EXPECT_EQ(p.Fill(b, x, 2), "");
  EXPECT_EQ(p.Fill(a, x, 3), kRace);  // one direction
}

// C25.
TEST(RandomModel, RecordCoversNothingLater) {
  ByHand p;
  const int a = p.Stream(kNon), b = p.Stream(kNon), e = p.Event();
  const int x = p.Block(Space::kDevice);
  EXPECT_EQ(p.Do(Act::kRecord, a, e), "");
  EXPECT_EQ(p.Fill(a, x, 1), "");
  EXPECT_EQ(p.Do(Act::kWait, b, e), "");
  EXPECT_EQ(p.Fill(b, x, 2), kRace);
}

// C26, C32: through a stream without work, and another device.
TEST(RandomModel, RecordCoversPendingWaits) {
  ByHand p;
  const int a = p.Stream(kNon), m = p.Stream(kNon, 1), b = p.Stream(kNon);
  const int e = p.Event(), f = p.Event(1), x = p.Block(Space::kDevice);
  EXPECT_EQ(p.Fill(a, x, 1), "");
  EXPECT_EQ(p.Do(Act::kRecord, a, e), "");
  EXPECT_EQ(p.Do(Act::kWait, m, e), "");
  EXPECT_EQ(p.Do(Act::kRecord, m, f), "");
  EXPECT_EQ(p.Do(Act::kWait, b, f), "");
  EXPECT_EQ(p.Fill(b, x, 2), "");
}

// C5: of one device.
TEST(RandomModel, DeviceSynchronisationCoversItsDeviceOnly) {
  ByHand p;
  const int a = p.Stream(kNon), x = p.Block(Space::kDevice);
  const int out = p.Block(Space::kPinned);
  EXPECT_EQ(p.Fill(a, x, 1), "");
  EXPECT_EQ(p.Copy(a, out, x), "");
  EXPECT_EQ(p.SyncDevice(1), "");
  EXPECT_EQ(p.Read(out), kRace);
  EXPECT_EQ(p.SyncDevice(0), "");
  EXPECT_EQ(p.Read(out), "");
}

// C48 to C52: blocking copies with a host side, and those within the host.
TEST(RandomModel, BlockingCopiesAreWaits) {
  ByHand p;
  const int s = p.Stream(kNon), x = p.Block(Space::kDevice);
  const int y = p.Block(Space::kDevice), out = p.Block(Space::kPinned);
  const int more = p.Block(Space::kPinned);
  EXPECT_EQ(p.Fill(s, x, 1), "");
  EXPECT_EQ(p.Copy(s, y, x, true), "");
  EXPECT_EQ(p.Free(x), kRace);  // within the device nobody waits
  EXPECT_EQ(p.Copy(s, out, y, true), "");
  EXPECT_EQ(p.Free(x), "");
  EXPECT_EQ(p.Read(out), "");
  EXPECT_EQ(p.Copy(s, more, out), "");
  EXPECT_EQ(p.Read(more), "");
}

// C53: a pageable source may be read at once, a pinned one is read late.
TEST(RandomModel, PageableSourcesAreCompleteAtTheCall) {
  ByHand p;
  const int s = p.Stream(kNon), x = p.Block(Space::kDevice);
  for (const Space space : {Space::kPlain, Space::kPinned}) {
    const int in = p.Block(space);
    EXPECT_EQ(p.HostFunc(s, -1, in, 5), "");
    EXPECT_EQ(p.Copy(s, x, in), space == Space::kPlain ? kRace : "");
  }
}

TEST(RandomModel, HostFunctionsAreOperations) {
  ByHand p;
  const int s = p.Stream(kNon), in = p.Block(Space::kPinned);
  const int out = p.Block(Space::kPinned);
  EXPECT_EQ(p.Write(in, 9), "");
  EXPECT_EQ(p.HostFunc(s, in, out, 5), "");
  EXPECT_EQ(p.last().found.at(1), (Content{true, 9 + 16, 1}));
  EXPECT_EQ(p.Write(in, 10), kRace);  // it is still to be read
  EXPECT_EQ(p.Do(Act::kPollStream, s), "");
  EXPECT_EQ(p.Write(in, 10), "");
}

// C61.
TEST(RandomModel, FreshMemoryHoldsNothing) {
  ByHand p;
  const int s = p.Stream(kNon), x = p.Block(Space::kDevice);
  const int out = p.Block(Space::kPinned);
  EXPECT_EQ(p.Copy(s, out, x), "undefined");
  EXPECT_EQ(p.Read(out), "undefined");
}

// ---- What queries answer

TEST(RandomModel, QueriesMayReturnEitherUntilAWait) {
  ByHand p;
  const int s = p.Stream(kNon), e = p.Event(), x = p.Block(Space::kDevice);
  EXPECT_EQ(p.AskStream(s), Truth::kTrue);
  EXPECT_EQ(p.AskEvent(e), Truth::kTrue);
  p.Fill(s, x, 1);
  p.Do(Act::kRecord, s, e);
  EXPECT_EQ(p.AskStream(s), Truth::kAny);
  EXPECT_EQ(p.AskEvent(e), Truth::kAny);
  p.Do(Act::kSyncEvent, -1, e);
  EXPECT_EQ(p.AskEvent(e), Truth::kTrue);
  // The record itself may still count as running.
  EXPECT_EQ(p.AskStream(s), Truth::kAny);
  p.Do(Act::kSyncStream, s);
  EXPECT_EQ(p.AskStream(s), Truth::kTrue);
}

// No item says that a wait is over in the instant in which its event is.
TEST(RandomModel, AWaitMayBeOverLaterThanItsEvent) {
  for (const StreamKind kind : {kNon, kBlocking}) {
    ByHand p;
    const int s = p.Stream(kNon), t = p.Stream(kind), e = p.Event();
    const int x = p.Block(Space::kDevice);
    p.Fill(s, x, 1);
    p.Do(Act::kRecord, s, e);
    p.Do(Act::kWait, t, e);
    EXPECT_EQ(p.AskStream(t), Truth::kAny);
    p.Do(Act::kSyncEvent, -1, e);
    EXPECT_EQ(p.AskStream(t), Truth::kSoon);
    EXPECT_EQ(p.AskStream(t), Truth::kTrue);
    p.Do(Act::kWait, t, e);
    EXPECT_EQ(p.AskStream(t), Truth::kSoon);
    p.Do(Act::kWait, t, e);
    p.Do(Act::kSyncStream, t);
    EXPECT_EQ(p.AskStream(t), Truth::kTrue);
    p.Do(Act::kWait, t, e);
    p.Fill(t, x, 2);
    EXPECT_EQ(p.AskStream(t), Truth::kAny);
  }
}

// C19, C24 to C27, C30, C36.
TEST(RandomModel, GatesMakeQueriesFalse) {
  ByHand p;
  const int s = p.Stream(kBlocking), free = p.Stream(kNon);
  const int before = p.Event(), after = p.Event(), all = p.Event();
  p.Do(Act::kRecord, s, before);
  EXPECT_EQ(p.Hold(0, s), "");
  p.Do(Act::kRecord, s, after);
  p.Do(Act::kRecord, p.Default(), all);
  p.Do(Act::kRecord, free, p.Event());
  EXPECT_EQ(p.AskStream(s), Truth::kFalse);
  EXPECT_EQ(p.AskStream(p.Default()), Truth::kFalse);
  EXPECT_EQ(p.AskStream(free), Truth::kAny);
  EXPECT_EQ(p.AskEvent(before), Truth::kAny);
  EXPECT_EQ(p.AskEvent(after), Truth::kFalse);
  EXPECT_EQ(p.AskEvent(all), Truth::kFalse);
  EXPECT_EQ(p.Open(0), "");
  EXPECT_EQ(p.AskStream(s), Truth::kAny);
  EXPECT_EQ(p.Hold(0, s), "it was opened");
}

TEST(RandomModel, NothingWaitsForAClosedGate) {
  ByHand p;
  const int s = p.Stream(kBlocking), free = p.Stream(kNon);
  const int plain = p.Block(Space::kPlain), x = p.Block(Space::kDevice);
  const int e = p.Event();
  p.Write(plain, 1);
  p.Hold(0, s);
  p.Do(Act::kRecord, s, e);
  EXPECT_EQ(p.Do(Act::kSyncStream, s), kStuck);
  EXPECT_EQ(p.Do(Act::kPollEvent, -1, e), kStuck);
  EXPECT_EQ(p.SyncDevice(0), kStuck);
  EXPECT_EQ(p.Do(Act::kSyncStream, p.Default()), kStuck);
  EXPECT_EQ(p.Copy(s, x, plain), kStuck);
  EXPECT_EQ(p.SyncDevice(1), "");
  EXPECT_EQ(p.Do(Act::kSyncStream, free), "");
  EXPECT_EQ(p.Copy(free, x, plain), "");
  EXPECT_EQ(p.Do(Act::kWait, free, e), "");
  EXPECT_EQ(p.Do(Act::kSyncStream, free), kStuck);
  EXPECT_EQ(p.Open(0), "");
  EXPECT_EQ(p.SyncDevice(0), "");
}

TEST(RandomModel, FreesMayWaitForADevice) {
  for (const bool waits : {false, true}) {
    Limits limits = Everything();
    limits.free_waits = waits;
    ByHand p(false, limits);
    const int x = p.Block(Space::kDevice);
    p.Hold(0, p.Stream(kNon));
    EXPECT_EQ(p.Free(x), waits ? kStuck : "");
  }
}

// C35.
TEST(RandomModel, ElapsedTimes) {
  ByHand p;
  const int s = p.Stream(kNon), b = p.Event(), e = p.Event();
  p.Do(Act::kRecord, s, b);
  p.Do(Act::kRecord, s, e);
  EXPECT_NE(p.Do(Act::kElapsed, -1, b, e), "");
  p.Do(Act::kSyncStream, s);
  EXPECT_EQ(p.Do(Act::kElapsed, -1, b, e), "");
  EXPECT_EQ(p.last().truth, Truth::kTrue);
  EXPECT_EQ(p.Do(Act::kElapsed, -1, e, b), "");
  EXPECT_EQ(p.last().truth, Truth::kFalse);
  p.Hold(0, s);
  p.Do(Act::kRecord, s, e);
  EXPECT_EQ(p.Do(Act::kElapsed, -1, b, e), "");
  EXPECT_EQ(p.last().truth, Truth::kError);
}

// ---- Threads

TEST(RandomModel, ThreadsThatTakeTurnsAreOrdered) {
  ByHand p;
  const int in = p.Block(Space::kPinned);
  EXPECT_EQ(p.Write(in, 1), "");
  p.As(1);
  EXPECT_EQ(p.Write(in, 2), "");
  const int mine = p.PerThread();
  p.As(0);
  EXPECT_EQ(p.Do(Act::kSyncStream, mine), "there is no such stream");
}

TEST(RandomModel, ThreadsShareNothingBetweenBarriers) {
  ByHand p(true);
  const int s = p.Stream(kNon), in = p.Block(Space::kPinned);
  EXPECT_EQ(p.Barrier(), "");
  EXPECT_EQ(p.Write(in, 1), "");
  p.As(1);
  EXPECT_EQ(p.Do(Act::kSyncStream, s), "");
  EXPECT_NE(p.Write(in, 2), "");
  EXPECT_EQ(p.SyncDevice(0), "");
  p.As(0);
  EXPECT_EQ(p.Do(Act::kSyncStream, s), kOthers);
  EXPECT_EQ(p.Barrier(), "");
  EXPECT_EQ(p.Do(Act::kSyncStream, s), "");
  p.As(1);
  EXPECT_EQ(p.Write(in, 2), "");
}

TEST(RandomModel, RepairDropsStepsWithoutTheirInput) {
  ByHand p;
  const int s = p.Stream(kNon), x = p.Block(Space::kDevice);
  const int out = p.Block(Space::kPinned);
  p.Fill(s, x, 1);
  p.Copy(s, out, x, true);
  p.Read(out);
  Program program = p.program();
  const Program same = Repaired(program, Everything());
  EXPECT_EQ(ToText(same), ToText(program));
  // Without the fill there is nothing to copy, nor to read.
  program.steps.erase(program.steps.begin() + 3);
  EXPECT_EQ(Repaired(program, Everything()).steps.size(), 3u);
}

}  // namespace
}  // namespace devrt::cts
