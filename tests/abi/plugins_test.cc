// SPDX-License-Identifier: Apache-2.0
//
// The legal plugins of plugins/, without the runtime: each opens, does its job
// through its table alone, and ends. One of them is linked into this program.

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "devrt/backends/abi/devrt_plugin.h"
#include "devrt/backends/abi/devrt_plugin_helper.h"
#include "tests/support/fake_host.h"

DEVRT_STATIC_PLUGIN(good_helper);

namespace {

using devrt::test::FakeHost;
using devrt::test::OwnedStatus;

struct Plugin {
  const devrt_manifest_v0* manifest = nullptr;
  devrt_plugin_open_fn_v0 open = nullptr;
};

// `name` is a file of plugins/, or "static".
Plugin Find(const std::string& name) {
  if (name == "static") {
    return {&devrt_plugin_manifest_v0_good_helper,
            &devrt_plugin_open_v0_good_helper};
  }
  const char* const folder = std::getenv("DEVRT_TEST_PLUGIN_DIR");
  if (folder == nullptr) {
    ADD_FAILURE() << "DEVRT_TEST_PLUGIN_DIR is not set";
    return {};
  }
  const std::string path = std::string(folder) + "/libdevrt_" + name + ".so";
  void* const library =
      dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) {
    ADD_FAILURE() << dlerror();
    return {};
  }
  Plugin plugin;
  plugin.manifest = static_cast<const devrt_manifest_v0*>(
      dlsym(library, DEVRT_PLUGIN_MANIFEST_SYMBOL));
  plugin.open = reinterpret_cast<devrt_plugin_open_fn_v0>(
      dlsym(library, DEVRT_PLUGIN_OPEN_SYMBOL));
  return plugin;
}

class PluginTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    plugin_ = Find(GetParam());
    ASSERT_NE(plugin_.manifest, nullptr);
    ASSERT_NE(plugin_.open, nullptr);
    backend_.struct_size = sizeof backend_;
    ASSERT_TRUE(Ok(plugin_.open(host_.table(), &backend_)));
    ASSERT_NE(backend_.ops, nullptr);
    // Every host copies a table of any length so.
    std::memcpy(&ops_, backend_.ops,
                std::min<size_t>(backend_.ops->struct_size, sizeof ops_));
    self_ = backend_.self;
  }
  void TearDown() override {
    if (ops_.shutdown != nullptr) ops_.shutdown(self_);
    EXPECT_EQ(host_.live_errors(), 0);
  }

  static testing::AssertionResult Ok(devrt_status status) {
    const OwnedStatus owned(status);
    if (owned.ok()) return testing::AssertionSuccess();
    return testing::AssertionFailure() << owned.code() << " " << owned.text();
  }
  static devrt_code CodeOf(devrt_status status) {
    return OwnedStatus(status).code();
  }
  uint32_t Devices() {
    uint32_t count = 0;
    EXPECT_TRUE(Ok(ops_.device_count(self_, &count)));
    return count;
  }
  devrt_stream Create(uint32_t device, uint32_t kind) {
    devrt_stream_desc_v0 desc = {};
    desc.struct_size = sizeof desc;
    desc.kind = kind;
    devrt_stream stream = nullptr;
    EXPECT_TRUE(Ok(ops_.stream_create(self_, device, &desc, &stream)));
    return stream;
  }

  FakeHost host_;
  Plugin plugin_;
  devrt_backend_v0 backend_ = {};
  devrt_ops_v0 ops_ = {};
  void* self_ = nullptr;
};

TEST_P(PluginTest, HasAllThatIsRequiredAndKeepsItsPromises) {
#define DEVRT_SLOT(slot, required, capability)                     \
  if ((required) || (backend_.capabilities & (capability)) != 0) { \
    EXPECT_NE(ops_.slot, nullptr) << #slot;                        \
  }
#include "devrt/backends/abi/devrt_slots.inc"
  EXPECT_EQ(backend_.capabilities & ~plugin_.manifest->capabilities, 0u);
}

TEST_P(PluginTest, DescribesItsDevicesIntoStructsOfAnySize) {
  for (uint32_t device = 0; device < Devices(); ++device) {
    devrt_device_props_v0 props = {};
    props.struct_size = sizeof props;
    ASSERT_TRUE(Ok(ops_.device_props(self_, device, &props)));
    EXPECT_EQ(props.struct_size, sizeof props);
    EXPECT_EQ(props.ordinal, device);
    EXPECT_NE(props.name[0], '\0');
    EXPECT_GE(props.copy_engines, 1u);
    EXPECT_GE(props.alloc_alignment, 1u);

    devrt_device_props_v0 shorter;
    std::memset(&shorter, 0x5A, sizeof shorter);
    shorter.struct_size = offsetof(devrt_device_props_v0, total_memory);
    ASSERT_TRUE(Ok(ops_.device_props(self_, device, &shorter)));
    EXPECT_STREQ(shorter.name, props.name);
    EXPECT_EQ(shorter.total_memory, 0x5A5A5A5A5A5A5A5Au);
  }
}

