// SPDX-License-Identifier: Apache-2.0
//
// devrt_plugin_helper.h: the table it builds from a class, and how it opens and
// ends a backend. What it must refuse to compile is in helper_refuses.py, what
// happens to exceptions in helper_exceptions_test.cc.

#include <errno.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "devrt/backends/abi/devrt_plugin_helper.h"
#include "tests/support/fake_host.h"

namespace {

using devrt::test::FakeHost;
using devrt::test::OwnedStatus;
namespace plugin = devrt::plugin;

constexpr uint64_t kPromised = DEVRT_CAP_HOST_FUNC | DEVRT_CAP_PINNED_HOST;

devrt_backend_v0 EmptyBackend() {
  devrt_backend_v0 backend = {};
  backend.struct_size = sizeof backend;
  return backend;
}

// Each kind of member function that may fill a slot.
class Common {
 public:
  devrt_status device_sync(uint32_t device) {
    synced = device;
    return nullptr;
  }
  uint32_t synced = 99;
};

class Some : public Common {
 public:
  static int alive;

  Some() { ++alive; }
  ~Some() { --alive; }

  static devrt_status device_count(uint32_t* count) {
    *count = 3;
    return nullptr;
  }
  devrt_status mem_info(uint32_t device, uint64_t* free_bytes,
                        uint64_t* total_bytes) const {
    *free_bytes = device;
    *total_bytes = 2 * device;
    return nullptr;
  }
  devrt_status alloc(uint32_t device, uint64_t size, uint64_t alignment,
                     void** ptr) noexcept {
    *ptr = reinterpret_cast<void*>(device * 1000000 + size * 1000 + alignment);
    return nullptr;
  }
  // An overload of another shape beside the right one.
  devrt_status dealloc(uint32_t, void*, uint64_t) { return nullptr; }
  void dealloc(void*) {}
  devrt_status host_func(devrt_stream, void (*fn)(void*, devrt_status),
                         void* arg) {
    fn(arg, nullptr);
    return nullptr;
  }
  void shutdown() { ++shutdowns; }
  const void* get_extension(const char* name) {
    return std::strcmp(name, "test.some/0") == 0 ? this : nullptr;
  }

