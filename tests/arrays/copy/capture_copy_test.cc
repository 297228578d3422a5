// SPDX-License-Identifier: Apache-2.0
//
// Copies on streams that another library captures: refused before anything is
// enqueued, or part of the capture.

#include <optional>
#include <vector>

#include "tests/arrays/copy/probe.h"
#include "tests/arrays/order/capture_fixture.h"

namespace devrt::testing {
namespace {

class CopyCapturesTest : public CapturesTest {
 protected:
  static Array Strided(const Array& array) {
    return Must(array.SliceAxis(0, {0, array.size(), 2}));
  }
  static Array Zeros(const Place& place, DType dtype, int64_t elements = 64) {
    Array made = NewArray(place, elements, dtype);
    Must(made.Fill(0));
    Must(made.Ready());
    return made;
  }
  struct Case {
    const char* name;
    Array target;
    Array source;
    bool non_blocking;
  };
  // Refused, and nothing was asked of the backend.
  static void ExpectRefused(const Case& c) {
    SCOPED_TRACE(c.name);
    BackendProbe probe;
    EXPECT_STATUS(c.target.CopyFrom(c.source, c.non_blocking),
                  kFailedPrecondition, "is capturing");
    EXPECT_EQ(probe.calls(), "");
    Expect(0, 0);
  }
};

TEST_F(CopyCapturesTest, CopiesWithAHostWaitAreRefusedBeforeAnyCall) {
  const Place pinned = Place::Pinned(dev());
  const Array x = Filled(dev(), 1);
  const Array wide = Filled(dev(), 1, 128);
  const Array h = Zeros(pinned, kInt32);
  const Array h_float = Zeros(pinned, kFloat32);
  const Array h_wide = Zeros(pinned, kInt32, 128);
  const Array h_wide_float = Zeros(pinned, kFloat32, 128);
  const Array plain = Zeros(Place::Host(), kInt32);
  const Array plain_float = Zeros(Place::Host(), kFloat32);
  const Case cases[] = {
      {"to the device", x, h, false},
      {"to the device, cast", x, h_float, false},
      {"to the device, packed", x, Strided(h_wide), false},
      {"to the device, spread", Strided(wide), h, false},
      {"to the device, packed in flight", x, Strided(h_wide), true},
      {"to the device, packed and cast", x, Strided(h_wide_float), true},
      {"to the device, packed and spread", Strided(wide), Strided(h_wide),
       true},
      {"to the device, plain", x, plain, true},
      {"to the device, plain and cast", x, plain_float, true},
      {"to the device, plain and spread", Strided(wide), plain, true},
      {"to the host", h, x, false},
      {"to the host, cast", h_float, x, false},
      {"to the host, packed", h, Strided(wide), false},
      {"to the host, spread", Strided(h_wide), x, true},
      {"to the host, plain", plain, x, true},
      {"to the host, plain and cast", plain_float, x, true},
  };
  Stream a = NewStream();
  const StreamGuard on(a);
  Begin(a);
  for (const Case& c : cases) ExpectRefused(c);
  End(a);
  EXPECT_TRUE(IsAll(x, 1));
  EXPECT_TRUE(IsAll(h, 0));
  for (const Case& c : cases) {
    EXPECT_OK(c.target.CopyFrom(c.source, c.non_blocking));
  }
  ASSERT_OK(dev().Synchronize());
}

// Then the host does what kernels would.
TEST_F(CopyCapturesTest, CopiesWithoutKernelsAreRefusedBeforeAnyCall) {
  const Place pinned = Place::Pinned(dev());
  const Array x = Filled(dev(), 1);
  const Array wide = Filled(dev(), 1, 128);
  const Array h = Zeros(pinned, kInt32);
  const Array h_float = Zeros(pinned, kFloat32);
  const Case cases[] = {
      {"to the device", Strided(wide), h, true},
      {"to the device, cast", x, h_float, true},
      {"to the host", h, Strided(wide), true},
      {"to the host, cast", h_float, x, true},
      {"within the device", x, Strided(wide), true},
  };
  Stream a = NewStream();
  const StreamGuard on(a);
  Begin(a);
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    BackendProbe probe;
    BackendProbe::TakeKernelsAway();
    EXPECT_STATUS(c.target.CopyFrom(c.source, true), kFailedPrecondition,
                  "is capturing");
    EXPECT_EQ(probe.calls(), "");
    Expect(0, 0);
  }
}

// Each copy crosses as one block, with a kernel on the device's side.
TEST_F(CopyCapturesTest, CopiesWithoutAHostWaitAreCaptured) {
  const Place pinned = Place::Pinned(dev());
  const Array x = Filled(dev(), 1);
  const Array wide = Filled(dev(), 1, 128);
  const Array h = Zeros(pinned, kInt32);
  const Array h_float = Zeros(pinned, kFloat32);
  const Array one = Zeros(pinned, kInt32, 1);
  const Case cases[] = {
      {"c", x, h, true},
      {"ck", x, h_float, true},
      {"ck", Strided(wide), h, true},
      {"ck", x, one, true},
      {"c", h, x, true},
      {"kc", h_float, x, true},
      {"kc", h, Strided(wide), true},
  };
  Stream a = NewStream();
  const StreamGuard on(a);
  Begin(a);
  for (const Case& c : cases) {
    BackendProbe probe;
    EXPECT_OK(c.target.CopyFrom(c.source, c.non_blocking));
    EXPECT_EQ(probe.calls(), c.name);
    Expect(0, 0);
  }
  End(a);
}

class PeerCapturesTest : public CopyCapturesTest {
 protected:
  void SetUp() override {
    CopyCapturesTest::SetUp();
    a_.emplace(NewStream(dev(0)));
    b_.emplace(NewStream(dev(1)));
    on_a_.emplace(*a_);
    on_b_.emplace(*b_);
    const Array x = Filled(dev(0), 1);
    const Array wide = Filled(dev(0), 1, 128);
    const Array y = Filled(dev(1), 2);
    const Array y_wide = Filled(dev(1), 2, 128);
    const Array y_float = Zeros(dev(1), kFloat32);
    cases_ = {{"a block", y, x, true},
              {"packed", y, Strided(wide), true},
              {"spread", Strided(y_wide), x, true},
              {"cast", y_float, x, true}};
  }
  void TearDown() override {
    cases_.clear();
    on_b_.reset();
    on_a_.reset();
    a_.reset();
    b_.reset();
    CopyCapturesTest::TearDown();
  }

