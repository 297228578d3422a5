// SPDX-License-Identifier: Apache-2.0
//
// A device's properties reach the program field by field. A search for plugins
// closes what it opens.

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "devrt/runtime/backend.h"
#include "devrt/runtime/device.h"
#include "devrt/runtime/raw_memory.h"
#include "runtime/registry/discovery.h"
#include "runtime/registry/records.h"
#include "tests/support/status_matchers.h"
#include "tests/support/subprocess.h"
#include "tests/unit/runtime/fake_backend.h"
#include "tests/unit/runtime/plugin_files.h"

namespace devrt {
namespace {

using testing::FakeBackend;
using testing::InChild;
using testing::Must;
using testing::TemporaryFolder;

// A number of its own for each field.
devrt_status Distinct(void*, uint32_t, devrt_device_props_v0* p) {
  std::strcpy(p->name, "a name");
  // As long as the field is: no NUL at its end.
  std::memset(p->arch, 'x', sizeof p->arch);
  for (uint8_t i = 0; i < 16; ++i) p->uuid[i] = static_cast<uint8_t>(0xf0 + i);
  p->pci_domain = 101;
  p->pci_bus = 102;
  p->pci_device = 103;
  p->compute_major = 104;
  p->compute_minor = 105;
  p->multiprocessors = 106;
  p->total_memory = 107;
  p->overhead_bytes = 108;
  p->alloc_alignment = 512;
  p->copy_engines = 110;
  p->priority_least = 111;
  p->priority_greatest = -112;
  p->queue_depth = 113;
  p->elapsed_resolution_ns = 114;
  p->pageable_async = 115;
  p->raw_free_syncs = 1;
  p->fault_delivery = 116;
  p->fault_scope = 117;
  p->device_reset = 1;
  return nullptr;
}

TEST(DevicePropertiesTest, EachFieldIsTheBackends) {
  InChild([] {
    FakeBackend& fake = FakeBackend::Register("fake", 1);
    const Device device = fake.device(0);
    device.record()->backend->ops.device_props = &Distinct;
    const DeviceProperties p = Must(device.Properties());
    EXPECT_EQ(p.name, "a name");
    EXPECT_EQ(p.arch, std::string(32, 'x'));
    EXPECT_EQ(p.uuid_string(), "f0f1f2f3-f4f5-f6f7-f8f9-fafbfcfdfeff");
    EXPECT_EQ(p.pci_domain, 101u);
    EXPECT_EQ(p.pci_bus, 102u);
    EXPECT_EQ(p.pci_device, 103u);
    EXPECT_EQ(p.compute_major, 104u);
    EXPECT_EQ(p.compute_minor, 105u);
    EXPECT_EQ(p.multiprocessors, 106u);
    EXPECT_EQ(p.total_memory, 107u);
    EXPECT_EQ(p.overhead_bytes, 108u);
    EXPECT_EQ(p.alloc_alignment, 512u);
    EXPECT_EQ(p.copy_engines, 110u);
    EXPECT_EQ(p.priority_least, 111);
    EXPECT_EQ(p.priority_greatest, -112);
    EXPECT_EQ(p.queue_depth, 113u);
    EXPECT_EQ(p.elapsed_resolution_ns, 114u);
    EXPECT_EQ(p.pageable_async, 115u);
    EXPECT_TRUE(p.raw_free_syncs);
    EXPECT_EQ(p.fault_delivery, 116u);
    EXPECT_EQ(p.fault_scope, 117u);
    EXPECT_TRUE(p.device_reset);
    EXPECT_EQ(p.capabilities, FakeBackend::kCapabilities);
  });
}

TEST(DevicePropertiesTest, EachFieldMakesADifference) {
  using P = DeviceProperties;
  const std::function<void(P*)> changes[] = {
      [](P* p) { p->name = "x"; },
      [](P* p) { p->arch = "x"; },
      [](P* p) { p->uuid[15] = 1; },
      [](P* p) { p->pci_domain = 1; },
      [](P* p) { p->pci_bus = 1; },
      [](P* p) { p->pci_device = 1; },
      [](P* p) { p->compute_major = 1; },
      [](P* p) { p->compute_minor = 1; },
      [](P* p) { p->multiprocessors = 1; },
      [](P* p) { p->total_memory = 1; },
      [](P* p) { p->overhead_bytes = 1; },
      [](P* p) { p->alloc_alignment = 1; },
      [](P* p) { p->copy_engines = 1; },
      [](P* p) { p->priority_least = 1; },
      [](P* p) { p->priority_greatest = 1; },
      [](P* p) { p->queue_depth = 1; },
      [](P* p) { p->elapsed_resolution_ns = 1; },
      [](P* p) { p->pageable_async = 1; },
      [](P* p) { p->raw_free_syncs = true; },
      [](P* p) { p->fault_delivery = 1; },
      [](P* p) { p->fault_scope = 1; },
      [](P* p) { p->device_reset = true; },
      [](P* p) { p->capabilities = 1; },
  };
  EXPECT_EQ(P(), P());
  for (size_t i = 0; i < std::size(changes); ++i) {
    P changed;
    changes[i](&changed);
    EXPECT_NE(changed, P()) << i;
    EXPECT_EQ(changed, P(changed)) << i;
  }
}

int64_t CountDescriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return std::distance(begin(all), end(all));
}

TEST(SearchTest, LeavesNoDescriptorOpen) {
  const TemporaryFolder folder;
  internal::Environment environment;
  environment.plugin_path = folder.path() + ":" + folder.path() + "/nowhere";
  environment.plugins = folder.path() +
                        "/libdevrt_missing.so:" + testing::PluginPath("good") +
                        ":/dev/null";
  (void)internal::Discover(environment);
  const int64_t before = CountDescriptors();
  for (int i = 0; i < 3; ++i) (void)internal::Discover(environment);
  EXPECT_EQ(CountDescriptors(), before);
}

// P10, of pinned memory: what is no block goes no further.
TEST(HostMemoryTest, BlocksThatAreNoneAreRefused) {
  InChild([] {
    FakeBackend& fake = FakeBackend::Register("fake", 1);
    const Device device = fake.device(0);
    static void* given = nullptr;
    device.record()->backend->ops.host_alloc = [](void*, uint32_t, uint64_t,
                                                  uint64_t, void** pointer) {
      *pointer = given;
      return devrt_status{};
    };
    alignas(64) static char memory[128];
    for (void* const wrong :
         {static_cast<void*>(nullptr), static_cast<void*>(memory + 32)}) {
      given = wrong;
      EXPECT_STATUS(AllocateHost(device, 64, 64), kInternal, "contract P10");
    }
    EXPECT_OK(Shutdown());  // nothing is alive
  });
}

}  // namespace
}  // namespace devrt
