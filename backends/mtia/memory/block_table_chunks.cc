// SPDX-License-Identifier: Apache-2.0
//
// Chunks and reservations of a block table.
#include <algorithm>
#include <iterator>
#include <mutex>
#include <string>
#include <utility>

#include "backends/mtia/common/error.h"
#include "backends/mtia/common/text.h"
#include "backends/mtia/memory/block_table.h"

namespace devrt::mtia {
namespace {

constexpr int64_t kMemoryAllocation = 2;  // CUDA's number

bool IsWhole(uint64_t value) { return (value & (kChunkGranularity - 1)) == 0; }

devrt_status CheckSize(const char* what, uint64_t size) {
  if (size != 0 && IsWhole(size)) return nullptr;
  return InvalidArgument(std::string(what) + " of " + Bytes(size) +
                         ": expected a multiple of the granularity, " +
                         Bytes(kChunkGranularity) + ", greater than 0");
}

}  // namespace

devrt_status BlockTable::Reserve(uint64_t size, uint64_t alignment,
                                 void** base) {
  if (devrt_status error = CheckSize("a reservation", size)) return error;
  if (devrt_status error = CheckAlignment(alignment)) return error;
  const std::unique_lock lock(mutex_);
  Block place;
  place.size = place.rounded = size;
  if (size > window_->size() ||
      !AllocateAddress(&place, std::max(alignment, kChunkGranularity))) {
    return MakeError(DEVRT_RESOURCE_EXHAUSTED, kMemoryAllocation,
                     name_ + " is out of addresses: its window of " +
                         Bytes(window_->size()) + " has no room for " +
                         Bytes(size));
  }
  pristine_ = false;
  *base = window_->base() + place.offset;
  reservations_.insert_or_assign(place.offset, std::move(place));
  return nullptr;
}

devrt_status BlockTable::Release(uint64_t offset, uint64_t size) {
  const std::unique_lock lock(mutex_);
  const auto found = reservations_.find(offset);
  if (found == reservations_.end() || found->second.size != size) {
    return InvalidArgument("no reservation of " + name_ + " of " + Bytes(size) +
                           " begins there");
  }
  const auto begin = blocks_.lower_bound(offset);
  const auto end = blocks_.lower_bound(offset + size);
  for (auto block = begin; block != end; ++block) {
    if (block->second.live) {
      return InvalidArgument("the reservation still holds " +
                             DescribeLocked(block->first) + ": unmap it first");
    }
  }
  blocks_.erase(begin, end);
  FreeAddress(found->second);
  reservations_.erase(found);
  return nullptr;
}

devrt_status BlockTable::CreateChunk(uint32_t device, uint64_t size,
                                     uint64_t* chunk) {
  if (devrt_status error = CheckSize("a chunk", size)) return error;
  const std::unique_lock lock(mutex_);
  Chunk made;
  made.memory.size = size;
  made.memory.device = device;
  if (size > options_.total || !AllocateCapacity(&made.memory)) {
    return MakeError(DEVRT_RESOURCE_EXHAUSTED, kMemoryAllocation,
                     OutOfMemory(size));
  }
  pristine_ = false;
  ++live_;
  *chunk = NextAllocationId();
  chunks_.emplace(*chunk, std::move(made));
  return nullptr;
}

devrt_status BlockTable::DestroyChunk(uint64_t chunk) {
  const std::unique_lock lock(mutex_);
  const auto found = chunks_.find(chunk);
  if (found == chunks_.end()) {
    return InvalidArgument("the chunk was destroyed or never made");
  }
  if (found->second.mapped) {
    return InvalidArgument("the chunk is mapped: unmap it first");
  }
  FreeCapacity(found->second.memory);
  --live_;
  chunks_.erase(found);
  return nullptr;
}

bool BlockTable::HasChunk(uint64_t chunk) const {
  const std::shared_lock lock(mutex_);
  return chunks_.count(chunk) != 0;
}

// NULL if [offset, offset + size) lies in one reservation.
devrt_status BlockTable::CheckPart(uint64_t offset, uint64_t size) const {
  if (devrt_status error = CheckSize("a mapping", size)) return error;
  const auto above = reservations_.upper_bound(offset);
  if (!IsWhole(offset) || above == reservations_.begin()) {
    return InvalidArgument(
        "the address is no multiple of the granularity in a reservation of " +
        name_);
  }
  const Block& place = std::prev(above)->second;
  const uint64_t at = offset - place.offset;
  if (at < place.size && size <= place.size - at) return nullptr;
  return InvalidArgument("the mapping of " + Bytes(size) +
                         " leaves its reservation of " + Bytes(place.size) +
                         " at offset " + std::to_string(at));
}

devrt_status BlockTable::CheckUnmapped(uint64_t offset, uint64_t size) const {
  for (auto block = Nearest(offset + size - 1); block != blocks_.end();) {
    const Block& b = block->second;
    if (b.offset + b.size <= offset) break;
    if (b.live) {
      return MakeError(
          DEVRT_ALREADY_EXISTS, 1,
          "memory is mapped there already: " + DescribeLocked(b.offset));
    }
    if (block == blocks_.begin()) break;
    --block;
  }
  return nullptr;
}

devrt_status BlockTable::Map(uint64_t offset, uint64_t size, uint64_t chunk,
                             const devrt_call_site_v0& site) {
  const std::unique_lock lock(mutex_);
  if (devrt_status error = CheckPart(offset, size)) return error;
  const auto found = chunks_.find(chunk);
  if (found == chunks_.end()) {
    return InvalidArgument("the chunk is not of " + name_ +
                           ", the device of the reservation");
  }
  if (found->second.memory.size != size) {
    return InvalidArgument("a chunk of " + Bytes(found->second.memory.size) +
                           " is mapped whole, not " + Bytes(size) + " of it");
  }
  if (found->second.mapped) {
    return InvalidArgument("the chunk is mapped already: unmap it first");
  }
  if (devrt_status error = CheckUnmapped(offset, size)) return error;
  // What is known of former mappings that began there.
  blocks_.erase(blocks_.lower_bound(offset),
                blocks_.lower_bound(offset + size));
  window_->MakeFresh(offset, size, options_.poison);
  found->second.mapped = true;
  Block mapped;
  mapped.offset = offset;
  mapped.size = mapped.rounded = mapped.span = size;
  mapped.id = NextAllocationId();
  mapped.device = found->second.memory.device;
  mapped.chunk = chunk;
  mapped.allocated = CallSite(site);
  blocks_.insert_or_assign(offset, std::move(mapped));
  return nullptr;
}

devrt_status BlockTable::Unmap(uint64_t offset, uint64_t size,
                               const devrt_call_site_v0& site) {
  const std::unique_lock lock(mutex_);
  if (devrt_status error = CheckPart(offset, size)) return error;
  const auto begin = blocks_.find(offset);
  uint64_t end = offset;
  for (auto block = begin; block != blocks_.end() && end < offset + size &&
                           block->first == end && block->second.live;
       ++block) {
    end += block->second.size;
  }
  if (end != offset + size) {
    return InvalidArgument("[+" + std::to_string(offset) + ", +" +
                           std::to_string(offset + size) + ") of " + name_ +
                           " is not made of whole mapped chunks");
  }
  for (auto block = begin;
       block != blocks_.end() && block->first < offset + size; ++block) {
    Block& b = block->second;
    window_->MakeFreed(b.offset, b.size, options_.poison);
    b.live = false;
    b.freed = CallSite(site);
    chunks_.find(b.chunk)->second.mapped = false;
  }
  return nullptr;
}

}  // namespace devrt::mtia
