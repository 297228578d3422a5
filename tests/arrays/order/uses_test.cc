// SPDX-License-Identifier: Apache-2.0
//
// StorageUses beside captures: what is captured does not run, so that it stands
// for nothing that does, and nothing that runs stands for it.

#include <optional>
#include <vector>

#include "arrays/storage/storage_uses.h"
#include "devrt/arrays/operations.h"
#include "streams/objects/stream_record.h"
#include "tests/arrays/order/capture_fixture.h"

namespace devrt::testing {
namespace {

using internal::CaptureNumber;
using internal::StorageUse;
using internal::StorageUses;
using internal::Timeline;
using internal::TimelineOf;

class CapturedUses : public CapturesTest {
 protected:
  void SetUp() override {
    CapturesTest::SetUp();
    a_ = NewStream();
    b_ = NewStream();
  }
  void TearDown() override {
    a_.reset();
    b_.reset();
    CapturesTest::TearDown();
  }
  // As an operation that is enqueued on `stream` now.
  static StorageUse UseOf(StreamRef stream,
                          CaptureNumber capture = CaptureNumber::kNone) {
    Timeline* const timeline = TimelineOf(stream);
    StorageUse use({timeline, timeline->Now()}, stream);
    use.capture = capture;
    return use;
  }
  CaptureNumber Capture(StreamRef stream) {
    BeginBare(stream);
    return Must(internal::HoldCapture(stream));
  }
  // Of each use: its timeline's number among these streams, and its capture.
  struct Seen {
    const Timeline* timeline;
    CaptureNumber capture;
    bool operator==(const Seen& other) const {
      return timeline == other.timeline && capture == other.capture;
    }
  };
  static std::vector<Seen> Look(const StorageUses::List& list) {
    std::vector<Seen> seen;
    for (const StorageUse& use : list) {
      seen.push_back({use.timeline, use.capture});
    }
    return seen;
  }

