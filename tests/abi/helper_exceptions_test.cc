// SPDX-License-Identifier: Apache-2.0
//
// devrt_plugin_helper.h: no exception leaves a plugin.

#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "devrt/backends/abi/devrt_launch.h"
#include "devrt/backends/abi/devrt_plugin_helper.h"
#include "tests/support/fake_host.h"

namespace {

using devrt::test::FakeHost;
using devrt::test::OwnedStatus;
namespace plugin = devrt::plugin;

enum class Throw { kNothing, kBadAlloc, kRuntimeError, kInt, kLongText };

void Do(Throw what) {
  switch (what) {
    case Throw::kNothing:
      return;
    case Throw::kBadAlloc:
      throw std::bad_alloc();
    case Throw::kRuntimeError:
      throw std::runtime_error("the driver said no");
    case Throw::kInt:
      throw 42;
    case Throw::kLongText:
      throw std::runtime_error(std::string(100000, 'x'));
  }
}

struct Padding {
  uint64_t padding = 1;
};
struct Inherited {
  devrt_status inherited(devrt_stream, const devrt_launch_desc_v0*) {
    Do(what);
    return nullptr;
  }
  Throw what = Throw::kNothing;
};

class Thrower : public Padding, public Inherited {
 public:
  static Throw at_open;
  static bool at_end;

  Thrower() { Do(at_open); }
  ~Thrower() noexcept(false) {
    if (at_end) throw std::runtime_error("cannot end");
  }

  devrt_status alloc(uint32_t, uint64_t, uint64_t, void**) {
    Do(what);
    return nullptr;
  }
  devrt_status device_sync(uint32_t) {
    ready.store(true);
    for (;;) pause();
  }
  void shutdown() { Do(what); }
  const void* get_extension(const char*) {
    Do(what);
    return this;
  }
  devrt_status launch(devrt_stream, const devrt_launch_desc_v0*) {
    Do(what);
    return nullptr;
  }

  std::atomic<bool> ready{false};
};
Throw Thrower::at_open = Throw::kNothing;
bool Thrower::at_end = false;

class PluginExceptions : public testing::Test {
 protected:
  PluginExceptions() {
    Thrower::at_open = Throw::kNothing;
    Thrower::at_end = false;
    backend_ = OpenOn(host_);
  }
  ~PluginExceptions() override {
    if (backend_.self != nullptr) backend_.ops->shutdown(backend_.self);
    EXPECT_EQ(host_.live_errors(), 0);
  }

  static devrt_backend_v0 OpenOn(FakeHost& host) {
    devrt_backend_v0 backend = {};
    backend.struct_size = sizeof backend;
    EXPECT_EQ(plugin::Open<Thrower>(0, host.table(), &backend), nullptr);
    return backend;
  }
  Thrower* self() { return static_cast<Thrower*>(backend_.self); }
  OwnedStatus Alloc(Throw what) {
    self()->what = what;
    void* ptr = nullptr;
    const devrt_status status = backend_.ops->alloc(self(), 0, 1, 0, &ptr);
    self()->what = Throw::kNothing;
    return OwnedStatus(status);
  }

