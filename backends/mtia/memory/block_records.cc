// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/memory/block_records.h"

#include <utility>

#include "backends/mtia/common/error.h"
#include "backends/mtia/common/text.h"

namespace devrt::mtia {
namespace {

constexpr uint64_t kMaxSmall = 1ull << 20;
constexpr uint64_t kSmallShare = 4;  // a quarter of the window
// Freed blocks may keep this many bytes resident at a reset.
constexpr uint64_t kMaxResident = 16ull << 20;

}  // namespace

bool BlockRecords::Options::operator==(const Options& other) const {
  return capacity == other.capacity && gap == other.gap &&
         poison == other.poison;
}

BlockRecords::BlockRecords(std::string name, AddressWindow* window)
    : name_(std::move(name)), window_(window) {}

bool BlockRecords::Reset(const Options& options) {
  if (pristine_ && options == options_) return false;
  uint64_t touched = 0;
  for (const auto& [offset, block] : blocks_) touched += block.span;
  if (touched > kMaxResident) {
    for (const auto& [offset, block] : blocks_) {
      window_->Discard(offset, block.span);
    }
  }
  options_ = options;
  blocks_.clear();
  capacity_.Reset(options.capacity);
  const uint64_t small = window_->size() / kSmallShare;
  small_.Reset(0, small);
  large_.Reset(small, window_->size() - small);
  live_ = 0;
  pristine_ = true;
  return true;
}

devrt_status BlockRecords::Place(Block&& block, uint64_t alignment,
                                 const devrt_call_site_v0& site, void** ptr) {
  if (!AllocateAddress(&block, alignment)) {
    capacity_.Free(block);
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
  CountLive(1);
  blocks_.insert_or_assign(block.offset, std::move(block));
  return nullptr;
}

void BlockRecords::End(Block* block, bool paint) {
  if (paint) window_->MakeFreed(block->offset, block->size, options_.poison);
  block->live = false;
  CountLive(-1);
  capacity_.Free(*block);
  FreeAddress(*block);
}

std::string BlockRecords::Describe(uint64_t offset) const {
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

devrt_status BlockRecords::CheckRequest(uint64_t size,
                                        uint64_t alignment) const {
  if (size == 0) return InvalidArgument(name_ + ": a block of 0 bytes");
  return CheckAlignment(alignment);
}

devrt_status BlockRecords::CheckAlignment(uint64_t alignment) const {
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

bool BlockRecords::AllocateAddress(Block* block, uint64_t alignment) {
  const uint64_t granularity = options_.capacity.granularity;
  block->span = block->rounded + RoundUp(options_.gap, granularity);
  if (alignment < granularity) alignment = granularity;
  pristine_ = false;
  const auto forget = [this](uint64_t offset) { blocks_.erase(offset); };
  const bool is_small = block->rounded <= kMaxSmall;
  QuarantinedRanges& own = is_small ? small_ : large_;
  QuarantinedRanges& other = is_small ? large_ : small_;
  return own.Allocate(block->span, alignment, &block->offset, forget) ||
         other.Allocate(block->span, alignment, &block->offset, forget);
}

void BlockRecords::FreeAddress(const Block& block) {
  QuarantinedRanges& zone = RangesFor(block.offset);
  zone.Free(block.offset, block.span,
            [this](uint64_t offset) { blocks_.erase(offset); });
  zone.Trim([this](uint64_t offset, uint64_t size) {
    window_->Discard(offset, size);
  });
}

void BlockRecords::CountLive(int64_t count) {
  live_ += static_cast<uint64_t>(count);
  pristine_ = false;
}

QuarantinedRanges& BlockRecords::RangesFor(uint64_t offset) {
  return offset < window_->size() / kSmallShare ? small_ : large_;
}

}  // namespace devrt::mtia