  std::optional<Stream> a_, b_;
  StorageUses uses_;
};

TEST_F(CapturedUses, CapturedAndEagerUsesOfAStreamBothStay) {
  const CaptureNumber capture = Capture(*a_);
  const Timeline* const a = TimelineOf(*a_);
  for (const bool writes : {true, false}) {
    for (const bool captured_first : {true, false}) {
      StorageUses uses;
      uses.AddOrdered(
          UseOf(*a_, captured_first ? capture : CaptureNumber::kNone), writes);
      uses.AddOrdered(
          UseOf(*a_, captured_first ? CaptureNumber::kNone : capture), writes);
      EXPECT_EQ((writes ? uses.writes() : uses.reads()).size(), 2u)
          << writes << captured_first;
      EXPECT_FALSE(uses.AreOnlyOf(a));
    }
  }
}

TEST_F(CapturedUses, RepeatedUseInACaptureIsStoredOnce) {
  const CaptureNumber first = Capture(*a_);
  uses_.AddOrdered(UseOf(*a_, first), true);
  uses_.AddOrdered(UseOf(*a_, first), true);
  EXPECT_EQ(uses_.writes().size(), 1u);
  End(*a_);
  const CaptureNumber second = Capture(*a_);
  EXPECT_NE(first, second);
  uses_.AddOrdered(UseOf(*a_, second), true);
  EXPECT_EQ(uses_.writes().size(), 2u);
  End(*a_);
}

TEST_F(CapturedUses, CapturedWriteKeepsEagerUses) {
  uses_.AddOrdered(UseOf(*a_), true);
  uses_.AddOrdered(UseOf(*a_), false);
  uses_.AddOrdered(UseOf(*b_), false);
  EXPECT_OK(a_->Wait(*b_));
  const CaptureNumber capture = Capture(*a_);
  uses_.AddOrdered(UseOf(*a_, capture), true);
  EXPECT_EQ(Look(uses_.reads()),
            (std::vector<Seen>{{TimelineOf(*a_), CaptureNumber::kNone},
                               {TimelineOf(*b_), CaptureNumber::kNone}}));
  EXPECT_EQ(Look(uses_.writes()),
            (std::vector<Seen>{{TimelineOf(*a_), CaptureNumber::kNone},
                               {TimelineOf(*a_), capture}}));
}

TEST_F(CapturedUses, EagerWriteKeepsCapturedUses) {
  const CaptureNumber capture = Capture(*a_);
  uses_.AddOrdered(UseOf(*a_, capture), true);
  uses_.AddOrdered(UseOf(*a_, capture), false);
  End(*a_);
  uses_.AddOrdered(UseOf(*a_), false);
  // By the same stream, and by one that is past it.
  uses_.AddOrdered(UseOf(*a_), true);
  EXPECT_EQ(Look(uses_.reads()),
            (std::vector<Seen>{{TimelineOf(*a_), capture}}));
  EXPECT_EQ(Look(uses_.writes()),
            (std::vector<Seen>{{TimelineOf(*a_), capture},
                               {TimelineOf(*a_), CaptureNumber::kNone}}));
  EXPECT_OK(b_->Wait(*a_));
  uses_.AddOrdered(UseOf(*b_), true);
  EXPECT_EQ(Look(uses_.reads()),
            (std::vector<Seen>{{TimelineOf(*a_), capture}}));
  EXPECT_EQ(Look(uses_.writes()),
            (std::vector<Seen>{{TimelineOf(*a_), capture},
                               {TimelineOf(*b_), CaptureNumber::kNone}}));
}

TEST_F(CapturedUses, StayUntilTheGraphEnds) {
  const CaptureNumber capture = Capture(*a_);
  uses_.Add(UseOf(*a_, capture), true);
  uses_.Add(UseOf(*a_, capture), false);
  uses_.Add(UseOf(*b_), true);
  End(*a_);
  EXPECT_OK(a_->Synchronize());
  EXPECT_OK(b_->Synchronize());
  uses_.DropComplete();
  EXPECT_EQ(Look(uses_.writes()),
            (std::vector<Seen>{{TimelineOf(*a_), capture}}));
  EXPECT_EQ(uses_.reads().size(), 1u);
  DestroyGraphs();
  internal::RunPendingReleases();
  uses_.DropComplete();
  EXPECT_TRUE(uses_.empty());
}

// A program that captures again and again leaves no list that grows.
TEST_F(CapturedUses, TheNextCaptureDropsThoseThatAreOver) {
  for (int i = 0; i < 4; ++i) {
    const CaptureNumber capture = Capture(*a_);
    uses_.Add(UseOf(*a_, capture), true);
    uses_.Add(UseOf(*a_, capture), false);
    EXPECT_EQ(uses_.writes().size(), 1u);
    EXPECT_EQ(uses_.reads().size(), 1u);
    End(*a_);
    DestroyGraphs();
    internal::RunPendingReleases();
  }
}

// Many readers: those that the new one is past go, captured ones do not.
TEST_F(CapturedUses, ManyReadersAreThinnedOut) {
  const CaptureNumber capture = Capture(*a_);
  uses_.AddOrdered(UseOf(*a_, capture), false);
  End(*a_);
  std::vector<Stream> readers;
  for (int i = 0; i < 7; ++i) {
    readers.push_back(NewStream());
    uses_.AddOrdered(UseOf(readers.back()), false);
  }
  EXPECT_EQ(uses_.reads().size(), 8u);
  EXPECT_OK(b_->Wait(*a_));
  for (const Stream& reader : readers) EXPECT_OK(b_->Wait(reader));
  uses_.AddOrdered(UseOf(*b_), false);
  EXPECT_EQ(Look(uses_.reads()),
            (std::vector<Seen>{{TimelineOf(*a_), capture},
                               {TimelineOf(*b_), CaptureNumber::kNone}}));
}

// A stream that both wrote and read in the capture is joined once.
TEST_F(CapturedUses, AnEdgeForEachStream) {
  const Array x = Filled(dev(), 1);
  const Array y = Filled(dev(), 1);
  Begin(*a_);
  Join(*b_, *a_);
  {
    const StreamGuard on(*a_);
    ASSERT_OK(x.Fill(2));
    ASSERT_OK(y.CopyFrom(x));
    ASSERT_OK(y.CopyFrom(x));
  }
  Expect(0, 0);
  const StreamGuard on(*b_);
  ASSERT_OK(x.Fill(3));
  Expect(1, 1);
  End(*a_);
  End(*b_);
}

}  // namespace
}  // namespace devrt::testing
