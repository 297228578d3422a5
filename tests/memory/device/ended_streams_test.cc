// SPDX-License-Identifier: Apache-2.0
//
// Blocks of streams that have ended: another stream has them when the work is
// over, also where nobody has told devrt so.

#include <optional>

#include "tests/memory/device/cache_fixture.h"

namespace devrt::testing {
namespace {

using internal::kMiB;

class EndedStreams : public DeviceCacheTest {
 protected:
  // The work of all streams is over, and devrt has not asked.
  static void FinishUnseen() {
    internal::DeviceRecord* const device = dev().record();
    EXPECT_EQ(device->ops->device_sync(device->self, device->ordinal), nullptr);
  }
};

TEST_F(EndedStreams, TheirBlocksComeBackWhenTheWorkIsOver) {
  constexpr uint64_t kBytes = 12 * kMiB;
  Stream next = NewStream();
  std::optional<Stream> stream = NewStream();
  Flag gate = NewFlag();
  char* x = New(*stream, kBytes);
  EXPECT_OK(gate.WaitOn(*stream));
  EXPECT_OK(FillAsync(*stream, x, 1, 4096));
  EXPECT_OK(FreeMemory(x));
  stream.reset();
  char* meanwhile = New(next, kBytes);
  EXPECT_NE(meanwhile, x);
  EXPECT_OK(gate.Set());
  FinishUnseen();
  char* y = New(next, kBytes);
  EXPECT_EQ(y, x);
  EXPECT_OK(FreeMemory(y));
  EXPECT_OK(FreeMemory(meanwhile));
}

}  // namespace
}  // namespace devrt::testing
