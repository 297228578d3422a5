// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/memory/block_table.h"

#include <iterator>
#include <mutex>
#include <utility>

#include "backends/mtia/common/error.h"
#include "backends/mtia/common/text.h"

namespace devrt::mtia {
namespace {

constexpr int64_t kMemoryAllocation = 2;  // CUDA's number
constexpr uint64_t kTooLarge = 1ull << 60;
constexpr uint64_t kMaxSmall = 1ull << 20;
constexpr uint64_t kSmallShare = 4;  // a quarter of the window
// Freed blocks may keep this many bytes resident at a reset.
constexpr uint64_t kMaxResident = 16ull << 20;

uint64_t RoundUp(uint64_t value, uint64_t step) {
  return (value + step - 1) & ~(step - 1);
}

}  // namespace

uint64_t NextAllocationId() {
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

bool BlockTable::Options::operator==(const Options& other) const {
  return total == other.total && capacity == other.capacity &&
         granularity == other.granularity && gap == other.gap &&
         contiguous == other.contiguous && poison == other.poison;
}

BlockTable::BlockTable(std::string name, AddressWindow* window)
    : name_(std::move(name)), window_(window) {}

void BlockTable::Reset(const Options& options) {
  const std::unique_lock lock(mutex_);
  if (pristine_ && options == options_) return;
  uint64_t touched = 0;
  for (const auto& [offset, block] : blocks_) touched += block.span;
  if (touched > kMaxResident) {
    for (const auto& [offset, block] : blocks_) {
      window_->Discard(offset, block.span);
    }
  }
  options_ = options;
  blocks_.clear();
  reservations_.clear();
  chunks_.clear();
  physical_.Reset(0, options.capacity);
  const uint64_t small = window_->size() / kSmallShare;
  small_.Reset(0, small);
  large_.Reset(small, window_->size() - small);
  used_ = 0;
  live_ = 0;
  pristine_ = true;
}

devrt_status BlockTable::CheckRequest(uint64_t size, uint64_t alignment) const {
  if (size == 0) return InvalidArgument(name_ + ": a block of 0 bytes");
  return CheckAlignment(alignment);
}

devrt_status BlockTable::CheckAlignment(uint64_t alignment) const {
  if ((alignment & (alignment - 1)) != 0) {
    return InvalidArgument(name_ + ": alignment " + std::to_string(alignment) +
                           " is not a power of two");
  }
  if (alignment > kMaxAlignment) {
    return MakeError(DEVRT_UNIMPLEMENTED, 801,
                     name_ + ": alignment " + std::to_string(alignment) +
                         " is more than " + std::to_string(kMaxAlignment));
  }
  return nullptr;
}

devrt_status BlockTable::OutOfCapacity(uint64_t size) {
  return MakeError(DEVRT_RESOURCE_EXHAUSTED, kMemoryAllocation,
                   OutOfMemory(size));
}

devrt_status BlockTable::Alloc(uint32_t device, uint64_t size,
                               uint64_t alignment,
                               const devrt_call_site_v0& site, void** ptr) {
  if (devrt_status error = CheckRequest(size, alignment)) return error;
  const std::unique_lock lock(mutex_);
  Block block;
  block.size = size;
  block.device = device;
  if (IsTooLarge(size) || !AllocateCapacity(&block)) return OutOfCapacity(size);
  return Place(std::move(block), alignment, site, ptr);
}

// Finds an address for a block that has its capacity.  If there is none, gives
// the capacity back.
devrt_status BlockTable::Place(Block block, uint64_t alignment,
                               const devrt_call_site_v0& site, void** ptr) {
  if (!AllocateAddress(&block, alignment)) {
    FreeCapacity(block);
    return MakeError(DEVRT_RESOURCE_EXHAUSTED, kMemoryAllocation,
                     name_ + " is out of addresses: its window of " +
                         Bytes(window_->size()) +
                         " is fragmented and has no room for " +
                         Bytes(block.size));
  }
  window_->MakeFresh(block.offset, block.size, options_.poison);
  block.id = NextAllocationId();
  block.allocated = CallSite(site);
  *ptr = window_->base() + block.offset;
  ++live_;
  pristine_ = false;
  blocks_.insert_or_assign(block.offset, std::move(block));
  return nullptr;
}

devrt_status BlockTable::Free(uint64_t offset, const devrt_call_site_v0& site) {
  const std::unique_lock lock(mutex_);
  const auto found = blocks_.find(offset);
  if (found == blocks_.end()) {
    return InvalidArgument(
        "free at " + CallSite(site).Text() +
        " of a pointer that is not the start of a block: it points " +
        DescribeLocked(offset));
  }
  Block& block = found->second;
  if (!block.live || block.closed != kNotClosed) {
    return InvalidArgument("second free, at " + CallSite(site).Text() +
                           ", of " + DescribeLocked(offset));
  }
  if (block.chunk != 0) {
    return InvalidArgument("free at " + CallSite(site).Text() +
                           " of mapped memory, which has to be unmapped: " +
                           DescribeLocked(offset));
  }
  block.freed = CallSite(site);
  EndBlock(&block, true);
  return nullptr;
}

void BlockTable::EndBlock(Block* block, bool paint) {
  if (paint) window_->MakeFreed(block->offset, block->size, options_.poison);
  block->live = false;
  --live_;
  FreeCapacity(*block);
  FreeAddress(*block);
}

bool BlockTable::Find(uint64_t offset, Found* found) const {
  const std::shared_lock lock(mutex_);
  const auto nearest = Nearest(offset);
  if (nearest == blocks_.end()) return false;
  const Block& block = nearest->second;
  if (!block.live || offset - block.offset >= block.size) return false;
  *found = {block.offset, block.size,    block.size,       block.id,
            block.device, block.ordered, block.is_pending, block.closed};
  if (block.chunk == 0) return true;
  for (auto next = std::next(nearest); next != blocks_.end(); ++next) {
    if (next->first != found->offset + found->size || !next->second.live ||
        next->second.chunk == 0) {
      break;
    }
    found->size += next->second.size;
  }
  return true;
}

std::string BlockTable::Describe(uint64_t offset) const {
  const std::shared_lock lock(mutex_);
  return DescribeLocked(offset);
}

bool BlockTable::Peek(uint64_t offset, Glimpse* glimpse) const noexcept {
  // Does not wait: the interrupted thread itself may hold the lock.
  std::shared_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return false;
  const auto found = Nearest(offset);
  if (found == blocks_.end()) return false;
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
  const std::shared_lock lock(mutex_);
  return options_.capacity - used_;
}

uint64_t BlockTable::live() const {
  const std::shared_lock lock(mutex_);
  return live_;
}

BlockTable::Blocks::const_iterator BlockTable::Nearest(uint64_t offset) const {
  const auto above = blocks_.upper_bound(offset);
  return above == blocks_.begin() ? blocks_.end() : std::prev(above);
}

std::string BlockTable::DescribeLocked(uint64_t offset) const {
  const auto found = Nearest(offset);
  if (found == blocks_.end() || offset - found->first >= found->second.span) {
    return "outside every block of " + name_;
  }
  const Block& block = found->second;
  const uint64_t at = offset - block.offset;
  std::string text;
  if (at >= block.size) {
    text = Bytes(at - block.size) + " behind ";
  } else if (at != 0) {
    text = Bytes(at) + " into ";
  }
  const bool freed = !block.live || block.closed != kNotClosed;
  if (freed) text += "freed ";
  text += "block #" + std::to_string(block.id) + " of " + name_ + " (" +
          Bytes(block.size) + ", allocated at " + block.allocated.Text();
  if (freed) text += ", freed at " + block.freed.Text();
  return text + ")";
}

bool BlockTable::IsTooLarge(uint64_t size) const {
  return size >= kTooLarge || size > options_.total;
}

bool BlockTable::AllocateCapacity(Block* block) {
  block->rounded = RoundUp(block->size, options_.granularity);
  if (block->rounded > options_.capacity - used_) return false;
  if (options_.contiguous &&
      !physical_.Allocate(block->rounded, 1, &block->physical)) {
    return false;
  }
  used_ += block->rounded;
  return true;
}

void BlockTable::FreeCapacity(const Block& block) {
  if (block.lent) {
    for (const PhysicalRange& range : block.rest) {
      used_ -= range.size;
      physical_.Free(range.begin, range.size);
    }
    return;
  }
  used_ -= block.rounded;
  if (options_.contiguous) physical_.Free(block.physical, block.rounded);
}

bool BlockTable::AllocateAddress(Block* block, uint64_t alignment) {
  const uint64_t granularity = options_.granularity;
  block->span = block->rounded + RoundUp(options_.gap, granularity);
  if (alignment < granularity) alignment = granularity;
  const auto forget = [this](uint64_t offset) { blocks_.erase(offset); };
  const bool is_small = block->rounded <= kMaxSmall;
  QuarantinedRanges& own = is_small ? small_ : large_;
  QuarantinedRanges& other = is_small ? large_ : small_;
  return own.Allocate(block->span, alignment, &block->offset, forget) ||
         other.Allocate(block->span, alignment, &block->offset, forget);
}

void BlockTable::FreeAddress(const Block& block) {
  QuarantinedRanges& zone = RangesFor(block.offset);
  zone.Free(block.offset, block.span,
            [this](uint64_t offset) { blocks_.erase(offset); });
  zone.Trim([this](uint64_t offset, uint64_t size) {
    window_->Discard(offset, size);
  });
}

QuarantinedRanges& BlockTable::RangesFor(uint64_t offset) {
  return offset < window_->size() / kSmallShare ? small_ : large_;
}

std::string BlockTable::OutOfMemory(uint64_t size) const {
  const uint64_t free = options_.capacity - used_;
  const uint64_t largest = options_.contiguous ? physical_.Largest() : free;
  const bool fragmented = size <= free;
  return name_ + " is out of memory" + (fragmented ? " (fragmented)" : "") +
         ": " + Bytes(size) + " asked for; total " +
         std::to_string(options_.total) + ", free " + std::to_string(free) +
         ", largest free range " + std::to_string(largest);
}

}  // namespace devrt::mtia
