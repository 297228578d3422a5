// SPDX-License-Identifier: Apache-2.0
//
// Peer access (C74-C76), judged on devrt's own record.

#include "devrt/runtime/peer.h"

#include <gtest/gtest.h>

#include "runtime/registry/records.h"
#include "tests/support/status_matchers.h"
#include "tests/unit/runtime/fake_backend.h"

namespace devrt {
namespace {

using testing::FakeBackend;
using testing::FakeFailure;
using ::testing::HasSubstr;
using testing::IsOkAndHolds;
using testing::kFailedPrecondition;
using testing::StatusIs;

class PeerTest : public ::testing::Test {
 protected:
  static FakeBackend& fake() {
    static FakeBackend& fake = FakeBackend::Register("fake", 3);
    return fake;
  }
  static FakeBackend& other() {
    static FakeBackend& other = FakeBackend::Register("other", 1, 0);
    return other;
  }

  const Device a_ = fake().device(0);
  const Device b_ = fake().device(1);
};

// C74
TEST_F(PeerTest, NoDeviceIsItsOwnPeer) {
  for (Device device : fake().backend().devices()) {
    const int calls = fake().Calls("peer_can_access");
    EXPECT_THAT(CanAccessPeer(device, device), IsOkAndHolds(false));
    EXPECT_EQ(fake().Calls("peer_can_access"), calls);
    EXPECT_THAT(EnablePeerAccess(device, device),
                StatusIs(kFailedPrecondition, HasSubstr("its own peer")));
  }
}

// C75
TEST_F(PeerTest, AccessIsEnabledPerDirection) {
  EXPECT_THAT(CanAccessPeer(a_, b_), IsOkAndHolds(true));
  ASSERT_OK(EnablePeerAccess(a_, b_));
  EXPECT_THAT(DisablePeerAccess(b_, a_),
              StatusIs(kFailedPrecondition,
                       "peer access of fake:1 to fake:0 is not enabled"));
  ASSERT_OK(EnablePeerAccess(b_, a_));
  EXPECT_OK(DisablePeerAccess(a_, b_));
  EXPECT_OK(DisablePeerAccess(b_, a_));
}

// C76
TEST_F(PeerTest, StateErrors) {
  EXPECT_THAT(DisablePeerAccess(a_, b_),
              StatusIs(kFailedPrecondition, HasSubstr("is not enabled")));
  ASSERT_OK(EnablePeerAccess(a_, b_));
  const int calls = fake().Calls("peer_enable");
  EXPECT_THAT(EnablePeerAccess(a_, b_),
              StatusIs(absl::StatusCode::kAlreadyExists,
                       "peer access of fake:0 to fake:1 is enabled already"));
  EXPECT_EQ(fake().Calls("peer_enable"), calls);
  ASSERT_OK(DisablePeerAccess(a_, b_));
  EXPECT_FALSE(DisablePeerAccess(a_, b_).ok());
}

// C76
TEST_F(PeerTest, ImpossiblePairs) {
  fake().can_access = 0;
  EXPECT_THAT(CanAccessPeer(a_, b_), IsOkAndHolds(false));
  EXPECT_THAT(EnablePeerAccess(a_, b_),
              StatusIs(kFailedPrecondition, HasSubstr("is impossible")));
  fake().can_access = 1;
}

// F39
TEST_F(PeerTest, AccessThatOthersEnabled) {
  fake().foreign_peers = true;
  ASSERT_OK(EnablePeerAccess(a_, b_));
  fake().foreign_peers = false;
  EXPECT_THAT(EnablePeerAccess(a_, b_),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("")));
  const int calls = fake().Calls("peer_disable");
  EXPECT_OK(DisablePeerAccess(a_, b_));
  EXPECT_EQ(fake().Calls("peer_disable"), calls);  // it is theirs
}

// F39
TEST_F(PeerTest, AccessThatOthersDisabled) {
  ASSERT_OK(EnablePeerAccess(a_, b_));
  FakeFailure off;
  off.code = DEVRT_FAILED_PRECONDITION;
  off.native_code = 705;
  fake().Fail("peer_disable", off);
  EXPECT_OK(DisablePeerAccess(a_, b_));
  EXPECT_FALSE(DisablePeerAccess(a_, b_).ok());
}

TEST_F(PeerTest, FailuresLeaveTheRecord) {
  FakeFailure full;
  full.code = DEVRT_RESOURCE_EXHAUSTED;
  fake().Fail("peer_enable", full);
  EXPECT_THAT(EnablePeerAccess(a_, b_),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("peer enable on fake:0 failed")));
  EXPECT_FALSE(DisablePeerAccess(a_, b_).ok());
  ASSERT_OK(EnablePeerAccess(a_, b_));
  fake().Fail("peer_disable", full);
  EXPECT_FALSE(DisablePeerAccess(a_, b_).ok());
  EXPECT_OK(DisablePeerAccess(a_, b_));
}

TEST_F(PeerTest, TwoBackends) {
  EXPECT_THAT(CanAccessPeer(a_, other().device(0)), IsOkAndHolds(false));
  EXPECT_THAT(EnablePeerAccess(a_, other().device(0)),
              StatusIs(kFailedPrecondition, HasSubstr("two backends")));
  EXPECT_THAT(DisablePeerAccess(other().device(0), a_),
              StatusIs(kFailedPrecondition, HasSubstr("is not enabled")));
}

// C42
TEST_F(PeerTest, RefusedInHostFunctions) {
  internal::HostFunctionScope inside;
  EXPECT_OK(CanAccessPeer(a_, b_));
  EXPECT_THAT(EnablePeerAccess(a_, b_),
              StatusIs(kFailedPrecondition, HasSubstr("host function")));
  EXPECT_THAT(DisablePeerAccess(a_, b_),
              StatusIs(kFailedPrecondition, HasSubstr("host function")));
}

TEST_F(PeerTest, LostDevices) {
  FakeFailure lost;
  lost.flags = DEVRT_ERROR_STICKY | DEVRT_ERROR_ASYNC;
  fake().Fail("device_sync", lost);
  Device device = fake().device(2);
  EXPECT_FALSE(device.Synchronize().ok());
  EXPECT_THAT(CanAccessPeer(a_, device),
              StatusIs(absl::StatusCode::kInternal,
                       HasSubstr("device fake:2 is quarantined: ")));
  EXPECT_THAT(EnablePeerAccess(device, a_),
              StatusIs(absl::StatusCode::kInternal,
                       HasSubstr("device fake:2 is quarantined: ")));
}

}  // namespace
}  // namespace devrt
