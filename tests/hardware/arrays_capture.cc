// SPDX-License-Identifier: Apache-2.0
//
// Arrays on streams that another library captures into a graph (interop.md,
// O5 and O6): the driver itself says whether the capture stayed valid.

#include "tests/hardware/arrays_test.h"
#include "tests/hardware/capture.h"

namespace devrt::hardware {
namespace {

using ::testing::HasSubstr;

class ArraysCapture : public ArraysTest {
 protected:
  void SetUp() override {
    ArraysTest::SetUp();
    if (IsSkipped()) return;
    if (BackendName() != "cuda") GTEST_SKIP() << "captures are CUDA's";
    Must(Add(Ints(1), Ints(2)));  // kernels are loaded
  }
  Array Ints(int value) const {
    const Array x = Must(Array::Full({64}, kInt32, value, dev()));
    Must(x.Ready());
    return x;
  }
};

TEST_F(ArraysCapture, WhatIsCompleteIsNoMatter) {
  const Stream stream = Must(Stream::Create(dev()));
  const Array x = Ints(1);
  const Array y = Ints(2);
  const StreamGuard on(stream);
  Capture capture(stream);
  EXPECT_OK(x.Fill(3));
  EXPECT_OK(y.CopyFrom(x));
  EXPECT_OK(AddInto(y, x, x));
  EXPECT_TRUE(capture.End());
}

TEST_F(ArraysCapture, WhatIsNotCompleteIsRefused) {
  const Stream stuck = Must(Stream::Create(dev()));
  const Stream reader = Must(Stream::Create(dev()));
  const Stream stream = Must(Stream::Create(dev()));
  const Array x = Ints(1);
  const Array y = Ints(2);
  Gate gate(dev());
  gate.Hold(stuck);
  {
    const StreamGuard on(stuck);
    ASSERT_OK(x.Fill(3));
  }
  {
    // With an event that could be asked.
    const StreamGuard on(reader);
    ASSERT_OK(y.CopyFrom(x));
  }
  const StreamGuard on(stream);
  Capture capture(stream);
  EXPECT_THAT(x.Fill(4),
              testing::StatusIs(absl::StatusCode::kFailedPrecondition,
                                HasSubstr("is capturing")));
  EXPECT_TRUE(capture.End());
  EXPECT_TRUE(gate.Holds());
  gate.Release();
}

// O5.
TEST_F(ArraysCapture, TheHostDoesNotWaitForIt) {
  const Stream stream = Must(Stream::Create(dev()));
  const Array x = Ints(1);
  const StreamGuard on(stream);
  ASSERT_OK(x.Fill(2));
  Capture capture(stream);
  for (const absl::Status& status :
       {x.Ready(), x.IsReady().status(), x.To(Place::Host()).status()}) {
    EXPECT_THAT(status, testing::StatusIs(absl::StatusCode::kFailedPrecondition,
                                          HasSubstr("is capturing")));
  }
  EXPECT_TRUE(capture.End());
  EXPECT_OK(x.Ready());
}

}  // namespace
}  // namespace devrt::hardware