TEST_P(PluginTest, MovesBytes) {
  constexpr uint64_t kSize = 1000;
  for (uint32_t device = 0; device < Devices(); ++device) {
    uint64_t free_before = 0;
    uint64_t total = 0;
    ASSERT_TRUE(Ok(ops_.mem_info(self_, device, &free_before, &total)));
    void* memory = nullptr;
    ASSERT_TRUE(Ok(ops_.alloc(self_, device, kSize, 0, &memory)));
    const devrt_stream stream = Create(device, DEVRT_STREAM_CREATE);

    std::vector<unsigned char> host(kSize);
    ASSERT_TRUE(Ok(ops_.fill_async(self_, stream, memory, 0x1A7, kSize)));
    ASSERT_TRUE(Ok(ops_.copy_async(self_, stream, host.data(), memory, kSize,
                                   DEVRT_COPY_D2H)));
    ASSERT_TRUE(Ok(ops_.stream_sync(self_, stream)));
    EXPECT_EQ(host, std::vector<unsigned char>(kSize, 0xA7));

    devrt_event event = nullptr;
    ASSERT_TRUE(Ok(ops_.event_create(self_, device, 0, &event)));
    ASSERT_TRUE(Ok(ops_.event_record(self_, event, stream)));
    ASSERT_TRUE(Ok(ops_.event_sync(self_, event)));
    uint32_t done = 0;
    ASSERT_TRUE(Ok(ops_.event_query(self_, event, &done)));
    EXPECT_EQ(done, 1u);
    ASSERT_TRUE(Ok(ops_.stream_wait_event(self_, stream, event)));
    ASSERT_TRUE(Ok(ops_.device_sync(self_, device)));

    EXPECT_TRUE(Ok(ops_.event_destroy(self_, event)));
    EXPECT_TRUE(Ok(ops_.stream_destroy(self_, stream)));
    EXPECT_TRUE(Ok(ops_.dealloc(self_, device, memory, kSize)));
    uint64_t free_after = 0;
    ASSERT_TRUE(Ok(ops_.mem_info(self_, device, &free_after, &total)));
    EXPECT_EQ(free_after, free_before);
  }
}

TEST_P(PluginTest, OutOfMemoryChangesNothing) {
  uint64_t free_bytes = 0;
  uint64_t total = 0;
  ASSERT_TRUE(Ok(ops_.mem_info(self_, 0, &free_bytes, &total)));
  void* memory = this;
  for (const uint64_t size : {free_bytes + 1, UINT64_MAX}) {
    EXPECT_EQ(CodeOf(ops_.alloc(self_, 0, size, 0, &memory)),
              DEVRT_RESOURCE_EXHAUSTED);
  }
  EXPECT_EQ(memory, this);
  uint64_t free_after = 0;
  ASSERT_TRUE(Ok(ops_.mem_info(self_, 0, &free_after, &total)));
  EXPECT_EQ(free_after, free_bytes);
}

TEST_P(PluginTest, DefaultStreamsAreUniqueAndCannotBeDestroyed) {
  for (const uint32_t kind : {DEVRT_STREAM_LEGACY, DEVRT_STREAM_PER_THREAD}) {
    const devrt_stream stream = Create(0, kind);
    EXPECT_EQ(Create(0, kind), stream);
    EXPECT_EQ(CodeOf(ops_.stream_destroy(self_, stream)),
              DEVRT_INVALID_ARGUMENT);
    EXPECT_TRUE(Ok(ops_.stream_sync(self_, stream)));
  }
}

TEST_P(PluginTest, ContextsNest) {
  const uint32_t last = Devices() - 1;
  uint32_t before = 99;
  ASSERT_TRUE(Ok(ops_.context_current(self_, &before)));
  devrt_context outer = {};
  devrt_context inner = {};
  uint32_t device = 99;
  ASSERT_TRUE(Ok(ops_.context_enter(self_, last, &outer)));
  ASSERT_TRUE(Ok(ops_.context_enter(self_, 0, &inner)));
  ASSERT_TRUE(Ok(ops_.context_current(self_, &device)));
  EXPECT_EQ(device, 0u);
  ASSERT_TRUE(Ok(ops_.context_exit(self_, &inner)));
  ASSERT_TRUE(Ok(ops_.context_current(self_, &device)));
  EXPECT_EQ(device, last);
  ASSERT_TRUE(Ok(ops_.context_exit(self_, &outer)));
  ASSERT_TRUE(Ok(ops_.context_current(self_, &device)));
  EXPECT_EQ(device, before);
}

TEST_P(PluginTest, CanBeOpenedTwiceAtOnce) {
  if (GetParam() == std::string("null_self")) {
    GTEST_SKIP() << "has one global state";
  }
  FakeHost second;
  devrt_backend_v0 other = {};
  other.struct_size = sizeof other;
  ASSERT_TRUE(Ok(plugin_.open(second.table(), &other)));
  void* memory = nullptr;
  const OwnedStatus status(
      other.ops->alloc(other.self, 0, UINT64_MAX, 0, &memory));
  EXPECT_EQ(second.live_errors(), 1);
  EXPECT_EQ(host_.live_errors(), 0);
  other.ops->shutdown(other.self);
}

INSTANTIATE_TEST_SUITE_P(
    Legal, PluginTest,
    testing::Values("good", "good_helper", "good_sysv_hash", "tiny", "static",
                    "null_self", "older_minor", "newer_minor", "no_sections",
                    "cut_c", "cut_helper", "appended_c", "appended_helper"),
    [](const auto& test) { return std::string(test.param); });

}  // namespace