  static int shutdowns;
};
int Some::alive = 0;
int Some::shutdowns = 0;

class None {};

// A macro's name may be that of a plugin.
DEVRT_STATIC_PLUGIN(errno);
static_assert(std::is_same_v<decltype(devrt_plugin_manifest_v0_errno),
                             const devrt_manifest_v0>);

TEST(PluginHelper, MembersFillTheirSlots) {
  constexpr devrt_ops_v0 kOps = plugin::MakeOps<Some>();
  EXPECT_EQ(kOps.struct_size, sizeof(devrt_ops_v0));
  EXPECT_EQ(kOps.abi_minor, DEVRT_ABI_MINOR);
  const std::string expected =
      "device_count mem_info alloc dealloc device_sync host_func ";
  std::string filled;
#define DEVRT_SLOT(slot, required, capability) \
  if (kOps.slot != nullptr) filled += #slot " ";
#include "devrt/backends/abi/devrt_slots.inc"
  EXPECT_EQ(filled, expected);
  EXPECT_NE(kOps.shutdown, nullptr);
  EXPECT_NE(kOps.get_extension, nullptr);
}

TEST(PluginHelper, AClassWithoutMembersLeavesAllButShutdownNull) {
  devrt_ops_v0 ops = plugin::MakeOps<None>();
  EXPECT_NE(ops.shutdown, nullptr);  // it ends the object
  ops.shutdown = nullptr;
  devrt_ops_v0 expected = {};
  expected.struct_size = sizeof expected;
  expected.abi_minor = DEVRT_ABI_MINOR;
  EXPECT_EQ(std::memcmp(&ops, &expected, sizeof ops), 0);
}

TEST(PluginHelper, CallsReachTheMembersWithTheirArguments) {
  FakeHost host;
  devrt_backend_v0 backend = EmptyBackend();
  ASSERT_EQ(plugin::Open<Some>(kPromised, host.table(), &backend), nullptr);
  const devrt_ops_v0& ops = *backend.ops;
  Some* const self = static_cast<Some*>(backend.self);

  uint32_t count = 0;
  EXPECT_EQ(ops.device_count(self, &count), nullptr);
  EXPECT_EQ(count, 3u);
  uint64_t free_bytes = 0;
  uint64_t total = 0;
  EXPECT_EQ(ops.mem_info(self, 7, &free_bytes, &total), nullptr);
  EXPECT_EQ(free_bytes, 7u);
  EXPECT_EQ(total, 14u);
  void* ptr = nullptr;
  EXPECT_EQ(ops.alloc(self, 1, 2, 8, &ptr), nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(ptr), 1002008u);
  EXPECT_EQ(ops.device_sync(self, 5), nullptr);
  EXPECT_EQ(self->synced, 5u);
  bool called = false;
  const auto set = [](void* arg, devrt_status error) {
    *static_cast<bool*>(arg) = error == nullptr;
  };
  EXPECT_EQ(ops.host_func(self, nullptr, set, &called), nullptr);
  EXPECT_TRUE(called);
  EXPECT_EQ(ops.get_extension(self, "test.some/0"), self);
  EXPECT_EQ(ops.get_extension(self, "test.other/0"), nullptr);

  ops.shutdown(self);
  EXPECT_EQ(host.live_errors(), 0);
}

TEST(PluginHelper, ShutdownCallsTheMemberThenDeletesTheObject) {
  FakeHost host;
  devrt_backend_v0 backend = EmptyBackend();
  const int before = Some::shutdowns;
  ASSERT_EQ(plugin::Open<Some>(0, host.table(), &backend), nullptr);
  EXPECT_EQ(Some::alive, 1);
  backend.ops->shutdown(backend.self);
  EXPECT_EQ(Some::shutdowns, before + 1);
  EXPECT_EQ(Some::alive, 0);
}

// ---- Open -------------------------------------------------------------------

// Obeys the test's wishes.
class Choosy {
 public:
  static devrt_code fail_with;
  static bool make_object;
  static uint64_t add;
  static uint64_t drop;
  static int alive;

  Choosy() { ++alive; }
  ~Choosy() { --alive; }

  static std::unique_ptr<Choosy> Open(const devrt_host_v0* host,
                                      devrt_status* error,
                                      uint64_t* capabilities) {
    if (fail_with != DEVRT_OK) {
      *error = plugin::Error(host, fail_with, 46, "no accelerator here");
    }
    *capabilities = (*capabilities & ~drop) | add;
    return make_object ? std::make_unique<Choosy>() : nullptr;
  }
};
devrt_code Choosy::fail_with = DEVRT_OK;
bool Choosy::make_object = true;
uint64_t Choosy::add = 0;
uint64_t Choosy::drop = 0;
int Choosy::alive = 0;

class OpenTest : public testing::Test {
 protected:
  OpenTest() {
    Choosy::fail_with = DEVRT_OK;
    Choosy::make_object = true;
    Choosy::add = Choosy::drop = 0;
  }

  // Opens, expects a refusal and an untouched backend.
  OwnedStatus Refused(const devrt_host_v0& host) {
    devrt_backend_v0 backend = EmptyBackend();
    OwnedStatus status(plugin::Open<Choosy>(kPromised, &host, &backend));
    const devrt_backend_v0 untouched = EmptyBackend();
    EXPECT_EQ(std::memcmp(&backend, &untouched, sizeof backend), 0);
    EXPECT_EQ(Choosy::alive, 0);
    EXPECT_EQ(host_.live_errors(), 1);
    return status;
  }

