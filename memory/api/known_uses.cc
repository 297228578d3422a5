// SPDX-License-Identifier: Apache-2.0

#include "memory/api/known_uses.h"

#include <memory>
#include <vector>

#include "devrt/memory/memory_resource.h"
#include "memory/device/address_map.h"
#include "memory/device/block_pool.h"
#include "memory/device/device_allocator.h"
#include "memory/pinned/pinned_uses.h"
#include "memory/resource/block_owners.h"
#include "streams/objects/stream_record.h"

namespace devrt::internal {

bool AddKnownUses(const void* pointer, absl::Span<const StreamUse> uses) {
  Segment* const segment = AddressMap::Get().Find(pointer);
  if (segment == nullptr) return AddUsesOfPinned(pointer, uses);
  if (BlockOwners::HasCached()) return false;
  for (;;) {
    BlockPool* const pool = segment->pool.load(std::memory_order_acquire);
    if (pool == nullptr) return false;
    const PoolAnswer answer = pool->uses().AddPoints(segment, pointer, uses);
    if (answer == PoolAnswer::kMoved) continue;
    return answer == PoolAnswer::kDone;
  }
}

namespace {

// Returns true if a resource has a block around `pointer`.  `held` receives the
// block if it is the program's.
bool FindOwned(const void* pointer, std::optional<HeldBlock>* held) {
  bool is_held = false;
  for (const OwnedBlock& block : BlockOwners::Get().FindAround(pointer)) {
    const uintptr_t offset = reinterpret_cast<uintptr_t>(pointer) -
                             reinterpret_cast<uintptr_t>(block.base);
    if (offset >= block.bytes) continue;  // its end
    is_held = true;
    if (block.holder != nullptr) continue;  // another resource's
    *held = HeldBlock{block.base, block.bytes, block.id, std::nullopt, nullptr};
    if (IsAlive(block.stream) && IsOpen(block.stream.record()->device)) {
      (*held)->stream = block.stream;
    }
    break;
  }
  return is_held;
}

// FindHeldBlock, but for a pointer to the end of a block.
std::optional<HeldBlock> FindAround(const void* pointer) {
  Segment* const segment = AddressMap::Get().Find(pointer);
  const bool owned = segment == nullptr || BlockOwners::HasCached();
  if (owned) {
    std::optional<HeldBlock> held;
    if (FindOwned(pointer, &held)) return held;
  }
  for (;;) {
    BlockPool* const pool = segment == nullptr
                                ? nullptr
                                : segment->pool.load(std::memory_order_acquire);
    if (pool == nullptr) return std::nullopt;
    const std::optional<PoolUses::LiveBlock> block =
        pool->uses().Find(segment, pointer);
    if (block.has_value()) {
      // `pointer` lies in the bytes that rounding added to a resource's block.
      if (owned && !BlockOwners::Get().FindAt(block->base).empty()) {
        return std::nullopt;
      }
      DeviceAllocator* const allocator = segment->allocator;
      return HeldBlock{
          block->base, block->requested, block->id, block->stream,
          allocator->graphs().active() ? &allocator->graphs() : nullptr};
    }
    // The segment may have another pool by now.
    if (segment->pool.load(std::memory_order_acquire) == pool) {
      return std::nullopt;
    }
  }
}

}  // namespace

std::optional<HeldBlock> FindHeldBlock(const void* pointer) {
  std::optional<HeldBlock> held = FindAround(pointer);
  if (!held.has_value() && pointer != nullptr) {
    held = FindAround(static_cast<const char*>(pointer) - 1);
  }
  return held;
}

bool IsOfChosenResource(Device device, const void* pointer) {
  const std::shared_ptr<MemoryResource> chosen = GetMemoryResource(device);
  // The program's block is the outermost.
  const std::vector<OwnedBlock> owned = BlockOwners::Get().FindAt(pointer);
  if (!owned.empty()) return owned.back().resource == chosen.get();
  const Segment* const segment = AddressMap::Get().Find(pointer);
  const auto* const known = dynamic_cast<const KnownByAddress*>(chosen.get());
  return segment != nullptr && known != nullptr &&
         known->KnownAllocator() == segment->allocator;
}

bool LiesInCache(const void* pointer) {
  return AddressMap::Get().Find(pointer) != nullptr;
}

}  // namespace devrt::internal
