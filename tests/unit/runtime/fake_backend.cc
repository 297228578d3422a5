// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/runtime/fake_backend.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <stdexcept>

#include "tests/support/status_matchers.h"

namespace devrt::testing {
namespace {

constexpr int kMostFakes = 8;
FakeBackend* fakes[kMostFakes];
int fake_count = 0;

thread_local uint32_t current_device = 0;

template <int kNumber>
devrt_status OpenFake(const devrt_host_v0* host, devrt_backend_v0* backend) {
  return fakes[kNumber]->Open(host, backend);
}

constexpr devrt_plugin_open_fn_v0 kOpens[kMostFakes] = {
    &OpenFake<0>, &OpenFake<1>, &OpenFake<2>, &OpenFake<3>,
    &OpenFake<4>, &OpenFake<5>, &OpenFake<6>, &OpenFake<7>};

FakeBackend& Fake(void* self) { return *static_cast<FakeBackend*>(self); }

#define FAKE_ENTER(slot) \
  if (devrt_status error = Fake(self).Enter(slot)) return error

// Blocks that were not given back.  A lost device gives nothing back
// (docs/reference/semantics.md 2.5): kept here, what it had stays reachable for
// a leak checker.
struct Blocks {
  std::mutex mutex;
  std::set<void*> live;
};
Blocks& AllBlocks() {
  static Blocks* const blocks = new Blocks;
  return *blocks;
}

void* AlignedMemory(uint64_t size, uint64_t alignment) {
  const uint64_t unit = std::max<uint64_t>(alignment, 256);
  void* ptr = std::aligned_alloc(unit, (size + unit - 1) / unit * unit);
  std::lock_guard<std::mutex> lock(AllBlocks().mutex);
  AllBlocks().live.insert(ptr);
  return ptr;
}

void FreeMemory(void* ptr) {
  {
    std::lock_guard<std::mutex> lock(AllBlocks().mutex);
    AllBlocks().live.erase(ptr);
  }
  std::free(ptr);
}

void Shutdown(void* self) {
  Fake(self).Enter("shutdown");
  const char* const thrown = Fake(self).thrown_by_shutdown;
  if (thrown != nullptr) throw std::runtime_error(thrown);
}

devrt_status DeviceCount(void* self, uint32_t* count) {
  FAKE_ENTER("device_count");
  *count = Fake(self).devices();
  return nullptr;
}

devrt_status DeviceProps(void* self, uint32_t device,
                         devrt_device_props_v0* props) {
  FAKE_ENTER("device_props");
  std::snprintf(props->name, sizeof props->name, "fake device %u", device);
  std::snprintf(props->arch, sizeof props->arch, "fake");
  for (uint8_t i = 0; i < 16; ++i) props->uuid[i] = i;
  props->total_memory = FakeBackend::kCapacity;
  props->alloc_alignment = 256;
  props->priority_greatest = -2;
  return nullptr;
}

devrt_status MemInfo(void* self, uint32_t device, uint64_t* free_bytes,
                     uint64_t* total_bytes) {
  FAKE_ENTER("mem_info");
  *total_bytes = FakeBackend::kCapacity;
  *free_bytes =
      FakeBackend::kCapacity - FakeBackend::kOverhead - Fake(self).used(device);
  return nullptr;
}

devrt_status Alloc(void* self, uint32_t device, uint64_t size,
                   uint64_t alignment, void** ptr) {
  FAKE_ENTER("alloc");
  if (const auto during = Fake(self).during_alloc.load()) during();
  if (!Fake(self).Use(device, size)) {
    FakeFailure full;
    full.code = DEVRT_RESOURCE_EXHAUSTED;
    full.text = "out of memory";
    full.native_code = 2;
    full.native_name = "cudaErrorMemoryAllocation";
    full.entry_point = "cuMemAlloc";
    Fake(self).Fail("full", full);
    return Fake(self).Enter("full");
  }
  void* chosen = Fake(self).next_block.exchange(nullptr);
  *ptr = chosen != nullptr ? chosen : AlignedMemory(size, alignment);
  return nullptr;
}

devrt_status Dealloc(void* self, uint32_t device, void* ptr, uint64_t size) {
  FAKE_ENTER("dealloc");
  FreeMemory(ptr);
  Fake(self).Release(device, size);
  return nullptr;
}

devrt_status DeviceSync(void* self, uint32_t) {
  FAKE_ENTER("device_sync");
  return nullptr;
}

devrt_status ContextEnter(void* self, uint32_t device, devrt_context*) {
  FAKE_ENTER("context_enter");
  current_device = device;
  return nullptr;
}

devrt_status ContextCurrent(void* self, uint32_t* device) {
  FAKE_ENTER("context_current");
  *device = current_device;
  return nullptr;
}

devrt_status HostAlloc(void* self, uint32_t, uint64_t size, uint64_t alignment,
                       void** ptr) {
  FAKE_ENTER("host_alloc");
  *ptr = AlignedMemory(size, alignment);
  return nullptr;
}

devrt_status HostDealloc(void* self, void* ptr, uint64_t) {
  FAKE_ENTER("host_dealloc");
  FreeMemory(ptr);
  return nullptr;
}

devrt_status HostRegister(void* self, uint32_t, void*, uint64_t) {
  FAKE_ENTER("host_register");
  return nullptr;
}

devrt_status HostUnregister(void* self, void*) {
  FAKE_ENTER("host_unregister");
  return nullptr;
}

devrt_status PointerInfo(void* self, const void* ptr,
                         devrt_pointer_info_v0* info) {
  FAKE_ENTER("pointer_info");
  const devrt_pointer_info_v0& foreign = Fake(self).foreign;
  const uintptr_t offset = reinterpret_cast<uintptr_t>(ptr) -
                           reinterpret_cast<uintptr_t>(foreign.base);
  if (foreign.base != nullptr && offset < foreign.size) *info = foreign;
  return nullptr;
}

devrt_status PeerCanAccess(void* self, uint32_t, uint32_t, uint32_t* can) {
  FAKE_ENTER("peer_can_access");
  *can = Fake(self).can_access;
  return nullptr;
}

devrt_status PeerEnable(void* self, uint32_t, uint32_t) {
  if (Fake(self).foreign_peers) {
    FakeFailure on_already;
    on_already.code = DEVRT_ALREADY_EXISTS;
    on_already.native_code = 704;
    Fake(self).Fail("peer_enable", on_already);
  }
  FAKE_ENTER("peer_enable");
  return nullptr;
}

devrt_status PeerDisable(void* self, uint32_t, uint32_t) {
  FAKE_ENTER("peer_disable");
  return nullptr;
}

// A required slot that these tests do not use.
template <typename... Args>
devrt_status Nothing(void*, Args...) {
  return nullptr;
}
template <typename... Args>
void FillRequired(devrt_status (**slot)(void*, Args...), bool required) {
  if (required && *slot == nullptr) *slot = &Nothing<Args...>;
}

devrt_ops_v0 MakeTable() {
  devrt_ops_v0 ops = {};
  ops.struct_size = sizeof ops;
  ops.shutdown = &Shutdown;
  ops.device_count = &DeviceCount;
  ops.device_props = &DeviceProps;
  ops.mem_info = &MemInfo;
  ops.alloc = &Alloc;
  ops.dealloc = &Dealloc;
  ops.device_sync = &DeviceSync;
  ops.context_enter = &ContextEnter;
  ops.context_current = &ContextCurrent;
  ops.host_alloc = &HostAlloc;
  ops.host_dealloc = &HostDealloc;
  ops.host_register = &HostRegister;
  ops.host_unregister = &HostUnregister;
  ops.pointer_info = &PointerInfo;
  ops.peer_can_access = &PeerCanAccess;
  ops.peer_enable = &PeerEnable;
  ops.peer_disable = &PeerDisable;
#define DEVRT_SLOT(name, required, capability) \
  FillRequired(&ops.name, (required) != 0);
#include "devrt/backends/abi/devrt_slots.inc"
  return ops;
}

}  // namespace

FakeBackend& FakeBackend::Register(const std::string& name, uint32_t devices,
                                   uint64_t capabilities, uint32_t priority) {
  const int number = fake_count++;
  if (number >= kMostFakes) std::abort();
  FakeBackend* fake = new FakeBackend;
  fakes[number] = fake;
  fake->name_ = name;
  fake->devices_ = devices;
  fake->used_.resize(devices);
  devrt_manifest_v0& m = fake->manifest_;
  std::memcpy(m.magic, DEVRT_MANIFEST_MAGIC, sizeof m.magic);
  m.struct_size = sizeof m;
  m.priority = priority;
  m.capabilities = capabilities;
  std::snprintf(m.backend, sizeof m.backend, "%s", name.c_str());
  std::snprintf(m.vendor, sizeof m.vendor, "devrt tests");
  std::snprintf(m.version, sizeof m.version, "1.0");
  Must(RegisterBackend(&m, kOpens[number]));
  return *fake;
}

devrt_status FakeBackend::Open(const devrt_host_v0* host,
                               devrt_backend_v0* backend) {
  static const devrt_ops_v0 ops = MakeTable();
  host_ = host;
  backend->self = this;
  backend->ops = &ops;
  backend->capabilities = manifest_.capabilities;
  return Enter("open");
}

Backend FakeBackend::backend() const { return Must(GetBackend(name_)); }

Device FakeBackend::device(int index) const {
  return Must(GetDevice(name_, index));
}

void FakeBackend::Fail(const std::string& slot, FakeFailure failure) {
  std::lock_guard<std::mutex> lock(mutex_);
  failures_[slot] = std::move(failure);
}

int FakeBackend::Calls(const std::string& slot) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = calls_.find(slot);
  return found == calls_.end() ? 0 : found->second;
}

devrt_status FakeBackend::Enter(const char* slot) {
  std::lock_guard<std::mutex> lock(mutex_);
  ++calls_[slot];
  const auto found = failures_.find(slot);
  if (found == failures_.end()) return nullptr;
  const FakeFailure failure = found->second;
  failures_.erase(found);
  devrt_status error =
      host_->error_create(host_->host, failure.code, failure.native_code,
                          failure.text.data(), failure.text.size());
  devrt_error_origin_v0 origin = {};
  origin.struct_size = sizeof origin;
  origin.flags = failure.flags;
  origin.native_code = failure.native_code;
  origin.device = failure.device;
  origin.native_name = failure.native_name.c_str();
  origin.entry_point = failure.entry_point.c_str();
  host_->error_set_origin(host_->host, error, &origin);
  return error;
}

uint64_t FakeBackend::used(uint32_t device) const {
  std::lock_guard<std::mutex> lock(mutex_);
  return used_[device];
}

bool FakeBackend::Use(uint32_t device, uint64_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (bytes > kCapacity - kOverhead - used_[device]) return false;
  used_[device] += bytes;
  return true;
}

void FakeBackend::Release(uint32_t device, uint64_t bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  used_[device] -= bytes;
}

}  // namespace devrt::testing
