// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/memory/memory.h"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "backends/mtia/common/error.h"
#include "backends/mtia/common/text.h"
#include "backends/mtia/memory/address_window.h"
#include "backends/mtia/memory/block_table.h"
#include "backends/mtia/memory/chunk_table.h"
#include "backends/mtia/memory/host_access.h"
#include "backends/mtia/memory/host_ranges.h"
#include "backends/mtia/memory/ordered_blocks.h"
#include "backends/mtia/memory/peers.h"
#include "backends/mtia/memory/pinned_guard.h"
#include "backends/mtia/memory/suballocations.h"

namespace devrt::mtia {
namespace {

constexpr uint32_t kNoWindow = ~0u;

constexpr int64_t kInvalidDevice = 101;  // CUDA's number

BlockRecords::Options DeviceOptions(const Config& config) {
  BlockRecords::Options options;
  options.capacity.total = config.memory;
  options.capacity.bytes =
      (config.memory - config.overhead) & ~(config.granularity - 1);
  options.capacity.granularity = config.granularity;
  options.gap = config.gap;
  options.capacity.contiguous = true;
  options.poison = config.poison;
  return options;
}

BlockRecords::Options PinnedOptions(const Config& config) {
  BlockRecords::Options options;
  options.capacity.total = config.pinned;
  options.capacity.bytes = config.pinned & ~(PageSize() - 1);
  options.capacity.granularity = PageSize();
  options.gap = config.gap;
  options.capacity.contiguous = false;
  options.poison = config.poison;
  return options;
}

}  // namespace

struct Memory::Impl {
  // The memory of a device, or pinned memory.
  struct Area {
    explicit Area(std::string name) : blocks(std::move(name), &window) {}
    void Reset(const BlockRecords::Options& options) {
      const std::unique_lock lock(blocks.records()->mutex());
      if (blocks.records()->Reset(options)) chunks.Clear();
    }
    AddressWindow window;
    BlockTable blocks;
    OrderedBlocks ordered{blocks.records()};
    ChunkTable chunks{blocks.records()};
    Suballocations suballocations;
  };

  static std::unique_ptr<Impl> Create(const Config& config, std::string* error);
  bool Map(std::string* error);
  bool Serves(const Config& next) const;
  void Reset(const Config& next);

  // The window that `ptr` is in: the number of its device, config.devices for
  // pinned memory, or kNoWindow.
  uint32_t WindowOf(const void* ptr) const;
  uint64_t OffsetIn(uint32_t window, const void* ptr) const;
  bool OverlapsWindows(uintptr_t begin, uint64_t size) const;
  // What `ptr` is, in words: "16 bytes into block #3 of mtia:0 (...)".
  std::string Describe(const void* ptr) const;

  devrt_status CheckDevice(uint32_t device) const;
  devrt_status CheckFree(uint32_t window, const void* ptr,
                         const devrt_call_site_v0& site) const;
  devrt_status FreeIn(uint32_t window, void* ptr,
                      const devrt_call_site_v0& site);
  Resolved FindInWindow(uint32_t window, const void* ptr) const;
  Resolved FindOutside(const void* ptr) const;