  FakeHost host_;
  devrt_backend_v0 backend_ = {};
};

TEST_F(PluginExceptions, BadAllocIsResourceExhausted) {
  EXPECT_EQ(Alloc(Throw::kNothing).code(), DEVRT_OK);
  const OwnedStatus error = Alloc(Throw::kBadAlloc);
  EXPECT_EQ(error.code(), DEVRT_RESOURCE_EXHAUSTED);
  EXPECT_EQ(error.text(), "alloc: out of host memory (std::bad_alloc)");
}

TEST_F(PluginExceptions, OthersAreInternalAndNameTheSlot) {
  OwnedStatus error = Alloc(Throw::kRuntimeError);
  EXPECT_EQ(error.code(), DEVRT_INTERNAL);
  EXPECT_EQ(error.text(), "alloc: uncaught exception: the driver said no");
  error = Alloc(Throw::kInt);
  EXPECT_EQ(error.code(), DEVRT_INTERNAL);
  EXPECT_EQ(error.text(),
            "alloc: uncaught exception that is no std::exception");
  error = Alloc(Throw::kLongText);
  EXPECT_EQ(error.code(), DEVRT_INTERNAL);
  EXPECT_EQ(error.text().size(), 1023u);
}

TEST_F(PluginExceptions, GetExtensionLogsAndAnswersNull) {
  EXPECT_EQ(backend_.ops->get_extension(self(), "x"), self());
  self()->what = Throw::kRuntimeError;
  EXPECT_EQ(backend_.ops->get_extension(self(), "x"), nullptr);
  self()->what = Throw::kNothing;
  EXPECT_EQ(host_.logs(),
            std::vector<std::string>{
                "3 get_extension: uncaught exception: the driver said no"});
}

TEST_F(PluginExceptions, ShutdownAndDestructorLog) {
  self()->what = Throw::kInt;
  Thrower::at_end = true;
  backend_.ops->shutdown(backend_.self);
  backend_.self = nullptr;
  const std::vector<std::string> expected = {
      "3 shutdown: uncaught exception that is no std::exception",
      "3 destructor: uncaught exception: cannot end"};
  EXPECT_EQ(host_.logs(), expected);
}

TEST_F(PluginExceptions, OpenIsGuardedToo) {
  devrt_backend_v0 backend = {};
  backend.struct_size = sizeof backend;
  Thrower::at_open = Throw::kRuntimeError;
  OwnedStatus error =
      OwnedStatus(plugin::Open<Thrower>(0, host_.table(), &backend));
  EXPECT_EQ(error.code(), DEVRT_INTERNAL);
  EXPECT_EQ(error.text(),
            "devrt_plugin_open_v0: uncaught exception: the driver said no");
  Thrower::at_open = Throw::kBadAlloc;
  error = OwnedStatus(plugin::Open<Thrower>(0, host_.table(), &backend));
  EXPECT_EQ(error.code(), DEVRT_RESOURCE_EXHAUSTED);
  EXPECT_EQ(backend.self, nullptr);
}

TEST_F(PluginExceptions, ExtensionTablesAreGuardedByThunk) {
  static constexpr devrt_launch_v0 kTable = {sizeof(devrt_launch_v0), 0,
                                             plugin::Thunk<&Thrower::launch>};
  EXPECT_EQ(kTable.launch(self(), nullptr, nullptr), nullptr);
  self()->what = Throw::kRuntimeError;
  const OwnedStatus error =
      OwnedStatus(kTable.launch(self(), nullptr, nullptr));
  self()->what = Throw::kNothing;
  EXPECT_EQ(error.code(), DEVRT_INTERNAL);
  EXPECT_EQ(error.text(), "launch: uncaught exception: the driver said no");
}

// The second argument says which class `self` points to: here the member's own
// class begins somewhere inside it.
TEST_F(PluginExceptions, ThunkOfAnInheritedMemberFindsItsObject) {
  static constexpr devrt_launch_v0 kTable = {
      sizeof(devrt_launch_v0), 0, plugin::Thunk<&Thrower::inherited, Thrower>};
  ASSERT_NE(static_cast<void*>(static_cast<Inherited*>(self())), self());
  EXPECT_EQ(kTable.launch(self(), nullptr, nullptr), nullptr);
  self()->what = Throw::kBadAlloc;
  const OwnedStatus error =
      OwnedStatus(kTable.launch(self(), nullptr, nullptr));
  self()->what = Throw::kNothing;
  EXPECT_EQ(error.text(), "inherited: out of host memory (std::bad_alloc)");
}

// Two copies of the runtime may have opened the one image of a plugin.
TEST_F(PluginExceptions, ErrorsComeFromTheHostThatOpenedTheObject) {
  FakeHost second;
  const devrt_backend_v0 other = OpenOn(second);
  Thrower* const thrower = static_cast<Thrower*>(other.self);
  void* ptr = nullptr;
  thrower->what = Throw::kInt;
  const devrt_status status = other.ops->alloc(thrower, 0, 1, 0, &ptr);
  thrower->what = Throw::kNothing;
  EXPECT_EQ(second.live_errors(), 1);
  EXPECT_EQ(host_.live_errors(), 0);
  EXPECT_EQ(OwnedStatus(status).code(), DEVRT_INTERNAL);
  EXPECT_EQ(Alloc(Throw::kInt).code(), DEVRT_INTERNAL);
  other.ops->shutdown(other.self);
  EXPECT_EQ(Alloc(Throw::kInt).code(), DEVRT_INTERNAL);
}

// pthread_cancel unwinds the stack as an exception does, but swallowing it
// would end the process.
TEST_F(PluginExceptions, CancelledThreadsUnwindThroughTheBoundary) {
  pthread_t thread;
  ASSERT_EQ(
      pthread_create(
          &thread, nullptr,
          [](void* arg) -> void* {
            auto* backend = static_cast<devrt_backend_v0*>(arg);
            static_cast<void>(backend->ops->device_sync(backend->self, 0));
            return nullptr;
          },
          &backend_),
      0);
  while (!self()->ready.load()) sched_yield();
  ASSERT_EQ(pthread_cancel(thread), 0);
  void* result = nullptr;
  ASSERT_EQ(pthread_join(thread, &result), 0);
  EXPECT_EQ(result, PTHREAD_CANCELED);
}

}  // namespace
