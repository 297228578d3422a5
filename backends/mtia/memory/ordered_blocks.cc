// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/memory/ordered_blocks.h"

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "backends/mtia/common/error.h"

namespace devrt::mtia {

devrt_status OrderedBlocks::Alloc(uint32_t device, uint64_t size,
                                  uint64_t alignment, uint64_t stream,
                                  const devrt_call_site_v0& site, void** ptr,
                                  uint64_t* id) {
  if (devrt_status error = records_.CheckRequest(size, alignment)) return error;
  const std::unique_lock lock(records_.mutex());
  Block block;
  block.size = size;
  block.device = device;
  block.ordered = block.is_pending = true;
  Capacity& capacity = records_.capacity();
  if (capacity.IsTooLarge(size) ||
      (!capacity.Allocate(&block) && !Borrow(&block, stream))) {
    return capacity.OutOfMemory(records_.name(), size);
  }
  devrt_status error = records_.Place(std::move(block), alignment, site, ptr);
  if (error != nullptr) return error;
  const auto offset = static_cast<std::byte*>(*ptr) - records_.window()->base();
  *id = records_.blocks().find(static_cast<uint64_t>(offset))->second.id;
  return nullptr;
}

// A stream may use the capacity of blocks whose free it was given and has not
// run yet, because its later operations run behind the free.
bool OrderedBlocks::Borrow(Block* block, uint64_t stream) {
  Capacity& capacity = records_.capacity();
  const Capacity before = capacity;
  struct Loan {
    Block* lender;
    std::vector<PhysicalRange> parts;
  };
  std::vector<Loan> loans;
  bool found = false;
  for (auto& [offset, lender] : records_.blocks()) {
    if (!lender.live || lender.closed_by != stream) continue;
    Loan loan{&lender, lender.rest};
    if (!lender.lent) loan.parts = {{lender.physical, lender.rounded}};
    capacity.Free(lender);
    loans.push_back(std::move(loan));
    found = capacity.Allocate(block);
    if (found) break;
  }
  if (!found) {
    capacity = before;
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
void OrderedBlocks::KeepRest(Block* lender, const PhysicalRange& kept,
                             const Block& taker) {
  const uint64_t end = kept.begin + kept.size;
  const uint64_t taken_end = taker.physical + taker.rounded;
  const auto take = [&](uint64_t from, uint64_t to) {
    if (from >= to) return;
    lender->rest.push_back({from, to - from});
    records_.capacity().AllocateAt(lender->rest.back());
  };
  take(kept.begin, std::min(end, taker.physical));
  take(std::max(kept.begin, taken_end), end);
}

void OrderedBlocks::Begin(uint64_t offset, uint64_t id) {
  const std::unique_lock lock(records_.mutex());
  const auto found = records_.blocks().find(offset);
  // A raw free may have ended the block before.
  if (found != records_.blocks().end() && found->second.id == id) {
    found->second.is_pending = false;
  }
}

devrt_status OrderedBlocks::Close(uint64_t offset, uint64_t stream,
                                  uint64_t last, const devrt_call_site_v0& site,
                                  uint64_t* id) {
  const std::unique_lock lock(records_.mutex());
  const auto found = records_.blocks().find(offset);
  const std::string at = CallSite(site).Text();
  if (found == records_.blocks().end()) {
    return InvalidArgument(
        "free at " + at +
        " of a pointer that is not the start of a block: it points " +
        records_.Describe(offset));
  }
  Block& block = found->second;
  if (!block.live || block.closed != kNotClosed) {
    return InvalidArgument("second free, at " + at + ", of " +
                           records_.Describe(offset));
  }
  if (!block.ordered) {
    return InvalidArgument(
        "free in stream order, at " + at + ", of " + records_.Describe(offset) +
        ", which is not of the stream-ordered allocator: use its own free");
  }
  block.closed = last;
  block.closed_by = stream;
  block.freed = CallSite(site);
  *id = block.id;
  return nullptr;
}

bool OrderedBlocks::End(uint64_t offset, uint64_t id, bool paint) {
  const std::unique_lock lock(records_.mutex());
  const auto found = records_.blocks().find(offset);
  if (found == records_.blocks().end() || found->second.id != id ||
      !found->second.live) {
    return true;
  }
  if (paint && found->second.is_pending) return false;
  records_.End(&found->second, paint);
  return true;
}

}  // namespace devrt::mtia
