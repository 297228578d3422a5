// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/memory/block_table.h"

#include <iterator>
#include <mutex>
#include <shared_mutex>
#include <utility>

#include "backends/mtia/common/error.h"

namespace devrt::mtia {

BlockTable::BlockTable(std::string name, AddressWindow* window)
    : records_(std::move(name), window) {}

devrt_status BlockTable::Alloc(uint32_t device, uint64_t size,
                               uint64_t alignment,
                               const devrt_call_site_v0& site, void** ptr) {
  if (devrt_status error = records_.CheckRequest(size, alignment)) return error;
  const std::unique_lock lock(records_.mutex());
  Block block;
  block.size = size;
  block.device = device;
  Capacity& capacity = records_.capacity();
  if (capacity.IsTooLarge(size) || !capacity.Allocate(&block)) {
    return capacity.OutOfMemory(name(), size);
  }
  return records_.Place(std::move(block), alignment, site, ptr);
}

devrt_status BlockTable::Free(uint64_t offset, const devrt_call_site_v0& site) {
  const std::unique_lock lock(records_.mutex());
  const auto found = records_.blocks().find(offset);
  if (found == records_.blocks().end()) {
    return InvalidArgument(
        "free at " + CallSite(site).Text() +
        " of a pointer that is not the start of a block: it points " +
        records_.Describe(offset));
  }
  Block& block = found->second;
  if (!block.live || block.closed != kNotClosed) {
    return InvalidArgument("second free, at " + CallSite(site).Text() +
                           ", of " + records_.Describe(offset));
  }
  if (block.chunk != 0) {
    return InvalidArgument("free at " + CallSite(site).Text() +
                           " of mapped memory, which has to be unmapped: " +
                           records_.Describe(offset));
  }
  block.freed = CallSite(site);
  records_.End(&block, true);
  return nullptr;
}

bool BlockTable::Find(uint64_t offset, Found* found) const {
  const std::shared_lock lock(records_.mutex());
  const auto nearest = records_.Nearest(offset);
  if (nearest == records_.blocks().end()) return false;
  const Block& block = nearest->second;
  if (!block.live || offset - block.offset >= block.size) return false;
  *found = {block.offset, block.size,    block.size,       block.id,
            block.device, block.ordered, block.is_pending, block.closed};
  if (block.chunk == 0) return true;
  for (auto next = std::next(nearest); next != records_.blocks().end();
       ++next) {
    if (next->first != found->offset + found->size || !next->second.live ||
        next->second.chunk == 0) {
      break;
    }
    found->size += next->second.size;
  }
  return true;
}

std::string BlockTable::Describe(uint64_t offset) const {
  const std::shared_lock lock(records_.mutex());
  return records_.Describe(offset);
}

bool BlockTable::Peek(uint64_t offset, Glimpse* glimpse) const noexcept {
  // Does not wait: the interrupted thread itself may hold the lock.
  std::shared_lock lock(records_.mutex(), std::try_to_lock);
  if (!lock.owns_lock()) return false;
  const auto found = records_.Nearest(offset);
  if (found == records_.blocks().end()) return false;
  const Block& block = found->second;
  glimpse->offset = block.offset;
  glimpse->size = block.size;
  glimpse->id = block.id;
  glimpse->live = block.live;
  glimpse->allocated_file = block.allocated.file;
  glimpse->allocated_line = block.allocated.line;
  glimpse->freed_file = block.freed.file;
  glimpse->freed_line = block.freed.line;
  return true;
}

uint64_t BlockTable::free_bytes() const {
  const std::shared_lock lock(records_.mutex());
  return records_.capacity().free_bytes();
}

uint64_t BlockTable::live() const {
  const std::shared_lock lock(records_.mutex());
  return records_.live();
}

}  // namespace devrt::mtia
