// SPDX-License-Identifier: Apache-2.0
//
// Stream-ordered blocks of a block table.
#include <algorithm>
#include <cstddef>
#include <mutex>
#include <string>
#include <utility>

#include "backends/mtia/common/error.h"
#include "backends/mtia/memory/block_table.h"

namespace devrt::mtia {

devrt_status BlockTable::AllocOrdered(uint32_t device, uint64_t size,
                                      uint64_t alignment, uint64_t stream,
                                      const devrt_call_site_v0& site,
                                      void** ptr, uint64_t* id) {
  if (devrt_status error = CheckRequest(size, alignment)) return error;
  const std::unique_lock lock(mutex_);
  Block block;
  block.size = size;
  block.device = device;
  block.ordered = block.is_pending = true;
  if (IsTooLarge(size) ||
      (!AllocateCapacity(&block) && !Borrow(&block, stream))) {
    return OutOfCapacity(size);
  }
  devrt_status error = Place(std::move(block), alignment, site, ptr);
  if (error != nullptr) return error;
  const auto offset = static_cast<std::byte*>(*ptr) - window_->base();
  *id = blocks_.find(static_cast<uint64_t>(offset))->second.id;
  return nullptr;
}

// A stream may use the capacity of blocks whose free it was given and has not
// run yet, because its later operations run behind the free.
bool BlockTable::Borrow(Block* block, uint64_t stream) {
  const FreeRanges before = physical_;
  const uint64_t used = used_;
  struct Loan {
    Block* lender;
    std::vector<PhysicalRange> parts;
  };
  std::vector<Loan> loans;
  bool found = false;
  for (auto& [offset, lender] : blocks_) {
    if (!lender.live || lender.closed_by != stream) continue;
    Loan loan{&lender, lender.rest};
    if (!lender.lent) loan.parts = {{lender.physical, lender.rounded}};
    FreeCapacity(lender);
    loans.push_back(std::move(loan));
    found = AllocateCapacity(block);
    if (found) break;
  }
  if (!found) {
    physical_ = before;
    used_ = used;
    return false;
  }
  // Other streams get the rest only when the frees have run.
  for (const Loan& loan : loans) {
    loan.lender->lent = true;
    loan.lender->rest.clear();
    for (const PhysicalRange& part : loan.parts) {
      KeepRest(loan.lender, part, *block);
    }
  }
  return true;
}

// Gives `lender` the pieces of `kept` that `taker` does not have.
void BlockTable::KeepRest(Block* lender, const PhysicalRange& kept,
                          const Block& taker) {
  const uint64_t end = kept.begin + kept.size;
  const uint64_t taken_end = taker.physical + taker.rounded;
  const auto take = [&](uint64_t from, uint64_t to) {
    if (from >= to) return;
    physical_.AllocateAt(from, to - from);
    used_ += to - from;
    lender->rest.push_back({from, to - from});
  };
  take(kept.begin, std::min(end, taker.physical));
  take(std::max(kept.begin, taken_end), end);
}

void BlockTable::BeginOrdered(uint64_t offset, uint64_t id) {
  const std::unique_lock lock(mutex_);
  const auto found = blocks_.find(offset);
  // A raw free may have ended the block before.
  if (found != blocks_.end() && found->second.id == id) {
    found->second.is_pending = false;
  }
}

devrt_status BlockTable::CloseOrdered(uint64_t offset, uint64_t stream,
                                      uint64_t last,
                                      const devrt_call_site_v0& site,
                                      uint64_t* id) {
  const std::unique_lock lock(mutex_);
  const auto found = blocks_.find(offset);
  const std::string at = CallSite(site).Text();
  if (found == blocks_.end()) {
    return InvalidArgument(
        "free at " + at +
        " of a pointer that is not the start of a block: it points " +
        DescribeLocked(offset));
  }
  Block& block = found->second;
  if (!block.live || block.closed != kNotClosed) {
    return InvalidArgument("second free, at " + at + ", of " +
                           DescribeLocked(offset));
  }
  if (!block.ordered) {
    return InvalidArgument(
        "free in stream order, at " + at + ", of " + DescribeLocked(offset) +
        ", which is not of the stream-ordered allocator: use its own free");
  }
  block.closed = last;
  block.closed_by = stream;
  block.freed = CallSite(site);
  *id = block.id;
  return nullptr;
}

bool BlockTable::EndOrdered(uint64_t offset, uint64_t id, bool paint) {
  const std::unique_lock lock(mutex_);
  const auto found = blocks_.find(offset);
  if (found == blocks_.end() || found->second.id != id || !found->second.live) {
    return true;
  }
  if (paint && found->second.is_pending) return false;
  EndBlock(&found->second, paint);
  return true;
}

}  // namespace devrt::mtia
