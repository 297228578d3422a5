// SPDX-License-Identifier: Apache-2.0
//
// Streams that another library captures into a graph (interop.md, O5 and O6):
// what arrays ask of the backend then.

#include <memory>
#include <optional>

#include "devrt/arrays/operations.h"
#include "tests/arrays/order/capture_fixture.h"

namespace devrt::testing {
namespace {

TEST_F(CapturesTest, WhatIsCompleteIsNoMatter) {
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

// O6.
TEST_F(CapturesTest, WhatIsNotCompleteIsRefused) {
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

TEST_F(CapturesTest, UsesOfOneCaptureBecomeEdges) {
  Stream a = NewStream();
  Stream b = NewStream();
  Begin(a);
  std::optional<Array> x;
  {
    // New memory, too, is used by the capture first.
    const StreamGuard on(a);
    x = NewArray(dev());
    EXPECT_OK(x->Fill(7));
    Expect(0, 0);
  }
  Begin(b);
  const StreamGuard on(b);
  const Array y = NewArray(dev());
  EXPECT_OK(y.OrderBefore(b));
  Expect(0, 0);
  EXPECT_OK(x->OrderBefore(b));
  Expect(1, 1);
}

// Work that runs has nothing to wait for: what is captured does not run.
TEST_F(CapturesTest, CapturedUsesHoldUpNobodyElse) {
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

// O5.
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

// Owners that are kept are not asked for by an operation of the capture.
TEST_F(CapturesTest, KeptOwnersStayKept) {
  Stream a = NewStream();
  Stream b = NewStream();
  const Array memory = Filled(dev(), 1);
  auto owner = std::make_shared<int>(0);
  ASSERT_OK(Spin(a, kLong));
  {
    PointerOptions options;
    options.owner = owner;
    const StreamGuard on(a);
    const Array x = Must(
        Array::FromPointer(memory.data(), memory.shape(), kInt32, options));
    ASSERT_OK(x.Fill(2));
  }
  const Array y = Filled(dev(), 1);
  EXPECT_EQ(owner.use_count(), 2);
  const StreamGuard on(b);
  Begin(b);
  EXPECT_OK(y.Fill(2));
  const Array z = NewArray(dev());
  EXPECT_OK(z.Fill(2));
  Expect(0, 0);
}

}  // namespace
}  // namespace devrt::testing
