// SPDX-License-Identifier: Apache-2.0

#include "memory/snapshot/snapshot.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "memory/device/device_allocator.h"

namespace devrt::internal {

namespace {

BlockState StateOf(const Block& block) {
  switch (block.use) {
    case BlockUse::kLive:
    case BlockUse::kClosing:  // the statistics count it as live
      return BlockState::kLive;
    case BlockUse::kPending:
      return BlockState::kPending;
    default:
      return BlockState::kFree;
  }
}

// Facts that blocks and segments do not have.
struct Surroundings {
  const HistoryRing* history;
  PendingFrees::Waits waits;
};

BlockSnapshot CopyBlock(const BlockPool& pool, const Block& block,
                        const Surroundings& around) {
  BlockSnapshot copy;
  copy.address = reinterpret_cast<uint64_t>(block.address());
  copy.size = block.bytes();
  copy.state = StateOf(block);
  copy.stream = StreamId(block.lent && copy.state != BlockState::kFree
                             ? block.held.stream_serial
                             : pool.serial());
  if (copy.state != BlockState::kFree) {
    copy.requested = block.held.requested;
    if (around.history != nullptr) {
      copy.site = around.history->IndexOf(block.held.site);
    }
  }
  if (copy.state == BlockState::kPending) {
    const auto waits = around.waits.find(&block);
    if (waits != around.waits.end()) copy.waiting_streams = waits->second;
  }
  return copy;
}

// The end of the hole at `at`; `end` if no mapped page follows.
uint32_t EndOfHole(const Segment& segment, uint32_t at, uint32_t end) {
  const PageTable& table = *segment.pages;
  const uint64_t granules = table.page_bytes / kGranule;
  for (uint64_t page = at / granules; page < table.count(); ++page) {
    if (table.pages[page].state == Page::kMapped) {
      return static_cast<uint32_t>(page * granules);
    }
  }
  return end;
}

// The caller holds all locks.
SegmentSnapshot CopySegment(const BlockPool& pool, const Segment& segment,
                            const Surroundings& around) {
  SegmentSnapshot copy;
  copy.address = reinterpret_cast<uint64_t>(segment.address());
  copy.stream = StreamId(pool.serial());
  copy.large = !segment.small;
  copy.expandable = segment.expandable();
  const auto end = static_cast<uint32_t>(segment.bytes() / kGranule);
  uint32_t at = 0;
  while (at < end) {
    const Block* block = segment.At(at);
    if (block->use != BlockUse::kNone && block->offset == at) {
      copy.blocks.push_back(CopyBlock(pool, *block, around));
      copy.size += block->bytes();
      at += block->size;
      continue;
    }
    const uint32_t next = EndOfHole(segment, at, end);
    if (next == end) break;  // no memory follows, only addresses
    BlockSnapshot hole;
    hole.address = copy.address + uint64_t{at} * kGranule;
    hole.size = uint64_t{next - at} * kGranule;
    hole.state = BlockState::kUnmapped;
    hole.stream = StreamId(pool.serial());
    copy.blocks.push_back(std::move(hole));
    at = next;
  }
  return copy;
}

// Returns false, and copies nothing, if a pool was made meanwhile.
bool CopyAll(DeviceAllocator* allocator, MemorySnapshot* snapshot) {
  // Before the locks: making a pool takes the lock of the list, and then adds a
  // shard to the ledger.
  const auto pools = allocator->pools().All();
  Ledger& ledger = allocator->ledger();
  const Ledger::Exclusive all(&ledger);
  if (all.shards() != pools.size()) return false;
  const Surroundings around = {ledger.history(), allocator->pending().List()};
  if (around.history != nullptr) around.history->Copy(snapshot);
  for (const BlockPool* pool : pools) {
    pool->VisitSegments([&](const Segment& segment) {
      snapshot->segments.push_back(CopySegment(*pool, segment, around));
    });
  }
  snapshot->statistics = ledger.Read(all);
  return true;
}

}  // namespace

MemorySnapshot SnapshotOf(DeviceAllocator* allocator) {
  MemorySnapshot snapshot;
  while (!CopyAll(allocator, &snapshot)) {
  }
  std::sort(snapshot.segments.begin(), snapshot.segments.end(),
            [](const SegmentSnapshot& a, const SegmentSnapshot& b) {
              return a.address < b.address;
            });
  return snapshot;
}

}  // namespace devrt::internal
