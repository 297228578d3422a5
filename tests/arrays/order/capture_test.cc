// SPDX-License-Identifier: Apache-2.0
//
// Streams that another library captures into a graph (E44, E45):
// what arrays ask of the backend then.

#include <memory>
#include <optional>

#include "devrt/arrays/operations.h"
#include "devrt/streams/copy.h"
#include "tests/arrays/order/capture_fixture.h"

namespace devrt::testing {
namespace {

TEST_F(CapturesTest, CompleteWorkBeforeTheCaptureIsIgnored) {
  Stream a = NewStream();
  Stream b = NewStream();
  const Array x = Filled(dev(), 1);
  {
    const StreamGuard on(a);
    ASSERT_OK(x.Fill(2));
    ASSERT_OK(x.Ready());
  }
  const StreamGuard on(b);
  Begin(b);
  EXPECT_OK(x.Fill(3));
  EXPECT_OK(Add(x, x).status());
  Expect(0, 0);
}

// E45.
TEST_F(CapturesTest, PendingWorkBeforeTheCaptureIsRefused) {
  Stream a = NewStream();
  Stream b = NewStream();
  Stream c = NewStream();
  const Array x = Filled(dev(), 1);
  const Array y = Filled(dev(), 1);
  ASSERT_OK(Spin(a, kLong));
  {
    const StreamGuard on(a);
    ASSERT_OK(x.Fill(2));
  }
  {
    // There is an event by now that could be asked.
    const StreamGuard on(c);
    ASSERT_OK(y.CopyFrom(x));
  }
  const StreamGuard on(b);
  Begin(b);
  EXPECT_STATUS(x.Fill(3), kFailedPrecondition, "before the capture begins");
  EXPECT_STATUS(Add(x, 1).status(), kFailedPrecondition, "is capturing");
  EXPECT_OK(Array::Empty({4}, kInt32, dev()).status());
  Expect(0, 0);
  End(b);
  EXPECT_OK(x.Fill(3));
  ASSERT_OK(x.Ready());
  EXPECT_TRUE(IsAll(x, 3));
}

// E45: it had not been asked, and is.
TEST_F(CapturesTest, FinishedWorkIsQueriedAndDropped) {
  Stream a = NewStream();
  Stream b = NewStream();
  Stream c = NewStream();
  const Array x = Filled(dev(), 1);
  const Array y = Filled(dev(), 1);
  {
    const StreamGuard on(a);
    ASSERT_OK(x.Fill(2));
    ASSERT_OK(y.Fill(2));
  }
  {
    // An event is behind it, and later work that never ends.
    const StreamGuard on(c);
    ASSERT_OK(Array(y).CopyFrom(x));
  }
  Finish(a);
  Finish(c);
  const StreamGuard on(b);
  Begin(b);
  EXPECT_OK(x.Fill(3));
  EXPECT_OK(y.Fill(3));
  Expect(0, 0);
  // Only the array's event tells of earlier work on its own stream.
  const Array z = Filled(dev(), 1);
  {
    const StreamGuard on_a(a);
    ASSERT_OK(z.Fill(2));
  }
  Finish(a);
  BeginBare(a);
  EXPECT_STATUS(z.Fill(3), kFailedPrecondition, "before the capture begins");
  Expect(0, 0);
  End(a);
  EXPECT_OK(z.Fill(3));
}

TEST_F(CapturesTest, UsesWithinACaptureBecomeEdges) {
  Stream a = NewStream();
  Stream b = NewStream();
  const Array of_b = Warm(b);
  Begin(a);
  std::optional<Array> x;
  {
    // New memory, too, is used by the capture first.
    const StreamGuard on(a);
    x = NewArray(dev());
    EXPECT_OK(x->Fill(7));
    Expect(0, 0);
  }
  Join(b, a);
  const StreamGuard on(b);
  const Array y = NewArray(dev());
  EXPECT_OK(y.OrderBefore(b));
  Expect(0, 0);
  EXPECT_OK(x->OrderBefore(b));
  Expect(1, 1);
}

// An edge between two captures makes both invalid (C84).
TEST_F(CapturesTest, UsesOfOtherCapturesAreNoEdges) {
  Stream a = NewStream();
  Stream b = NewStream();
  const Array x = Filled(dev(), 1);
  const Array y = Filled(dev(), 1);
  {
    const StreamGuard on(a);
    Begin(a);
    EXPECT_OK(x.Fill(2));
    End(a);
    Begin(a);
    EXPECT_OK(y.Fill(2));
  }
  const StreamGuard on(b);
  Begin(b);
  EXPECT_OK(x.Fill(3));  // of the capture of `a` that has ended
  EXPECT_OK(y.Fill(3));  // of the one that it has now
  Expect(0, 0);
}

// The lender's stream, which goes on with it, comes behind it in the graph too.
TEST_F(CapturesTest, TheEndOfBorrowedMemoryIsAnEdge) {
  Stream a = NewStream();
  Stream b = NewStream();
  const Array memory = Filled(dev(), 1);
  Begin(b);
  Begin(a);
  Join(b, a);
  {
    PointerOptions options;
    options.stream = a;
    const StreamGuard on(b);
    const Array x = Must(
        Array::FromPointer(memory.data(), memory.shape(), kInt32, options));
    EXPECT_OK(x.Fill(2));
    Expect(1, 1);
  }
  Expect(1, 1);
}

// Work that runs has nothing to wait for: what is captured does not run.
TEST_F(CapturesTest, EagerWorkDoesNotWaitForCapturedUses) {
  Stream a = NewStream();
  Stream b = NewStream();
  const Array x = Filled(dev(), 1);
  {
    const StreamGuard on(a);
    Begin(a);
    EXPECT_OK(x.Fill(2));
  }
  const StreamGuard on(b);
  EXPECT_OK(x.Fill(3));
  EXPECT_THAT(x.IsReady(), IsOkAndHolds(false));
  g_questions = 0;
  End(a);
  Begin(a);
  // Of an array that ends meanwhile nothing is asked either.
  { const Array view = x.Transpose(); }
  Expect(0, 0);
}

// E44.
TEST_F(CapturesTest, TheHostDoesNotWaitForACapture) {
  Stream a = NewStream();
  Stream b = NewStream();
  const Array x = Filled(Place::Pinned(dev()), 1);
  const Array y = Filled(dev(), 2);
  ASSERT_OK(Spin(a, kLong));
  {
    const StreamGuard on(a);
    ASSERT_OK(x.CopyFrom(y, true));
  }
  {
    // With an event behind it.
    const StreamGuard on(b);
    ASSERT_OK(y.CopyFrom(x, true));
  }
  Begin(a);
  EXPECT_STATUS(x.Ready(), kFailedPrecondition, "is capturing");
  EXPECT_STATUS(x.IsReady().status(), kFailedPrecondition, "is capturing");
  EXPECT_STATUS(x.To(Place::Host()).status(), kFailedPrecondition,
                "is capturing");
  Expect(0, 0);
  End(a);
  EXPECT_OK(x.Ready());
  EXPECT_TRUE(IsAll(x, 2));
}

// Owners that are kept are asked for so that no capture minds, and never on a
// stream that captures.
TEST_F(CapturesTest, KeptOwnersAreQueriedOutsideCaptures) {
  Stream a = NewStream();
  Stream b = NewStream();
  const Array memory = Filled(dev(), 1);
  const Array plain = Must(Array::Zeros({4}, kInt32, Place::Host()));
  const auto lend = [&](const std::shared_ptr<int>& owner) {
    PointerOptions options;
    options.owner = owner;
    return Must(
        Array::FromPointer(memory.data(), memory.shape(), kInt32, options));
  };
  auto of_a = std::make_shared<int>(0);
  auto of_b = std::make_shared<int>(0);
  std::optional<Array> x = lend(of_a);
  ASSERT_OK(x->RecordUse(a));
  {
    const StreamGuard on(b);
    EXPECT_OK(lend(of_b).Fill(2));
  }
  Finish(b);
  BeginBare(a);
  x.reset();
  // Plain memory, on whatever thread.
  for (int i = 0; i < 4; ++i) EXPECT_OK(plain.Fill(3));
  EXPECT_EQ(of_a.use_count(), 2);
  EXPECT_EQ(of_b.use_count(), 1);
  Expect(0, 0);
  // Another stream may have captured a use of the memory.
  End(a);
  for (int i = 0; i < 4; ++i) EXPECT_OK(plain.Fill(3));
  EXPECT_EQ(of_a.use_count(), 2);
  DestroyGraphs();
  for (int i = 0; i < 4; ++i) EXPECT_OK(plain.Fill(3));
  EXPECT_EQ(of_a.use_count(), 1);
}

// A checkpoint that is recorded in a capture stands for nothing.
TEST_F(CapturesTest, NoCheckpointIsRecordedInACapture) {
  Stream a = NewStream();
  Stream b = NewStream();
  const Array x = Filled(dev(), 1);
  void* block = nullptr;
  {
    const StreamGuard on(b);
    block = Must(AllocateMemory(b, 4096));
    ASSERT_OK(RecordStream(block, a));
    ASSERT_OK(FillAsync(a, block, 1, 4096));
  }
  BeginBare(a);
  ASSERT_OK(FreeMemory(block));
  // devrt does not query the capturing stream for the block.
  for (int i = 0; i < 4; ++i) {
    void* const next = Must(AllocateMemory(b, 4096));
    EXPECT_NE(next, block);
    ASSERT_OK(FreeMemory(next));
  }
  Expect(0, 0);
  // It is given back when the stream can be asked again.
  End(a);
  Finish(a);
  for (int i = 0; i < 4; ++i)
    ASSERT_OK(FreeMemory(Must(AllocateMemory(b, 64))));
  EXPECT_EQ(Must(AllocateMemory(b, 4096)), block);
  ASSERT_OK(FreeMemory(block));
}

// ---- A backend that tells no captures apart ---------------------------------

TEST_F(CapturesTest, WithoutNumbersEdgesAreRefused) {
  SetTable(&kOldCapture);
  Stream a = NewStream();
  Stream b = NewStream();
  const Array memory = Filled(dev(), 1);
  const Array x =
      Must(Array::FromPointer(memory.data(), memory.shape(), kInt32));
  {
    const StreamGuard on(a);
    Begin(a);
    EXPECT_OK(x.Fill(2));
  }
  const StreamGuard on(b);
  Begin(b);
  EXPECT_STATUS(x.Fill(3), kFailedPrecondition, "one stream inside of it");
  Expect(0, 0);
  End(a);
  EXPECT_OK(x.Fill(3));
  Expect(0, 0);
}

}  // namespace
}  // namespace devrt::testing
