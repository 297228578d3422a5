// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/memory/peers.h"

#include <string>

#include "tests/mtia/memory_fixture.h"

namespace devrt::mtia {
namespace {

using test::OwnedStatus;

class PeersTest : public MemoryTest {
 protected:
  // A row per device: 'x' where it can access the peer.
  std::string Matrix(const std::string& config) {
    const Config parsed = Parse(config);
    PeerTable peers;
    peers.Reset(parsed);
    std::string matrix;
    for (uint32_t device = 0; device < parsed.devices; ++device) {
      for (uint32_t peer = 0; peer < parsed.devices; ++peer) {
        matrix += peers.CanAccess(device, peer) ? 'x' : '.';
      }
      matrix += ' ';
    }
    return matrix;
  }
};

TEST_F(PeersTest, TopologiesLinkNoDeviceToItself) {
  EXPECT_EQ(Matrix("devices=3,peers=all"), ".xx x.x xx. ");
  EXPECT_EQ(Matrix("devices=4,peers=ring"), ".x.x x.x. .x.x x.x. ");
  EXPECT_EQ(Matrix("devices=2,peers=ring"), ".x x. ");
  EXPECT_EQ(Matrix("devices=1,peers=ring"), ". ");
  EXPECT_EQ(Matrix("devices=2,peers=none"), ".. .. ");
  EXPECT_EQ(Matrix("devices=3,peers=0-1+2-0"), ".x. ... x.. ");
}

TEST_F(PeersTest, LinksReachTheLastDevice) {
  Make("devices=64,memory=1MiB");
  EXPECT_TRUE(memory_->CanAccessPeer(0, 63));
  EXPECT_TRUE(OwnedStatus(memory_->EnablePeer(63, 0)).ok());
  EXPECT_TRUE(memory_->PeerEnabled(63, 0));
  EXPECT_FALSE(memory_->PeerEnabled(0, 63));
  EXPECT_FALSE(memory_->CanAccessPeer(0, 64));
  EXPECT_FALSE(memory_->PeerEnabled(64, 0));
}

TEST_F(PeersTest, StateErrorsAreThoseOfC76) {
  Make("devices=3,peers=0-1");
  struct Case {
    OwnedStatus status;
    devrt_code code;
    int64_t native_code;
  };
  const Case before = {memory_->DisablePeer(0, 1), DEVRT_FAILED_PRECONDITION,
                       705};
  ASSERT_TRUE(OwnedStatus(memory_->EnablePeer(0, 1)).ok());
  const Case cases[] = {
      {memory_->EnablePeer(0, 1), DEVRT_ALREADY_EXISTS, 704},
      {memory_->EnablePeer(1, 0), DEVRT_FAILED_PRECONDITION, 101},
      {memory_->EnablePeer(1, 1), DEVRT_FAILED_PRECONDITION, 217},
      {memory_->EnablePeer(0, 3), DEVRT_INVALID_ARGUMENT, 101},
      {memory_->DisablePeer(7, 0), DEVRT_INVALID_ARGUMENT, 101},
  };
  EXPECT_EQ(before.status.code(), before.code);
  EXPECT_EQ(before.status.native_code(), before.native_code);
  for (const Case& c : cases) {
    EXPECT_EQ(c.status.code(), c.code) << c.status.text();
    EXPECT_EQ(c.status.native_code(), c.native_code) << c.status.text();
  }
  EXPECT_TRUE(memory_->PeerEnabled(0, 1));
  EXPECT_TRUE(OwnedStatus(memory_->DisablePeer(0, 1)).ok());
  EXPECT_FALSE(memory_->PeerEnabled(0, 1));
}

}  // namespace
}  // namespace devrt::mtia
