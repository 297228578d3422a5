// SPDX-License-Identifier: Apache-2.0

#include "memory/device/hooks.h"

#include <atomic>
#include <optional>

#include "devrt/runtime/status.h"
#include "memory/common/settings_state.h"
#include "memory/device/address_map.h"
#include "memory/device/device_allocator.h"
#include "memory/device/use_notes.h"
#include "runtime/registry/memory_hooks.h"
#include "runtime/registry/process_state.h"
#include "streams/objects/ordering.h"
#include "streams/objects/use_hooks.h"

namespace devrt::internal {

namespace {

std::atomic<const PinnedHooks*> g_pinned{nullptr};
std::atomic<ReleaseHook> g_end_adopted_streams{nullptr};

// nullptr if no pinned memory was ever used.
const PinnedHooks* Pinned() { return g_pinned.load(std::memory_order_acquire); }

std::optional<AllocationRange> FindLive(const void* pointer, bool* cached) {
  Segment* segment = AddressMap::Get().Find(pointer);
  *cached = segment != nullptr;
  if (segment == nullptr) {
    if (Pinned() == nullptr) return std::nullopt;
    std::optional<AllocationRange> pinned = Pinned()->find_live(pointer);
    *cached = pinned.has_value();
    return pinned;
  }
  BlockPool* pool = segment->pool.load(std::memory_order_acquire);
  if (pool == nullptr) return std::nullopt;
  const std::optional<PoolUses::LiveBlock> found =
      pool->uses().Find(segment, pointer);
  if (!found.has_value()) return std::nullopt;
  // The program does not own the bytes that rounding added.
  const uintptr_t offset = reinterpret_cast<uintptr_t>(pointer) -
                           reinterpret_cast<uintptr_t>(found->base);
  if (offset >= found->requested) return std::nullopt;
  AllocationRange range;
  range.device = segment->allocator->device();
  range.kind = PointerKind::kDevice;
  range.base = found->base;
  range.size = found->requested;
  range.id = found->id;
  range.cached = true;
  return range;
}

std::optional<AllocationRange> FindFreed(const void* pointer) {
  Segment* segment = AddressMap::Get().Find(pointer);
  if (segment == nullptr) {
    return Pinned() != nullptr ? Pinned()->find_freed(pointer) : std::nullopt;
  }
  BlockPool* pool = segment->pool.load(std::memory_order_acquire);
  if (pool == nullptr) return std::nullopt;
  const CallSite freed = pool->uses().FindFreed(segment, pointer);
  if (freed.file == nullptr) return std::nullopt;
  AllocationRange range;
  range.device = segment->allocator->device();
  range.kind = PointerKind::kDevice;
  range.freed = freed;
  range.cached = true;
  return range;
}

DeviceAllocator* Existing(DeviceRecord* device) {
  return device->allocator.load(std::memory_order_acquire);
}

int64_t CountLive(DeviceRecord* device) {
  int64_t live = 0;
  if (DeviceAllocator* main = Existing(device)) {
    for (DeviceAllocator* a : main->family().Members())
      live += a->pools().CountLive();
  }
  if (Pinned() != nullptr) live += Pinned()->count_live(device);
  return live;
}

void Release(DeviceRecord* device) {
  const ReleaseHook end_adopted_streams =
      g_end_adopted_streams.load(std::memory_order_acquire);
  if (end_adopted_streams != nullptr) end_adopted_streams(device);
  if (DeviceAllocator* main = Existing(device)) {
    for (DeviceAllocator* a : main->family().Members()) a->Release();
  }
  if (Pinned() != nullptr) Pinned()->release(device);
}

void Settle(DeviceRecord* device) {
  if (DeviceAllocator* main = Existing(device)) {
    for (DeviceAllocator* a : main->family().Members()) a->Settle();
  }
}

void EndStream(StreamRef stream) {
  if (DeviceAllocator* main = Existing(stream.record()->device)) {
    for (DeviceAllocator* a : main->family().Members())
      a->pools().EndStream(stream);
  }
}

void MarkUses(StreamRef stream, const UsedRange* ranges, size_t count) {
  OrderPoint point;  // one for all blocks, each of which may add a checkpoint
  const Segment* own = nullptr;  // the newest one whose blocks need no note
  for (size_t i = 0; i < count; ++i) {
    if (ranges[i].bytes == 0) continue;
    const auto address = reinterpret_cast<uintptr_t>(ranges[i].pointer);
    if (own != nullptr && own->Holds(address)) continue;
    Segment* segment = AddressMap::Get().Find(ranges[i].pointer);
    if (segment == nullptr) {
      if (Pinned() != nullptr) Pinned()->note_use(ranges[i].pointer, stream);
      continue;
    }
    // Most blocks belong to the stream, and need no note.
    const BlockPool* pool = segment->pool.load(std::memory_order_acquire);
    if (pool == nullptr || pool->IsOwn(stream)) {
      own = segment;
      continue;
    }
    if (point.timeline == nullptr) point = PointOf(stream);
    NoteUse(segment, ranges[i].pointer, stream, point);
  }
}

absl::Status SetFractionOfAll(double fraction) {
  for (BackendRecord* backend : OpenedBackends()) {
    for (DeviceRecord* device : backend->devices) {
      DeviceAllocator* const allocator = Existing(device);
      if (allocator == nullptr) continue;
      DEVRT_RETURN_IF_ERROR(
          allocator->family().budget()->SetFraction(fraction));
    }
  }
  return absl::OkStatus();
}

constexpr MemoryHooks kHooks = {&FindLive, &FindFreed, &CountLive, &Release,
                                &Settle};

}  // namespace

void InstallMemoryHooks() {
  SetMemoryHooks(&kHooks);
  SetStreamEndHook(&EndStream);
  SetUseHook(&MarkUses);
  SetFractionHook(&SetFractionOfAll);
}

void InstallPinnedHooks(const PinnedHooks* hooks) {
  g_pinned.store(hooks, std::memory_order_release);
  InstallMemoryHooks();
}

void InstallAdoptedStreamsHook(ReleaseHook release) {
  g_end_adopted_streams.store(release, std::memory_order_release);
  InstallMemoryHooks();
}

}  // namespace devrt::internal
