// SPDX-License-Identifier: Apache-2.0
//
// Shutdown (C98): refused while something is alive, final when it happens.

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>

#include "devrt/runtime/backend.h"
#include "devrt/runtime/device.h"
#include "devrt/runtime/peer.h"
#include "devrt/runtime/raw_memory.h"
#include "runtime/raw_memory/allocation_table.h"
#include "runtime/registry/memory_hooks.h"
#include "runtime/registry/records.h"
#include "tests/support/status_matchers.h"
#include "tests/support/subprocess.h"
#include "tests/unit/runtime/fake_backend.h"
#include "tests/unit/runtime/plugin_files.h"

namespace devrt {
namespace {

using testing::FakeBackend;
using testing::FakeFailure;
using ::testing::HasSubstr;
using testing::InChild;
using testing::kFailedPrecondition;
using testing::Must;
using testing::PluginPath;
using testing::StatusIs;

// C98
TEST(ShutdownTest, RefusedWithCounts) {
  InChild([] {
    FakeBackend& fake = FakeBackend::Register("fake", 2);
    const Device device = fake.device(1);
    void* block = Must(Allocate(device, 64));
    void* pinned = Must(AllocateHost(device, 64));
    device.record()->live_streams = 1;
    EXPECT_THAT(Shutdown(),
                StatusIs(kFailedPrecondition,
                         "Shutdown is refused while objects are alive: fake:1 "
                         "has 1 stream, 2 allocations; destroy them first"));
    EXPECT_EQ(fake.Calls("shutdown"), 0);
    device.record()->live_streams = 0;
    EXPECT_OK(Free(device, block));
    EXPECT_OK(FreeHost(pinned));
    EXPECT_OK(device.Synchronize());
    EXPECT_OK(Shutdown());
    EXPECT_EQ(fake.Calls("shutdown"), 1);
  });
}

TEST(ShutdownTest, EverythingAnswersAfterwards) {
  InChild([] {
    FakeBackend& fake = FakeBackend::Register("fake", 2);
    const Backend backend = fake.backend();
    const Device device = fake.device(0);
    char byte = 0;
    ASSERT_OK(Shutdown());
    const auto closed =
        StatusIs(kFailedPrecondition, HasSubstr("devrt is shut down"));
    EXPECT_THAT(device.Synchronize(), closed);
    EXPECT_THAT(device.Properties(), closed);
    EXPECT_THAT(device.GetMemoryInfo(), closed);
    EXPECT_THAT(device.Health(), closed);
    EXPECT_THAT(SetCurrentDevice(device), closed);
    EXPECT_THAT(CurrentDevice(backend), closed);
    EXPECT_THAT(GetDevice("fake:0"), closed);
    EXPECT_THAT(GetDevice("nonsense!"), closed);
    EXPECT_THAT(GetBackend("fake"), closed);
    EXPECT_THAT(LoadBackend(PluginPath("good")), closed);
    EXPECT_THAT(backend.GetExtension("x", 4), closed);
    EXPECT_THAT(Allocate(device, 1), closed);
    EXPECT_THAT(Allocate(device, 0), closed);
    EXPECT_THAT(AllocateHost(device, 1), closed);
    EXPECT_THAT(Free(device, &byte), closed);
    EXPECT_THAT(Free(device, nullptr), closed);
    EXPECT_THAT(FreeHost(&byte), closed);
    EXPECT_THAT(RegisterHost(device, &byte, 1), closed);
    EXPECT_THAT(UnregisterHost(device, &byte), closed);
    EXPECT_THAT(GetPointerInfo(&byte), closed);
    EXPECT_THAT(CanAccessPeer(device, device), closed);
    EXPECT_THAT(EnablePeerAccess(device, device), closed);
    EXPECT_THAT(Shutdown(), closed);
    EXPECT_TRUE(BackendNames().empty());
    EXPECT_TRUE(AllDevices().empty());
    EXPECT_THAT(LoadReportText(), HasSubstr("fake"));
    EXPECT_EQ(device.name(), "fake:0");
    EXPECT_EQ(fake.Calls("shutdown"), 1);
  });
}

// An allocation that has passed the gate counts, before its block exists.
// C98
TEST(ShutdownTest, RefusedWhileABlockIsBeingMade) {
  InChild([] {
    FakeBackend& fake = FakeBackend::Register("fake", 1);
    const Device device = fake.device(0);
    fake.during_alloc = [] {
      EXPECT_THAT(Shutdown(), StatusIs(kFailedPrecondition,
                                       HasSubstr("fake:0 has 1 allocation")));
    };
    void* block = Must(Allocate(device, 64));
    EXPECT_OK(Free(device, block));
    EXPECT_EQ(fake.Calls("shutdown"), 0);
    EXPECT_OK(Shutdown());
  });
}

// Shutdown looks a second time after it closed the gate. An object that
// appeared between the two looks opens the gate again.
// C98
TEST(ShutdownTest, RefusedForObjectsMadeBeforeTheGateCloses) {
  InChild([] {
    FakeBackend& fake = FakeBackend::Register("fake", 2);
    fake.device(1);
    static int looks = 0;
    static int refused_look = 2;
    static internal::MemoryHooks hooks = {};
    hooks.find = [](const void*, bool*) {
      return std::optional<internal::AllocationRange>();
    };
    hooks.find_freed = [](const void*) {
      return std::optional<internal::AllocationRange>();
    };
    hooks.count_live = [](internal::DeviceRecord* d) -> int64_t {
      return d->ordinal == 1 && ++looks == refused_look ? 3 : 0;
    };
    hooks.release = [](internal::DeviceRecord*) {};
    hooks.settle = hooks.release;
    internal::SetMemoryHooks(&hooks);
    EXPECT_THAT(Shutdown(),
                StatusIs(kFailedPrecondition,
                         "Shutdown is refused while objects are alive: fake:1 "
                         "has 3 allocations; destroy them first"));
    EXPECT_EQ(looks, 2);
    EXPECT_EQ(fake.Calls("shutdown"), 0);
    // Everything works as before.
    for (int i = 0; i < 2; ++i) {
      EXPECT_OK(fake.device(i).Synchronize());
      EXPECT_OK(Free(fake.device(i), Must(Allocate(fake.device(i), 64))));
    }
    EXPECT_OK(GetDevice("fake:0").status());
    EXPECT_OK(Shutdown());
    EXPECT_EQ(looks, 4);
    EXPECT_EQ(fake.Calls("shutdown"), 1);
  });
}

TEST(ShutdownTest, WithNothingOpened) {
  InChild([] {
    EXPECT_OK(Shutdown());
    EXPECT_THAT(LoadBackend(PluginPath("good")),
                StatusIs(kFailedPrecondition, HasSubstr("shut down")));
  });
}

TEST(ShutdownTest, ReleasesPooledObjectsFirst) {
  InChild([] {
    static FakeBackend& fake = FakeBackend::Register("fake", 2);
    fake.backend();
    static int released = 0;
    internal::SetReleaseHook([](internal::DeviceRecord*) {
      EXPECT_EQ(fake.Calls("shutdown"), 0);
      ++released;
    });
    EXPECT_OK(Shutdown());
    EXPECT_EQ(released, 2);
  });
}

TEST(ShutdownTest, LeavesTheDriverOfALostDeviceAlone) {
  InChild([] {
    setenv("DEVRT_LOG", "off", 1);
    FakeBackend& fake = FakeBackend::Register("fake", 2);
    FakeBackend& other = FakeBackend::Register("other", 1);
    other.backend();
    FakeFailure lost;
    lost.flags = DEVRT_ERROR_STICKY;
    fake.Fail("device_sync", lost);
    EXPECT_FALSE(fake.device(1).Synchronize().ok());
    EXPECT_OK(Shutdown());
    EXPECT_EQ(fake.Calls("shutdown"), 0);
    EXPECT_EQ(other.Calls("shutdown"), 1);
  });
}

// R5: what the shutdown of a plugin throws does not leave Shutdown, and does
// not keep the other backends from ending.
TEST(ShutdownTest, ExceptionOfAPluginBecomesAnError) {
  InChild([] {
    FakeBackend& fake = FakeBackend::Register("fake", 1);
    FakeBackend& other = FakeBackend::Register("other", 1);
    fake.backend();
    other.backend();
    fake.thrown_by_shutdown = "the queue is stuck";
    EXPECT_THAT(Shutdown(),
                StatusIs(absl::StatusCode::kInternal,
                         "backend \"fake\": shutdown threw the queue is stuck; "
                         "plugins must not throw"));
    EXPECT_EQ(fake.Calls("shutdown"), 1);
    EXPECT_EQ(other.Calls("shutdown"), 1);
    EXPECT_THAT(Shutdown(),
                StatusIs(kFailedPrecondition, HasSubstr("devrt is shut down")));
  });
}

// C42
TEST(ShutdownTest, RefusedInHostFunctions) {
  InChild([] {
    internal::HostFunctionScope inside;
    EXPECT_THAT(Shutdown(),
                StatusIs(kFailedPrecondition, HasSubstr("host function")));
  });
}

}  // namespace
}  // namespace devrt
