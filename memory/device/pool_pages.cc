// SPDX-License-Identifier: Apache-2.0

#include "memory/device/pool_pages.h"

namespace devrt::internal {

namespace {

void Set(const PageRun& run, Page::State state) {
  PageTable* const table = run.segment->pages;
  for (uint32_t p = run.first; p < run.first + run.count; ++p) {
    if (table->pages[p].state == Page::kHole) ++table->used;
    table->pages[p].state = state;
    if (state == Page::kHole) --table->used;
  }
}

uint32_t GranuleOf(const Segment* segment, uint64_t page) {
  return static_cast<uint32_t>(page * segment->pages->page_bytes / kGranule);
}

// The block that holds the byte at `offset`, which lies in a mapped page.
Block* BlockAround(const Segment* segment, uint64_t offset) {
  return segment->Find(segment->base.load(std::memory_order_relaxed) + offset);
}

// The block that ends where `page` begins; nullptr if the page before is not
// mapped.
Block* BlockBefore(const Segment* segment, uint32_t page) {
  const PageTable& table = *segment->pages;
  if (page == 0 || !table.Is(page - 1, Page::kMapped)) return nullptr;
  return BlockAround(segment, page * table.page_bytes - 1);
}
// The block that begins where `page` begins; nullptr if `page` is not mapped.
Block* BlockBehind(const Segment* segment, uint32_t page) {
  if (!segment->pages->Is(page, Page::kMapped)) return nullptr;
  return segment->At(GranuleOf(segment, page));
}

bool IsFree(const Block* block) {
  return block != nullptr && block->use == BlockUse::kFree;
}

// The first holes that make room for `bytes` together with the free blocks
// beside them; a run of 0 pages if there are none.
PageRun PlaceFor(Segment* segment, uint64_t bytes) {
  const PageTable& table = *segment->pages;
  uint32_t first = 0;
  while (first < table.count()) {
    if (!table.Is(first, Page::kHole)) {
      ++first;
      continue;
    }
    const uint32_t end = table.EndOf(first, Page::kHole);
    const Block* before = BlockBefore(segment, first);
    const Block* behind = BlockBehind(segment, end);
    const uint64_t left = IsFree(before) ? before->bytes() : 0;
    const uint64_t right = IsFree(behind) ? behind->bytes() : 0;
    const uint64_t needed =
        left >= bytes
            ? 1
            : (bytes - left + table.page_bytes - 1) / table.page_bytes;
    const uint32_t hole = end - first;
    if (needed <= hole) {
      return {segment, first, static_cast<uint32_t>(needed)};
    }
    if (left + hole * table.page_bytes + right >= bytes) {
      return {segment, first, hole};
    }
    first = end;
  }
  return {segment, 0, 0};
}

}  // namespace

void PoolPages::AdoptAddresses(Segment* segment) {
  SpinLockHolder hold(lock_);
  segments_->List(segment);
}

bool PoolPages::Reserve(const PoolRequest& request, PageRun* run) {
  const bool small = IsSmall(request.size);
  SpinLockHolder hold(lock_);
  for (Segment* segment : segments_->all()) {
    if (!segment->expandable() || segment->small != small) continue;
    *run = PlaceFor(segment, request.size);
    if (run->count == 0) continue;
    Set(*run, Page::kBusy);
    return true;
  }
  return false;
}

void PoolPages::Add(const PageRun& run) {
  SpinLockHolder hold(lock_);
  Segment* const segment = run.segment;
  const uint64_t bytes = run.bytes();
  Block* const before = BlockBefore(segment, run.first);
  Block* const behind = BlockBehind(segment, run.first + run.count);
  Set(run, Page::kMapped);
  segment->mapped += bytes;
  segment->last_use = segments_->allocations();
  segments_->ChangeFreeBytes(static_cast<int64_t>(bytes));
  Block* block = before;
  if (IsFree(before)) {
    segments_->Remove(block);
  } else {
    block = segment->Begin(GranuleOf(segment, run.first));
    block->size = 0;
    block->previous = before == nullptr ? 0 : before->size;
    block->use = BlockUse::kFree;
  }
  block->size += static_cast<uint32_t>(bytes / kGranule);
  if (IsFree(behind)) {
    segments_->Remove(behind);
    segment->End(behind);
    block->size += behind->size;
  }
  // The new memory is free from now on; its free neighbours were so before.
  block->free.released = stream_->Now();
  if (Block* next = segment->Next(block)) next->previous = block->size;
  segments_->Insert(block);
}

bool PoolPages::End(const PageRun& run) {
  SpinLockHolder hold(lock_);
  PageTable* const table = run.segment->pages;
  for (uint32_t p = run.first; p < run.first + run.count; ++p) {
    if (table->pages[p].chunk == nullptr) {
      Set({run.segment, p, 1}, Page::kHole);
    } else {
      run.segment->mapped += table->page_bytes;
    }
  }
  if (table->used != 0) return false;
  segments_->Unlist(run.segment);
  return true;
}

// ---- Free pages -------------------------------------------------------------

namespace {

// The pages that lie wholly in the free block, if they may be taken out of it.
// A block of the large pool must stay longer than a slot of its table (block.h)
// unless a hole follows, so a shorter rest keeps the last page.
PageRun PagesIn(Segment* segment, const Block* block) {
  const uint64_t page_bytes = segment->pages->page_bytes;
  const uint64_t begin = uint64_t{block->offset} * kGranule;
  const uint64_t end = begin + block->bytes();
  const uint64_t first = (begin + page_bytes - 1) / page_bytes;
  uint64_t last = end / page_bytes;
  const uint64_t rest = end - last * page_bytes;
  if (!segment->small && rest != 0 && rest < kMiB) --last;
  if (last <= first) return {segment, 0, 0};
  return {segment, static_cast<uint32_t>(first),
          static_cast<uint32_t>(last - first)};
}

}  // namespace

void PoolPages::ListFree(Segment* segment,
                         std::vector<FreeSegment>* list) const {
  const PageTable& table = *segment->pages;
  uint32_t page = 0;
  for (uint32_t seen = 0; seen < table.used && page < table.count();) {
    if (table.Is(page, Page::kHole)) {
      ++page;
      continue;
    }
    const Block* block = table.Is(page, Page::kMapped)
                             ? BlockAround(segment, page * table.page_bytes)
                             : nullptr;
    if (!IsFree(block)) {
      ++page;
      ++seen;
      continue;
    }
    const PageRun run = PagesIn(segment, block);
    if (run.count != 0) {
      list->push_back({segment,
                       segments_->pool(),
                       {stream_->timeline(), block->free.released},
                       run.bytes(),
                       segments_->allocations() - segment->last_use,
                       run.first,
                       run.count});
    }
    const uint64_t end = uint64_t{block->offset} * kGranule + block->bytes();
    const auto next =
        static_cast<uint32_t>((end + table.page_bytes - 1) / table.page_bytes);
    seen += next - page;
    page = next;
  }
}

void PoolPages::CutOut(Block* block, uint32_t begin, uint32_t end) {
  Segment* const segment = block->segment;
  const uint32_t rest = block->offset + block->size - end;
  segments_->Remove(block);
  Block* const next = segment->Next(block);
  const uint64_t released = block->free.released;
  if (block->offset < begin) {
    block->size = begin - block->offset;
    segments_->Insert(block);
  } else {
    segment->End(block);
  }
  if (rest != 0) {
    Block* right = segment->Begin(end);
    right->size = rest;
    right->previous = 0;
    right->use = BlockUse::kFree;
    right->free.released = released;
    segments_->Insert(right);
  }
  if (next != nullptr) next->previous = rest;
}

bool PoolPages::TakeFree(const FreeSegment& seen) {
  Segment* const segment = seen.segment;
  const PageRun run = seen.run();
  const PageTable& table = *segment->pages;
  if (table.EndOf(run.first, Page::kMapped) < run.first + run.count) {
    return false;
  }
  Block* const block = BlockAround(segment, run.first * table.page_bytes);
  const uint32_t begin = GranuleOf(segment, run.first);
  const uint32_t end = GranuleOf(segment, uint64_t{run.first} + run.count);
  if (block->use != BlockUse::kFree || block->offset + block->size < end ||
      block->free.released != seen.released.epoch) {
    return false;
  }
  const uint32_t rest = block->offset + block->size - end;
  if (!segment->small && rest != 0 && rest * uint64_t{kGranule} < kMiB) {
    return false;  // the block has become shorter since (PagesIn)
  }
  CutOut(block, begin, end);
  Set(run, Page::kBusy);
  segment->mapped -= run.bytes();
  segments_->ChangeFreeBytes(-static_cast<int64_t>(run.bytes()));
  return true;
}

}  // namespace devrt::internal