  std::optional<Stream> a_;
  std::optional<Stream> b_;
  std::optional<StreamGuard> on_a_;
  std::optional<StreamGuard> on_b_;
  std::vector<Case> cases_;
};

TEST_F(PeerCapturesTest, CaptureOfOnlyOneStreamIsRefusedBeforeAnyCall) {
  for (Stream* s : {&*a_, &*b_}) {
    Begin(*s);
    for (const Case& c : cases_) {
      ExpectRefused(c);
      CopyOptions options;
      options.non_blocking = true;
      options.stream = *b_;
      BackendProbe probe;
      EXPECT_STATUS(CopyArray(c.target, c.source, options), kFailedPrecondition,
                    "is capturing");
      EXPECT_EQ(probe.calls(), "");
    }
    End(*s);
  }
  EXPECT_TRUE(IsAll(cases_[0].target, 2));
}

// An edge between two captures makes both invalid (C84).
TEST_F(PeerCapturesTest, TwoCapturesAreRefusedFirst) {
  Begin(*a_);
  Begin(*b_);
  for (const Case& c : cases_) {
    BackendProbe probe;
    EXPECT_STATUS(c.target.CopyFrom(c.source, true), kFailedPrecondition,
                  "not in that capture");
    EXPECT_EQ(probe.calls(), "");
  }
  End(*a_);
  End(*b_);
}

// C57 as edges: after what the other stream captured, before what it will.
TEST_F(PeerCapturesTest, BothStreamsAreJoinedInTheCapture) {
  Begin(*a_);
  Join(*b_, *a_);
  for (const Case& c : cases_) {
    SCOPED_TRACE(c.name);
    BackendProbe probe;
    EXPECT_OK(c.target.CopyFrom(c.source, true));
    const std::string calls = probe.TakeCalls();
    const size_t copy = calls.find('p');
    ASSERT_NE(copy, std::string::npos) << calls;
    EXPECT_GE(copy, 2u) << calls;
    EXPECT_EQ(calls.substr(copy - 2, 5), "rwprw");
    EXPECT_EQ(g_questions, 0);
  }
  End(*a_);
  End(*b_);
  ASSERT_OK(dev(0).Synchronize());
  ASSERT_OK(dev(1).Synchronize());
  EXPECT_TRUE(IsAll(cases_[0].target, 1));
}

// E45: what is pending from before is found before anything is enqueued.
TEST_F(PeerCapturesTest, PendingUseIsRefusedBeforeAnyCall) {
  const Case& c = cases_[3];
  Stream late = NewStream(dev(1));
  ASSERT_OK(Spin(late, kLong));
  ASSERT_OK(c.target.NoteUse(late));
  Begin(*a_);
  Join(*b_, *a_);
  BackendProbe probe;
  EXPECT_STATUS(c.target.CopyFrom(c.source, true), kFailedPrecondition,
                "before the capture begins");
  EXPECT_EQ(probe.calls(), "");
  End(*a_);
  End(*b_);
  ASSERT_OK(dev(1).Synchronize());
}

}  // namespace
}  // namespace devrt::testing
