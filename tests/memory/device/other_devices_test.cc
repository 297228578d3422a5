// SPDX-License-Identifier: Apache-2.0
//
// Uses on the default streams of other devices. Default streams of all devices
// have one serial: the device tells them apart.

#include <optional>

#include "devrt/memory/pinned_memory.h"
#include "tests/memory/device/cache_fixture.h"

namespace devrt::testing {
namespace {

class OtherDevices : public DeviceCacheTest {
 protected:
  void SetUp() override {
    DeviceCacheTest::SetUp();
    gate_ = NewFlag(dev(1));
  }
  void TearDown() override {
    gate_.reset();
    EXPECT_OK(EmptyPinnedCache(dev().backend()));
    DeviceCacheTest::TearDown();
  }

  static StreamRef own() { return DefaultStream(dev(0)); }
  static StreamRef other() { return DefaultStream(dev(1)); }
  std::optional<Flag> gate_;
};

TEST_F(OtherDevices, ARecordedUseIsWaitedFor) {
  char* x = New(own(), 4096);
  EXPECT_OK(RecordStream(x, other()));
  EXPECT_OK(gate_->WaitOn(other()));
  EXPECT_OK(FreeMemory(x));
  char* y = New(own(), 4096);
  EXPECT_NE(y, x);
  EXPECT_OK(gate_->Set());
  EXPECT_OK(other().Synchronize());
  char* z = New(own(), 4096);
  EXPECT_EQ(z, x);
  EXPECT_OK(FreeMemory(y));
  EXPECT_OK(FreeMemory(z));
}

// The default stream of the block's device has that serial, too.
TEST_F(OtherDevices, AFreeInTheirOrderIsRefused) {
  char* x = New(own(), 4096);
  EXPECT_STATUS(FreeMemory(x, other()), kInvalidArgument, "mtia:1");
  EXPECT_EQ(Read().allocation.all.current, 1);
  EXPECT_OK(FreeMemory(x, own()));
}

// devrt's own copy notes its use.
TEST_F(OtherDevices, ACopyOnTheirDefaultStreamIsWaitedFor) {
  EXPECT_OK(EnablePeerAccess(dev(1), dev(0)));
  char* x = New(own(), 4096);
  char* there = static_cast<char*>(Must(AllocateMemory(other(), 4096)));
  EXPECT_OK(own().Synchronize());
  EXPECT_OK(gate_->WaitOn(other()));
  EXPECT_OK(CopyAsync(other(), there, x, 4096));
  EXPECT_OK(FreeMemory(x));
  char* y = New(own(), 4096);
  EXPECT_NE(y, x);
  EXPECT_OK(gate_->Set());
  EXPECT_OK(other().Synchronize());
  EXPECT_OK(FreeMemory(y));
  EXPECT_OK(FreeMemory(there));
  EXPECT_OK(EmptyCache(dev(1)));
  EXPECT_OK(DisablePeerAccess(dev(1), dev(0)));
}

TEST_F(OtherDevices, APinnedBlockWaitsForBothDefaultStreams) {
  void* x = Must(AllocatePinned(dev(0), 4096));
  EXPECT_OK(RecordPinnedUse(x, own()));
  EXPECT_OK(RecordPinnedUse(x, other()));
  EXPECT_OK(gate_->WaitOn(other()));
  EXPECT_OK(FreePinned(x));
  EXPECT_OK(own().Synchronize());
  void* y = Must(AllocatePinned(dev(0), 4096));
  EXPECT_NE(y, x);
  EXPECT_OK(gate_->Set());
  EXPECT_OK(other().Synchronize());
  EXPECT_OK(FreePinned(y));
}

}  // namespace
}  // namespace devrt::testing
