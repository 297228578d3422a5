// SPDX-License-Identifier: Apache-2.0
//
// Shutdown beside work whose end nobody will see: it ends, and leaves what the
// work uses to the plugin's end.

#include <optional>
#include <string>

#include "memory/common/rounding.h"
#include "tests/support/mtia_fixture.h"
#include "tests/support/subprocess.h"

namespace devrt::testing {
namespace {

using internal::kMiB;

// A block of each kind waits for a stream of a healthy device, and the stream
// for a device that is lost.
void ShutDownBesideAFailedStream(const std::string& mode) {
  setenv("DEVRT_MTIA", ("devices=2,mode=" + mode).c_str(), 1);
  const Device healthy = MtiaTest::dev(0);
  {
    Stream home = Must(Stream::Create(healthy));
    Stream failed = Must(Stream::Create(healthy));
    Stream lost = Must(Stream::Create(MtiaTest::dev(1)));
    Event event = Must(Event::Create(MtiaTest::dev(1)));
    Flag gate = Must(Flag::Create(MtiaTest::dev(1)));
    void* const block = Must(AllocateMemory(home, 30 * kMiB));
    void* const pinned = Must(AllocatePinned(healthy, kMiB));
    Must(gate.WaitOn(lost));
    Must(
        Launch(lost, {}, [](const LaunchContext& c) { c.Fail("it is lost"); }));
    Must(event.Record(lost));
    Must(failed.Wait(event));
    Must(Launch(failed, {}, [](const LaunchContext&) {}));
    Must(RecordStream(block, failed));
    Must(RecordPinnedUse(pinned, failed));
    Must(FreeMemory(block));
    Must(FreePinned(pinned));
    Must(gate.Set());
    EXPECT_FALSE(failed.Synchronize().ok());
    EXPECT_FALSE(lost.Synchronize().ok());
  }
  EXPECT_OK(healthy.Health());
  EXPECT_OK(Shutdown());
}

TEST(ShutdownOfMemory, EndsBesideAFailedStream) {
  for (const char* mode : {"virtual", "threaded"}) {
    InChild([mode] { ShutDownBesideAFailedStream(mode); });
  }
}

}  // namespace
}  // namespace devrt::testing