  FakeHost host_;
};

TEST_F(OpenTest, ClaimsCapabilitiesOfTheManifestThatOpenKeeps) {
  Choosy::drop = DEVRT_CAP_PINNED_HOST;
  devrt_backend_v0 backend = EmptyBackend();
  ASSERT_EQ(plugin::Open<Choosy>(kPromised, host_.table(), &backend), nullptr);
  EXPECT_EQ(backend.capabilities, DEVRT_CAP_HOST_FUNC);
  backend.ops->shutdown(backend.self);
}

TEST_F(OpenTest, PassesOnTheErrorOfAFactoryWithoutAnObject) {
  Choosy::fail_with = DEVRT_UNAVAILABLE;
  Choosy::make_object = false;
  const OwnedStatus error = Refused(*host_.table());
  EXPECT_EQ(error.code(), DEVRT_UNAVAILABLE);
  EXPECT_EQ(error.native_code(), 46);
  EXPECT_EQ(error.text(), "no accelerator here");
}

TEST_F(OpenTest, DropsTheObjectThatCameWithAnError) {
  Choosy::fail_with = DEVRT_UNAVAILABLE;
  EXPECT_EQ(Refused(*host_.table()).code(), DEVRT_UNAVAILABLE);
}

TEST_F(OpenTest, NeitherObjectNorErrorIsInternal) {
  Choosy::make_object = false;
  EXPECT_EQ(Refused(*host_.table()).code(), DEVRT_INTERNAL);
}

TEST_F(OpenTest, ACapabilityOutsideTheManifestIsInternal) {
  Choosy::add = DEVRT_CAP_PEER_COPY;
  const OwnedStatus error = Refused(*host_.table());
  EXPECT_EQ(error.code(), DEVRT_INTERNAL);
  EXPECT_NE(error.text().find("list: PEER_COPY"), std::string::npos)
      << error.text();
}

TEST_F(OpenTest, AHostShorterThanVersionZeroIsRefused) {
  devrt_host_v0 host = *host_.table();
  host.struct_size = offsetof(devrt_host_v0, log);
  EXPECT_EQ(Refused(host).code(), DEVRT_FAILED_PRECONDITION);
}

TEST_F(OpenTest, ALongerHostOfANewerMinorIsFine) {
  devrt_host_v0 host = *host_.table();
  host.struct_size += 64;
  host.abi_minor = 7;
  devrt_backend_v0 backend = EmptyBackend();
  backend.struct_size += 64;
  ASSERT_EQ(plugin::Open<Choosy>(kPromised, &host, &backend), nullptr);
  backend.ops->shutdown(backend.self);
}

class TakesHost {
 public:
  explicit TakesHost(const devrt_host_v0* h) : host(h) {}
  const devrt_host_v0* host;
};

TEST(PluginHelper, AConstructorMayTakeTheHost) {
  FakeHost host;
  devrt_backend_v0 backend = EmptyBackend();
  ASSERT_EQ(plugin::Open<TakesHost>(0, host.table(), &backend), nullptr);
  EXPECT_EQ(static_cast<TakesHost*>(backend.self)->host, host.table());
  backend.ops->shutdown(backend.self);
}

// ---- Manifest ---------------------------------------------------------------

TEST(PluginHelper, ManifestIsMadeByTheCompiler) {
  constexpr devrt_manifest_v0 kManifest =
      plugin::MakeManifest("acme_2", "Acme Inc.", "1.0", kPromised, 7);
  static_assert(kManifest.struct_size == sizeof(devrt_manifest_v0));
  EXPECT_STREQ(kManifest.magic, DEVRT_MANIFEST_MAGIC);
  EXPECT_EQ(kManifest.abi_major, DEVRT_ABI_MAJOR);
  EXPECT_EQ(kManifest.abi_minor, DEVRT_ABI_MINOR);
  EXPECT_EQ(kManifest.priority, 7u);
  EXPECT_EQ(kManifest.capabilities, kPromised);
  EXPECT_STREQ(kManifest.backend, "acme_2");
  EXPECT_STREQ(kManifest.vendor, "Acme Inc.");
  EXPECT_STREQ(kManifest.version, "1.0");
}

TEST(PluginHelper, NamesOfBackends) {
  using plugin::internal::IsName;
  EXPECT_TRUE(IsName("a"));
  EXPECT_TRUE(IsName("acme_2"));
  for (const char* bad : {"", "2a", "_a", "Acme", "acme:0", "ac me"}) {
    EXPECT_FALSE(IsName(bad)) << bad;
  }
}

// ---- Utilities --------------------------------------------------------------

TEST(PluginUtil, LongErrorTextsAreCutBetweenCharacters) {
  FakeHost host;
  const auto text = [&host](const std::string& what) {
    return OwnedStatus(plugin::ErrorF(host.table(), DEVRT_INTERNAL, 0, "%s",
                                      what.c_str()))
        .text();
  };
  EXPECT_EQ(text(std::string(1023, 'a')), std::string(1023, 'a'));
  EXPECT_EQ(text(std::string(2000, 'a')), std::string(1023, 'a'));
  // Two bytes each: the 1023rd byte would be half a character.
  std::string umlauts;
  for (int i = 0; i < 600; ++i) umlauts += "\xC3\xA4";
  EXPECT_EQ(text(umlauts), umlauts.substr(0, 1022));
  EXPECT_EQ(text(""), "");
}

TEST(PluginUtil, StructsOfAnyMinorAreReadAndWritten) {
  devrt_stream_desc_v0 mine = {};
  mine.struct_size = sizeof mine;
  mine.kind = DEVRT_STREAM_ADOPT;
  mine.flags = DEVRT_STREAM_BLOCKING;
  mine.priority = -3;
  mine.native = &mine;

  // An older caller's struct ends after `kind`.
  devrt_stream_desc_v0 caller;
  std::memset(&caller, 0x5A, sizeof caller);
  caller.struct_size = offsetof(devrt_stream_desc_v0, flags);
  const devrt_stream_desc_v0 untouched = caller;
  plugin::WriteStruct(&caller, mine);
  EXPECT_EQ(caller.struct_size, offsetof(devrt_stream_desc_v0, flags));
  EXPECT_EQ(caller.kind, DEVRT_STREAM_ADOPT);
  EXPECT_EQ(caller.flags, untouched.flags);
  EXPECT_EQ(caller.native, untouched.native);
  const devrt_stream_desc_v0 read = plugin::ReadStruct(&caller);
  EXPECT_EQ(read.kind, DEVRT_STREAM_ADOPT);
  EXPECT_EQ(read.flags, 0u);
  EXPECT_EQ(read.native, nullptr);

  // A newer caller's struct is longer than ours.
  struct {
    devrt_stream_desc_v0 desc;
    uint64_t later;
  } longer = {};
  longer.desc.struct_size = sizeof longer;
  longer.later = 42;
  plugin::WriteStruct(&longer.desc, mine);
  EXPECT_EQ(longer.desc.struct_size, sizeof longer);
  EXPECT_EQ(longer.desc.native, &mine);
  EXPECT_EQ(longer.later, 42u);
  EXPECT_EQ(plugin::ReadStruct(&longer.desc).priority, -3);

  // Of nothing nothing is written.
  caller = untouched;
  caller.struct_size = 0;
  plugin::WriteStruct(&caller, mine);
  EXPECT_EQ(caller.kind, untouched.kind);
}

TEST(PluginUtil, LogRespectsTheLevel) {
  FakeHost host;
  devrt_host_v0 quiet = *host.table();
  quiet.log_min_level = [](void*) -> int32_t { return DEVRT_LOG_WARNING; };
  plugin::Log(&quiet, DEVRT_LOG_INFO, "f.cc", 1, "quiet");
  plugin::Log(&quiet, DEVRT_LOG_ERROR, "f.cc", 2, "loud");
  EXPECT_EQ(host.logs(), std::vector<std::string>{"3 loud"});
}

}  // namespace
