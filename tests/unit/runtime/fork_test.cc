// SPDX-License-Identifier: Apache-2.0
//
// Fork (C105, F33): a child of a process that opened a backend is told so by
// every call, and reaches no driver; a child of any other works normally.

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "devrt/runtime/backend.h"
#include "devrt/runtime/device.h"
#include "devrt/runtime/peer.h"
#include "devrt/runtime/raw_memory.h"
#include "runtime/loader/plugin_file.h"
#include "tests/support/status_matchers.h"
#include "tests/support/subprocess.h"
#include "tests/unit/runtime/fake_backend.h"
#include "tests/unit/runtime/plugin_files.h"

namespace devrt {
namespace {

using testing::FakeBackend;
using ::testing::HasSubstr;
using testing::InChild;
using testing::Must;
using testing::PluginPath;
using testing::StatusIs;

// Each test is a child already, which forks its own.

// F33, C105
TEST(RuntimeFork, ChildOfAProcessThatOpenedABackend) {
  InChild([] {
    FakeBackend& fake = FakeBackend::Register("fake", 2);
    const Backend backend = fake.backend();
    const Device device = fake.device(0), peer = fake.device(1);
    void* block = Must(Allocate(device, 64));
    void* pinned = Must(AllocateHost(device, 64));
    ASSERT_OK(device.Properties());
    InChild([&] {
      const auto forked =
          StatusIs(absl::StatusCode::kFailedPrecondition,
                   HasSubstr("forked child of a process that had opened a "
                             "backend"));
      EXPECT_THAT(device.Synchronize(), forked);
      EXPECT_THAT(device.Properties(), forked);
      EXPECT_THAT(device.GetMemoryInfo(), forked);
      EXPECT_THAT(device.Health(), forked);
      EXPECT_THAT(SetCurrentDevice(device), forked);
      EXPECT_THAT(CurrentDevice("fake"), forked);
      EXPECT_THAT(CurrentDevice(backend), forked);
      EXPECT_THAT(GetDevice("fake"), forked);
      EXPECT_THAT(GetDevice("other:3"), forked);
      EXPECT_THAT(Devices("fake"), forked);
      EXPECT_THAT(GetBackend("fake"), forked);
      EXPECT_THAT(GetBackend("other"), forked);
      EXPECT_THAT(LoadBackend(PluginPath("good")), forked);
      EXPECT_THAT(RegisterBackend(nullptr, nullptr), forked);
      EXPECT_THAT(backend.GetExtension("x", 4), forked);
      EXPECT_THAT(Allocate(device, 64), forked);
      EXPECT_THAT(AllocateHost(device, 64), forked);
      EXPECT_THAT(Free(device, block), forked);
      EXPECT_THAT(FreeHost(pinned), forked);
      EXPECT_THAT(RegisterHost(device, &fake, 1), forked);
      EXPECT_THAT(UnregisterHost(device, &fake), forked);
      EXPECT_THAT(GetPointerInfo(block), forked);
      EXPECT_THAT(CanAccessPeer(device, peer), forked);
      EXPECT_THAT(Shutdown(), forked);
      EXPECT_TRUE(BackendNames().empty());
      EXPECT_TRUE(LoadReport().empty());
      EXPECT_TRUE(AllDevices().empty());
      EXPECT_EQ(device.name(), "fake:0");
      // A child's child is no better off.
      InChild([&] { EXPECT_THAT(device.Health(), forked); });
    });
    // The parent is none the worse for it.
    EXPECT_OK(device.Synchronize());
    EXPECT_OK(Free(device, block));
    EXPECT_OK(FreeHost(pinned));
  });
}

// F33, C105
TEST(RuntimeFork, ChildOfAProcessThatOnlyLooked) {
  InChild([] {
    setenv("DEVRT_PLUGINS", PluginPath("good").c_str(), 1);
    EXPECT_EQ(BackendNames().size(), 1u);
    EXPECT_FALSE(LoadReportText().empty());
    EXPECT_FALSE(GetBackend("nothing").ok());
    InChild([] { EXPECT_OK(GetDevice("good:1")); });
    EXPECT_OK(GetDevice("good:0"));
  });
}

// F33, C105
TEST(RuntimeFork, ChildOfAProcessThatFailedToOpen) {
  InChild([] {
    // Its code ran, and may have spoiled what a child would need.
    EXPECT_FALSE(LoadBackend(PluginPath("no_device")).ok());
    InChild([] {
      EXPECT_EQ(GetBackend("good").status().code(),
                absl::StatusCode::kFailedPrecondition);
    });
  });
}

// F33, C105
TEST(RuntimeFork, RefusedFilesSpoilNothing) {
  InChild([] {
    EXPECT_FALSE(LoadBackend(PluginPath("truncated")).ok());
    InChild([] { EXPECT_OK(LoadBackend(PluginPath("good"))); });
  });
}

// Whatever lock another thread holds, the child must not wait for it.
// F33, C105
TEST(RuntimeFork, ForkWhileOtherThreadsAreInside) {
  InChild([] {
    setenv("DEVRT_LOG", "off", 1);
    FakeBackend& fake = FakeBackend::Register("fake", 1);
    const Device device = fake.device(0);
    std::atomic<bool> end{false};
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; ++i) {
      threads.emplace_back([&] {
        while (!end) {
          BackendNames();
          Must(Free(device, Must(Allocate(device, 64))));
          Must(device.Properties());
        }
      });
    }
    for (int i = 0; i < 20; ++i) {
      InChild([&] {
        EXPECT_FALSE(GetBackend("another").ok());
        EXPECT_FALSE(Allocate(device, 64).ok());
        EXPECT_FALSE(Free(device, &end).ok());
        EXPECT_FALSE(device.Properties().ok());
        EXPECT_TRUE(BackendNames().empty());
      });
    }
    end = true;
    for (std::thread& thread : threads) thread.join();
  });
}

// A thread that only looks at backends holds the registry again and again; a
// child must find it free, whenever it is forked, and work normally.
// F33, C105
TEST(RuntimeFork, ForkWhileAnotherThreadLooks) {
  InChild([] {
    setenv("DEVRT_PLUGINS", PluginPath("good").c_str(), 1);
    std::atomic<bool> end{false};
    std::thread looker([&] {
      while (!end) BackendNames();
    });
    for (int i = 0; i < 50; ++i) {
      InChild([] {
        EXPECT_EQ(GetBackend("nothing").status().code(),
                  absl::StatusCode::kNotFound);
        EXPECT_OK(GetDevice("good:0"));
      });
    }
    end = true;
    looker.join();
  });
}

// A file that could not even be mapped has run no code.
// F33, C105
TEST(RuntimeFork, ChildOfAProcessThatFailedToMap) {
  InChild([] {
    EXPECT_FALSE(LoadBackend(PluginPath("missing_library")).ok());
    InChild([] { EXPECT_OK(LoadBackend(PluginPath("good"))); });
  });
}

// A plugin that forks while it is opened: the child is spoiled, and says so.
// F33, C105
TEST(RuntimeFork, ForkInsideAnOpen) {
  InChild([] {
    static devrt_manifest_v0 manifest =
        *internal::OpenPluginFile(PluginPath("good")).contents.manifest;
    const auto open = [](const devrt_host_v0*,
                         devrt_backend_v0*) -> devrt_status {
      InChild([] {
        EXPECT_THAT(GetBackend("good"),
                    StatusIs(absl::StatusCode::kFailedPrecondition,
                             HasSubstr("forked child")));
      });
      throw std::runtime_error("after the fork");
    };
    EXPECT_OK(RegisterBackend(&manifest, open));
    EXPECT_THAT(GetBackend("good"), StatusIs(absl::StatusCode::kInternal,
                                             HasSubstr("after the fork")));
  });
}

}  // namespace
}  // namespace devrt