  Config config;
  uint32_t shift = 0;
  AddressReservation reservation;
  std::vector<std::unique_ptr<Area>> areas;  // the devices, then pinned
  HostRanges registered;
  PeerTable peers;
  std::unique_ptr<HostAccessMonitor> monitor;
  std::unique_ptr<PinnedGuard> guard;  // nullptr: not enabled
};

std::unique_ptr<Memory::Impl> Memory::Impl::Create(const Config& config,
                                                   std::string* error) {
  auto impl = std::make_unique<Impl>();
  impl->config = config;
  impl->shift = WindowShift(config);
  for (uint32_t i = 0; i <= config.devices; ++i) {
    impl->areas.push_back(std::make_unique<Area>(
        i == config.devices ? "pinned host memory" : DeviceName(i)));
  }
  if (!impl->Map(error)) return nullptr;
  std::vector<HostAccessMonitor::Memory> watched;
  for (uint32_t i = 0; i < config.devices; ++i) {
    watched.push_back({&impl->areas[i]->window, &impl->areas[i]->blocks});
  }
  impl->monitor = std::make_unique<HostAccessMonitor>(std::move(watched));
  if (PinnedGuard::enabled()) {
    impl->guard =
        std::make_unique<PinnedGuard>(&impl->areas[config.devices]->window);
  }
  impl->Reset(config);
  return impl;
}

bool Memory::Impl::Map(std::string* error) {
  const uint64_t size = uint64_t{1} << shift;
  if (areas.size() * size * 2 > kMaxAddresses) {
    *error = "devices=" + std::to_string(config.devices) +
             " of this memory= and pinned= need more addresses than a process "
             "has: use fewer or smaller ones";
    return false;
  }
  if (!reservation.Reserve(areas.size() * size, error)) return false;
  for (size_t i = 0; i < areas.size(); ++i) {
    const auto pinned = PinnedGuard::enabled() ? AddressWindow::Kind::kGuarded
                                               : AddressWindow::Kind::kHost;
    const auto kind =
        i == config.devices ? pinned : AddressWindow::Kind::kDevice;
    if (!areas[i]->window.Map(areas[i]->blocks.name().c_str(),
                              reservation.base() + i * size, size, kind,
                              error)) {
      return false;
    }
  }
  return true;
}

bool Memory::Impl::Serves(const Config& next) const {
  // A larger window does not do: addresses depend on the configuration only.
  return next.devices == config.devices && WindowShift(next) == shift;
}

void Memory::Impl::Reset(const Config& next) {
  config = next;
  for (uint32_t i = 0; i < config.devices; ++i) {
    areas[i]->Reset(DeviceOptions(config));
    areas[i]->suballocations.Reset();
  }
  areas[config.devices]->Reset(PinnedOptions(config));
  registered.Clear();
  peers.Reset(config);
  monitor->Reset(config.host_access);
  if (guard != nullptr) guard->Reset();
}

uint32_t Memory::Impl::WindowOf(const void* ptr) const {
  const auto address = reinterpret_cast<uintptr_t>(ptr);
  const auto base = reinterpret_cast<uintptr_t>(reservation.base());
  if (address < base) return kNoWindow;
  const uint64_t index = (address - base) >> shift;
  return index < areas.size() ? static_cast<uint32_t>(index) : kNoWindow;
}

uint64_t Memory::Impl::OffsetIn(uint32_t window, const void* ptr) const {
  return static_cast<uint64_t>(static_cast<const std::byte*>(ptr) -
                               areas[window]->window.base());
}

bool Memory::Impl::OverlapsWindows(uintptr_t begin, uint64_t size) const {
  const auto base = reinterpret_cast<uintptr_t>(reservation.base());
  const uint64_t reserved = uint64_t{areas.size()} << shift;
  return begin < base + reserved && base < begin + size;
}

std::string Memory::Impl::Describe(const void* ptr) const {
  if (ptr == nullptr) return "null";
  const uint32_t window = WindowOf(ptr);
  if (window != kNoWindow) {
    return areas[window]->blocks.Describe(OffsetIn(window, ptr));
  }
  HostRange range;
  if (registered.Find(reinterpret_cast<uintptr_t>(ptr), &range)) {
    return "registered host memory";
  }
  return "plain host memory";
}

devrt_status Memory::Impl::CheckDevice(uint32_t device) const {
  if (device < config.devices) return nullptr;
  return MakeError(DEVRT_INVALID_ARGUMENT, kInvalidDevice,
                   "Device index value " + std::to_string(device) +
                       " is out of index range [0, " +
                       std::to_string(config.devices) + ")");
}

devrt_status Memory::Impl::CheckFree(uint32_t window, const void* ptr,
                                     const devrt_call_site_v0& site) const {
  if (WindowOf(ptr) == window) return nullptr;
  return InvalidArgument(
      "free at " + CallSite(site).Text() + " of a pointer that is not of " +
      areas[window]->blocks.name() + ": " + Hex(ptr) + " is " + Describe(ptr));
}

devrt_status Memory::Impl::FreeIn(uint32_t window, void* ptr,
                                  const devrt_call_site_v0& site) {
  if (ptr == nullptr) return nullptr;
  if (devrt_status error = CheckFree(window, ptr, site)) return error;
  return areas[window]->blocks.Free(OffsetIn(window, ptr), site);
}

Resolved Memory::Impl::FindInWindow(uint32_t window, const void* ptr) const {
  Resolved found;
  BlockTable::Found block;
  const uint64_t offset = OffsetIn(window, ptr);
  Area& area = *areas[window];
  if (!area.blocks.Find(offset, &block)) return found;
  found.space = window == config.devices ? Space::kPinned : Space::kDevice;
  found.device = block.device;
  found.local = area.window.local() + offset;
  found.base = area.window.base() + block.offset;
  found.size = block.size;
  found.own = block.own;
  found.offset = offset - block.offset;
  found.id = block.id;
  found.ordered = block.ordered;
  found.is_pending = block.is_pending;
  found.closed = block.closed;
  return found;
}

Resolved Memory::Impl::FindOutside(const void* ptr) const {
  Resolved found;
  found.local = static_cast<std::byte*>(const_cast<void*>(ptr));
  HostRange range;
  const auto address = reinterpret_cast<uintptr_t>(ptr);
  if (!registered.Find(address, &range)) return found;
  found.space = Space::kRegistered;
  found.device = range.device;
  found.base = found.local - (address - range.begin);
  found.size = found.own = range.size;
  found.offset = address - range.begin;
  found.id = range.id;
  return found;
}

Memory::Memory() = default;
Memory::~Memory() = default;

std::unique_ptr<Memory> Memory::Create(const Config& config,
                                       std::string* error) {
  std::unique_ptr<Impl> impl = Impl::Create(config, error);
  if (impl == nullptr) return nullptr;
  std::unique_ptr<Memory> memory(new Memory);
  memory->impl_ = std::move(impl);
  return memory;
}

bool Memory::Prepare(const Config& config, std::string* error) {
  if (prepared_ != nullptr && prepared_->Serves(config)) return true;
  prepared_.reset();
  if (impl_->Serves(config)) return true;
  prepared_ = Impl::Create(config, error);
  return prepared_ != nullptr;
}

bool Memory::Reset(const Config& config, std::string* error) {
  std::string why;
  if (!Prepare(config, &why)) {
    impl_->Reset(Config(impl_->config));
    if (error != nullptr) *error = why;
    return false;
  }
  if (prepared_ == nullptr) {
    impl_->Reset(config);
    return true;
  }
  impl_ = std::move(prepared_);
  // The former mappings have ended, so the usual addresses are free.
  std::unique_ptr<Impl> next = Impl::Create(config, &why);
  if (next != nullptr) impl_ = std::move(next);
  impl_->Reset(config);
  return true;
}

devrt_status Memory::Alloc(uint32_t device, uint64_t size, uint64_t alignment,
                           const devrt_call_site_v0& site, void** ptr) {
  if (devrt_status error = impl_->CheckDevice(device)) return error;
  impl_->monitor->Watch();
  return impl_->areas[device]->blocks.Alloc(device, size, alignment, site, ptr);
}

devrt_status Memory::Free(uint32_t device, void* ptr,
                          const devrt_call_site_v0& site) {
  if (devrt_status error = impl_->CheckDevice(device)) return error;
  return impl_->FreeIn(device, ptr, site);
}

devrt_status Memory::AllocOrdered(uint32_t device, uint64_t size,
                                  uint64_t alignment, uint64_t stream,
                                  const devrt_call_site_v0& site, void** ptr,
                                  uint64_t* id) {
  impl_->monitor->Watch();
  return impl_->areas[device]->ordered.Alloc(device, size, alignment, stream,
                                             site, ptr, id);
}

void Memory::BeginOrdered(const void* ptr, uint64_t id) {
  const uint32_t window = impl_->WindowOf(ptr);
  impl_->areas[window]->ordered.Begin(impl_->OffsetIn(window, ptr), id);
}

devrt_status Memory::CloseOrdered(uint32_t device, void* ptr, uint64_t stream,
                                  uint64_t last, const devrt_call_site_v0& site,
                                  uint64_t* id) {
  if (devrt_status error = impl_->CheckFree(device, ptr, site)) return error;
  return impl_->areas[device]->ordered.Close(impl_->OffsetIn(device, ptr),
                                             stream, last, site, id);
}

bool Memory::EndOrdered(const void* ptr, uint64_t id, bool paint) {
  const uint32_t window = impl_->WindowOf(ptr);
  return impl_->areas[window]->ordered.End(impl_->OffsetIn(window, ptr), id,
                                           paint);
}

void Memory::Info(uint32_t device, uint64_t* free_bytes,
                  uint64_t* total) const {
  const bool exists = device < impl_->config.devices;
  *free_bytes = exists ? impl_->areas[device]->blocks.free_bytes() : 0;
  *total = exists ? impl_->config.memory : 0;
}

ChunkTable* Memory::ChunksOf(uint32_t device) {
  if (device >= impl_->config.devices) return nullptr;
  impl_->monitor->Watch();
  return &impl_->areas[device]->chunks;
}

ChunkTable* Memory::ChunksAt(const void* ptr, uint64_t* offset) {
  const uint32_t window = impl_->WindowOf(ptr);
  if (window >= impl_->config.devices) return nullptr;
  *offset = impl_->OffsetIn(window, ptr);
  return &impl_->areas[window]->chunks;
}

Suballocations* Memory::SuballocationsAt(const void* ptr, uint64_t* offset) {
  const uint32_t window = impl_->WindowOf(ptr);
  if (window >= impl_->config.devices) return nullptr;
  *offset = impl_->OffsetIn(window, ptr);
  return &impl_->areas[window]->suballocations;
}

bool Memory::CheckSuballocations(const void* ptr, uint64_t size, uint64_t op,
                                 std::string* why) const {
  const uint32_t window = impl_->WindowOf(ptr);
  if (window >= impl_->config.devices || size == 0) return true;
  const Suballocations& known = impl_->areas[window]->suballocations;
  if (known.is_empty() ||
      known.Check(impl_->OffsetIn(window, ptr), size, op, why)) {
    return true;
  }
  *why = Bytes(size) + " at " + Hex(ptr) + ": " + *why;
  return false;
}

devrt_status Memory::HostAlloc(uint32_t device, uint64_t size,
                               uint64_t alignment,
                               const devrt_call_site_v0& site, void** ptr) {
  if (devrt_status error = impl_->CheckDevice(device)) return error;
  Impl::Area& pinned = *impl_->areas[impl_->config.devices];
  return pinned.blocks.Alloc(device, size, alignment, site, ptr);
}

devrt_status Memory::HostFree(void* ptr, const devrt_call_site_v0& site) {
  return impl_->FreeIn(impl_->config.devices, ptr, site);
}

devrt_status Memory::Register(uint32_t device, void* ptr, uint64_t size,
                              const devrt_call_site_v0& site) {
  if (devrt_status error = impl_->CheckDevice(device)) return error;
  const auto begin = reinterpret_cast<uintptr_t>(ptr);
  const std::string what =
      "cannot register " + Bytes(size) + " at " + Hex(ptr) + ": ";
  if (ptr == nullptr || size == 0) {
    return InvalidArgument(what + "the range is empty");
  }
  if (size > ~uintptr_t{0} - begin) {
    return InvalidArgument(what + "the range passes the end of memory");
  }
  if (impl_->OverlapsWindows(begin, size)) {
    return InvalidArgument(what + "it is device or pinned memory already");
  }
  return impl_->registered.Add(device, begin, size, site);
}

devrt_status Memory::Unregister(void* ptr) {
  return impl_->registered.Remove(reinterpret_cast<uintptr_t>(ptr));
}

PinnedGuard* Memory::pinned_guard() const { return impl_->guard.get(); }

Resolved Memory::Find(const void* ptr) const {
  const uint32_t window = impl_->WindowOf(ptr);
  return window == kNoWindow ? impl_->FindOutside(ptr)
                             : impl_->FindInWindow(window, ptr);
}

std::string Memory::Describe(const void* ptr) const {
  return impl_->Describe(ptr);
}

std::byte* Memory::Local(uint32_t device, const void* ptr, uint64_t size,
                         std::string* why, uint64_t op) const {
  static std::byte nothing[1];
  if (size == 0) return nothing;
  const Resolved found = Find(ptr);
  const auto refuse = [&](const std::string& reason) -> std::byte* {
    *why = Bytes(size) + " at " + Hex(ptr) + ": " + reason;
    return nullptr;
  };
  if (found.space == Space::kHost) {
    return refuse(impl_->Describe(ptr) + ", which no device may access");
  }
  const uint64_t left = found.size - found.offset;
  if (size > left) {
    return refuse("only " + Bytes(left) + " lie from there to the end of " +
                  impl_->Describe(found.base));
  }
  if (found.space == Space::kDevice && found.device != device &&
      !PeerEnabled(device, found.device)) {
    return refuse("memory of " + DeviceName(found.device) +
                  ", but peer access from " + DeviceName(device) +
                  " to it is not enabled");
  }
  if (op != 0 && found.is_pending) {
    return refuse("use before the stream-ordered allocation of " +
                  impl_->Describe(ptr) + ": no event orders it behind that");
  }
  if (op > found.closed) {
    return refuse("use after the stream-ordered free of " +
                  impl_->Describe(ptr));
  }
  return found.local;
}

bool Memory::CanAccessPeer(uint32_t device, uint32_t peer) const {
  return impl_->peers.CanAccess(device, peer);
}

devrt_status Memory::EnablePeer(uint32_t device, uint32_t peer) {
  return impl_->peers.Enable(device, peer);
}

devrt_status Memory::DisablePeer(uint32_t device, uint32_t peer) {
  return impl_->peers.Disable(device, peer);
}

bool Memory::PeerEnabled(uint32_t device, uint32_t peer) const {
  return impl_->peers.Enabled(device, peer);
}

uint64_t Memory::live_blocks() const {
  uint64_t live = 0;
  for (uint32_t i = 0; i < impl_->config.devices; ++i) {
    live += impl_->areas[i]->blocks.live();
  }
  return live;
}

uint64_t Memory::live_pinned() const {
  return impl_->areas[impl_->config.devices]->blocks.live();
}

uint64_t Memory::live_registered() const { return impl_->registered.size(); }

uint64_t Memory::host_accesses() const { return impl_->monitor->count(); }

void Memory::CloseOpenedPages() { impl_->monitor->CloseOpenedPages(); }

}  // namespace devrt::mtia
