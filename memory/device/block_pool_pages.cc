// SPDX-License-Identifier: Apache-2.0
//
// What BlockPool does with expandable segments: pages.h.

#include <algorithm>

#include "memory/device/block_pool.h"

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

// The block that holds the byte; the page that it is in is mapped.
Block* BlockAround(const Segment* segment, uint64_t offset) {
  return segment->Find(segment->base.load(std::memory_order_relaxed) + offset);
}

// At the border of a hole: the block that ends or begins there, nullptr if the
// page on that side is not mapped.
Block* BlockBefore(const Segment* segment, uint32_t page) {
  const PageTable& table = *segment->pages;
  if (page == 0 || !table.Is(page - 1, Page::kMapped)) return nullptr;
  return BlockAround(segment, page * table.page_bytes - 1);
}
Block* BlockBehind(const Segment* segment, uint32_t page) {
  if (!segment->pages->Is(page, Page::kMapped)) return nullptr;
  return segment->At(GranuleOf(segment, page));
}

bool IsFree(const Block* block) {
  return block != nullptr && block->use == BlockUse::kFree;
}

// The first place where pages make room for `bytes`; count 0: there is none.
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

bool BlockPool::ReservePages(const PoolRequest& request, PageRun* run) {
  const bool small = IsSmall(request.size);
  SpinLockHolder hold(&lock_);
  for (Segment* segment : segments_) {
    if (!segment->expandable() || segment->small != small) continue;
    *run = PlaceFor(segment, request.size);
    if (run->count == 0) continue;
    Set(*run, Page::kBusy);
    return true;
  }
  return false;
}

void BlockPool::AdoptAddresses(Segment* segment) {
  SpinLockHolder hold(&lock_);
  List(segment);
}

void BlockPool::AddPages(const PageRun& run) {
  SpinLockHolder hold(&lock_);
  Segment* const segment = run.segment;
  const uint64_t bytes = run.bytes();
  Block* const before = BlockBefore(segment, run.first);
  Block* const behind = BlockBehind(segment, run.first + run.count);
  Set(run, Page::kMapped);
  segment->mapped += bytes;
  segment->last_use = clock_;
  free_bytes_.store(free_bytes() + bytes, std::memory_order_relaxed);
  Block* block = before;
  if (IsFree(before)) {
    Remove(block);
  } else {
    block = segment->Begin(GranuleOf(segment, run.first));
    block->size = 0;
    block->previous = before == nullptr ? 0 : before->size;
    block->use = BlockUse::kFree;
  }
  block->size += static_cast<uint32_t>(bytes / kGranule);
  if (IsFree(behind)) {
    Remove(behind);
    segment->End(behind);
    block->size += behind->size;
  }
  // Fresh memory, and what was free here before now.
  block->free.released = Now();
  if (Block* next = segment->Next(block)) next->previous = block->size;
  Insert(block);
}

bool BlockPool::EndPages(const PageRun& run) {
  SpinLockHolder hold(&lock_);
  PageTable* const table = run.segment->pages;
  for (uint32_t p = run.first; p < run.first + run.count; ++p) {
    if (table->pages[p].chunk == nullptr) {
      Set({run.segment, p, 1}, Page::kHole);
    } else {
      run.segment->mapped += table->page_bytes;
    }
  }
  if (table->used != 0) return false;
  Unlist(run.segment);
  return true;
}

// ---- Giving pages back ------------------------------------------------------

void BlockPool::ListFreePages(Segment* segment,
                              std::vector<FreeSegment>* list) {
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
    const uint64_t begin = uint64_t{block->offset} * kGranule;
    const uint64_t end = begin + block->bytes();
    const uint64_t first = (begin + table.page_bytes - 1) / table.page_bytes;
    uint64_t last = end / table.page_bytes;
    // Blocks of the large pool are longer than a slot of its table, but for
    // those in front of a hole.
    const uint64_t rest = end - last * table.page_bytes;
    if (!segment->small && rest != 0 && rest < kMiB) --last;
    if (last > first) {
      list->push_back({segment,
                       this,
                       {timeline_, block->free.released},
                       (last - first) * table.page_bytes,
                       clock_ - segment->last_use,
                       static_cast<uint32_t>(first),
                       static_cast<uint32_t>(last - first)});
    }
    const auto next =
        static_cast<uint32_t>((end + table.page_bytes - 1) / table.page_bytes);
    seen += next - page;
    page = next;
  }
}

bool BlockPool::TakePages(const FreeSegment& seen) {
  Segment* const segment = seen.segment;
  const PageRun run = {segment, seen.first_page, seen.pages};
  const PageTable& table = *segment->pages;
  for (uint32_t p = run.first; p < run.first + run.count; ++p) {
    if (!table.Is(p, Page::kMapped)) return false;
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
    return false;  // it has become shorter
  }
  Remove(block);
  Block* const next = segment->Next(block);
  const uint64_t released = block->free.released;
  if (block->offset < begin) {
    block->size = begin - block->offset;
    Insert(block);
  } else {
    segment->End(block);
  }
  if (rest != 0) {
    Block* right = segment->Begin(end);
    right->size = rest;
    right->previous = 0;
    right->use = BlockUse::kFree;
    right->free.released = released;
    Insert(right);
  }
  if (next != nullptr) next->previous = rest;
  Set(run, Page::kBusy);
  segment->mapped -= run.bytes();
  free_bytes_.store(free_bytes() - run.bytes(), std::memory_order_relaxed);
  return true;
}

}  // namespace devrt::internal
