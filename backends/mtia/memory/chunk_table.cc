// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/memory/chunk_table.h"

#include <algorithm>
#include <iterator>
#include <mutex>
#include <string>
#include <utility>

#include "backends/mtia/common/error.h"
#include "backends/mtia/common/text.h"

namespace devrt::mtia {
namespace {

bool IsWhole(uint64_t value) { return (value & (kChunkGranularity - 1)) == 0; }

devrt_status CheckSize(const char* what, uint64_t size) {
  if (size != 0 && IsWhole(size)) return nullptr;
  return InvalidArgument(std::string(what) + " of " + Bytes(size) +
                         ": expected a multiple of the granularity, " +
                         Bytes(kChunkGranularity) + ", greater than 0");
}

}  // namespace

void ChunkTable::Clear() {
  reservations_.clear();
  chunks_.clear();
}

devrt_status ChunkTable::Reserve(uint64_t size, uint64_t alignment,
                                 void** base) {
  if (devrt_status error = CheckSize("a reservation", size)) return error;
  if (devrt_status error = records_.CheckAlignment(alignment)) return error;
  const std::unique_lock lock(records_.mutex());
  Block place;
  place.size = place.rounded = size;
  if (size > records_.window()->size() ||
      !records_.AllocateAddress(&place,
                                std::max(alignment, kChunkGranularity))) {
    return MakeError(DEVRT_RESOURCE_EXHAUSTED, kMemoryAllocation,
                     records_.name() + " is out of addresses: its window of " +
                         Bytes(records_.window()->size()) +
                         " has no room for " + Bytes(size));
  }
  *base = records_.window()->base() + place.offset;
  reservations_.insert_or_assign(place.offset, std::move(place));
  return nullptr;
}

devrt_status ChunkTable::Release(uint64_t offset, uint64_t size) {
  const std::unique_lock lock(records_.mutex());
  const auto found = reservations_.find(offset);
  if (found == reservations_.end() || found->second.size != size) {
    return InvalidArgument("no reservation of " + records_.name() + " of " +
                           Bytes(size) + " begins there");
  }
  const auto begin = records_.blocks().lower_bound(offset);
  const auto end = records_.blocks().lower_bound(offset + size);
  for (auto block = begin; block != end; ++block) {
    if (block->second.live) {
      return InvalidArgument("the reservation still holds " +
                             records_.Describe(block->first) +
                             ": unmap it first");
    }
  }
  records_.blocks().erase(begin, end);
  records_.FreeAddress(found->second);
  reservations_.erase(found);
  return nullptr;
}

devrt_status ChunkTable::Create(uint32_t device, uint64_t size,
                                uint64_t* chunk) {
  if (devrt_status error = CheckSize("a chunk", size)) return error;
  const std::unique_lock lock(records_.mutex());
  Chunk made;
  made.memory.size = size;
  made.memory.device = device;
  Capacity& capacity = records_.capacity();
  if (capacity.IsTooLarge(size) || !capacity.Allocate(&made.memory)) {
    return capacity.OutOfMemory(records_.name(), size);
  }
  records_.CountLive(1);
  *chunk = NextAllocationId();
  chunks_.emplace(*chunk, std::move(made));
  return nullptr;
}

devrt_status ChunkTable::Destroy(uint64_t chunk) {
  const std::unique_lock lock(records_.mutex());
  const auto found = chunks_.find(chunk);
  if (found == chunks_.end()) {
    return InvalidArgument("the chunk was destroyed or never made");
  }
  if (found->second.mapped) {
    return InvalidArgument("the chunk is mapped: unmap it first");
  }
  records_.capacity().Free(found->second.memory);
  records_.CountLive(-1);
  chunks_.erase(found);
  return nullptr;
}

bool ChunkTable::Has(uint64_t chunk) const {
  const std::shared_lock lock(records_.mutex());
  return chunks_.count(chunk) != 0;
}

// NULL if [offset, offset + size) lies in one reservation.
devrt_status ChunkTable::CheckPart(uint64_t offset, uint64_t size) const {
  if (devrt_status error = CheckSize("a mapping", size)) return error;
  const auto above = reservations_.upper_bound(offset);
  if (!IsWhole(offset) || above == reservations_.begin()) {
    return InvalidArgument(
        "the address is no multiple of the granularity in a reservation of " +
        records_.name());
  }
  const Block& place = std::prev(above)->second;
  const uint64_t at = offset - place.offset;
  if (at < place.size && size <= place.size - at) return nullptr;
  return InvalidArgument("the mapping of " + Bytes(size) +
                         " leaves its reservation of " + Bytes(place.size) +
                         " at offset " + std::to_string(at));
}

devrt_status ChunkTable::CheckUnmapped(uint64_t offset, uint64_t size) const {
  for (auto block = records_.Nearest(offset + size - 1);
       block != records_.blocks().end();) {
    const Block& b = block->second;
    if (b.offset + b.size <= offset) break;
    if (b.live) {
      return MakeError(
          DEVRT_ALREADY_EXISTS, 1,
          "memory is mapped there already: " + records_.Describe(b.offset));
    }
    if (block == records_.blocks().begin()) break;
    --block;
  }
  return nullptr;
}

devrt_status ChunkTable::Map(uint64_t offset, uint64_t size, uint64_t chunk,
                             const devrt_call_site_v0& site) {
  const std::unique_lock lock(records_.mutex());
  if (devrt_status error = CheckPart(offset, size)) return error;
  const auto found = chunks_.find(chunk);
  if (found == chunks_.end()) {
    return InvalidArgument("the chunk is not of " + records_.name() +
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
  records_.blocks().erase(records_.blocks().lower_bound(offset),
                          records_.blocks().lower_bound(offset + size));
  records_.window()->MakeFresh(offset, size, records_.options().poison);
  found->second.mapped = true;
  Block mapped;
  mapped.offset = offset;
  mapped.size = mapped.rounded = mapped.span = size;
  mapped.id = NextAllocationId();
  mapped.device = found->second.memory.device;
  mapped.chunk = chunk;
  mapped.allocated = CallSite(site);
  records_.blocks().insert_or_assign(offset, std::move(mapped));
  return nullptr;
}

devrt_status ChunkTable::Unmap(uint64_t offset, uint64_t size,
                               const devrt_call_site_v0& site) {
  const std::unique_lock lock(records_.mutex());
  if (devrt_status error = CheckPart(offset, size)) return error;
  const auto begin = records_.blocks().find(offset);
  uint64_t end = offset;
  for (auto block = begin;
       block != records_.blocks().end() && end < offset + size &&
       block->first == end && block->second.live;
       ++block) {
    end += block->second.size;
  }
  if (end != offset + size) {
    return InvalidArgument(
        "[+" + std::to_string(offset) + ", +" + std::to_string(offset + size) +
        ") of " + records_.name() + " is not made of whole mapped chunks");
  }
  for (auto block = begin;
       block != records_.blocks().end() && block->first < offset + size;
       ++block) {
    Block& b = block->second;
    records_.window()->MakeFreed(b.offset, b.size, records_.options().poison);
    b.live = false;
    b.freed = CallSite(site);
    chunks_.find(b.chunk)->second.mapped = false;
  }
  return nullptr;
}

}  // namespace devrt::mtia
