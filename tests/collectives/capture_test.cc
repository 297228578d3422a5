// SPDX-License-Identifier: Apache-2.0
//
// Collectives on streams that another library captures: no engine captures them
// yet, so that they are refused, and nothing is enqueued (K-C17).
#include <string>
#include <utility>
#include <vector>

#include "devrt/collectives/communicator.h"
#include "devrt/collectives/group.h"
#include "devrt/runtime/capture_error.h"
#include "tests/arrays/order/capture_fixture.h"

namespace devrt::testing {
namespace {

using collectives::AllReduce;
using collectives::Communicator;
using collectives::Group;
using ::testing::HasSubstr;

class CapturedCollectives : public CapturesTest {
 protected:
  static Communicator MakeRank() {
    const Device devices[] = {dev()};
    std::vector<Communicator> ranks = Must(Communicator::CreateAll(devices));
    return std::move(ranks[0]);
  }
};

TEST_F(CapturedCollectives, AreRefused) {
  Communicator rank = MakeRank();
  Stream stream = NewStream();
  const Array x = Filled(dev(), 1);
  Begin(stream);
  const absl::Status status = rank.AllReduce(x, x, {}, stream);
  EXPECT_TRUE(IsCaptureError(status)) << status;
  EXPECT_THAT(status.ToString(),
              HasSubstr("all_reduce cannot run on stream " +
                        std::to_string(StreamRef(stream).id()) +
                        ", which is capturing: mtia captures no collectives"));
  Expect(0, 0);
  EXPECT_TRUE(rank.Records().empty());
  End(stream);
  EXPECT_OK(rank.AllReduce(x, x, {}, stream));
  EXPECT_OK(rank.Wait(stream));
}

// A group of which one stream captures.
TEST_F(CapturedCollectives, RefuseTheirGroup) {
  Communicator rank = MakeRank();
  Stream captured = NewStream();
  Stream other = NewStream();
  const Array x = Filled(dev(), 1);
  Begin(captured);
  Group group;
  group.Add(rank, AllReduce(x, x), other);
  group.Add(rank, AllReduce(x, x), captured);
  const absl::Status status = group.Submit();
  EXPECT_TRUE(IsCaptureError(status)) << status;
  EXPECT_THAT(status.ToString(), HasSubstr("operation 1 of a group: "));
  Expect(0, 0);
  EXPECT_TRUE(rank.Records().empty());
  End(captured);
  EXPECT_OK(group.Submit());
  EXPECT_OK(rank.Wait(captured));
}

// The driver is asked once whether a stream captures that others have.
TEST_F(CapturedCollectives, AreLookedForOnce) {
  Communicator rank = MakeRank();
  Stream stream = NewStream();
  const Array x = Filled(dev(), 1);
  ASSERT_OK(stream.Native().status());
  g_looks = 0;
  EXPECT_OK(rank.AllReduce(x, x, {}, stream));
  EXPECT_EQ(g_looks, 1);
  EXPECT_OK(rank.Wait(stream));
}

// A capture elsewhere is not touched (C103 and K-C18).
TEST_F(CapturedCollectives, LeaveOtherCapturesAlone) {
  Communicator rank = MakeRank();
  Stream captured = NewStream();
  Stream other = NewStream();
  const Array x = Filled(dev(), 1);
  Begin(captured);
  EXPECT_OK(rank.AllReduce(x, x, {}, other));
  EXPECT_EQ(g_questions, 0);
  EXPECT_TRUE(IsInCapture(captured));
  End(captured);
  EXPECT_OK(rank.Wait(other));
}

}  // namespace
}  // namespace devrt::testing
