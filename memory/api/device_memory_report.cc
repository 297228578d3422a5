// SPDX-License-Identifier: Apache-2.0
//
// MemoryReport of devrt/memory/device_memory.h.

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "devrt/memory/device_memory.h"
#include "devrt/memory/history.h"
#include "memory/device/device_allocator.h"
#include "memory/snapshot/snapshot.h"
#include "runtime/common/text.h"

namespace devrt {

namespace {

using internal::FormatBytes;

constexpr size_t kMostHolders = 10;

struct Holding {
  uint64_t blocks = 0;
  uint64_t bytes = 0;
  void Add(uint64_t size) {
    ++blocks;
    bytes += size;
  }
  void Add(const Holding& other) {
    blocks += other.blocks;
    bytes += other.bytes;
  }
};

// Sums of one stream's pool.
struct Pool {
  uint64_t reserved = 0;
  Holding live, pending, free;
  uint64_t largest_free = 0;

  void Add(const Pool& other) {
    reserved += other.reserved;
    live.Add(other.live);
    pending.Add(other.pending);
    free.Add(other.free);
    largest_free = std::max(largest_free, other.largest_free);
  }
};

struct Summary {
  Pool all;
  std::map<uint64_t, Pool> pools;          // by stream
  Pool privates;                           // private resources together
  std::map<std::string, Holding> holders;  // by site
};

std::string SiteName(const MemorySnapshot& snapshot, uint32_t site) {
  if (site >= snapshot.sites.size() || snapshot.sites[site].file.empty()) {
    return "unknown";
  }
  return absl::StrCat(snapshot.sites[site].file, ":",
                      snapshot.sites[site].line);
}

void Count(const BlockSnapshot& block, Pool* pool) {
  switch (block.state) {
    case BlockState::kLive:
      pool->live.Add(block.size);
      break;
    case BlockState::kPending:
      pool->pending.Add(block.size);
      break;
    case BlockState::kFree:
      pool->free.Add(block.size);
      pool->largest_free = std::max(pool->largest_free, block.size);
      break;
    case BlockState::kUnmapped:
      break;
  }
}

Summary Summarize(const MemorySnapshot& snapshot) {
  Summary sum;
  for (const SegmentSnapshot& segment : snapshot.segments) {
    Pool& pool = sum.pools[segment.stream];
    pool.reserved += segment.size;
    sum.all.reserved += segment.size;
    for (const BlockSnapshot& block : segment.blocks) {
      Count(block, &pool);
      Count(block, &sum.all);
      if (block.state == BlockState::kLive) {
        sum.holders[SiteName(snapshot, block.site)].Add(block.size);
      }
    }
  }
  return sum;
}

// Private resources share the budget of the device.
void AddPrivates(Device device, Summary* sum) {
  internal::DeviceAllocator* const main =
      device.record()->allocator.load(std::memory_order_acquire);
  if (main == nullptr) return;
  for (internal::DeviceAllocator* each : main->family().Members()) {
    if (each == main) continue;
    sum->privates.Add(Summarize(internal::SnapshotOf(each)).all);
  }
  sum->all.Add(sum->privates);
  if (sum->privates.live.blocks != 0) {
    sum->holders["private resources"] = sum->privates.live;
  }
}

std::string Blocks(const Holding& holding) {
  return absl::StrCat(FormatBytes(holding.bytes), " in ", holding.blocks,
                      holding.blocks == 1 ? " block" : " blocks");
}

void AppendPool(const Pool& pool, std::string* text) {
  absl::StrAppend(text, FormatBytes(pool.reserved),
                  " reserved: ", Blocks(pool.live), " held, ",
                  Blocks(pool.pending), " freed but still used by a stream, ",
                  Blocks(pool.free), " free, the largest ",
                  FormatBytes(pool.largest_free), "\n");
}

void AppendHolders(const MemorySnapshot& snapshot, const Summary& sum,
                   std::string* text) {
  if (snapshot.sites.empty()) {
    absl::StrAppend(text,
                    "  who holds it is not recorded: RecordMemoryHistory "
                    "begins that\n");
    return;
  }
  std::vector<std::pair<std::string, Holding>> holders(sum.holders.begin(),
                                                       sum.holders.end());
  std::stable_sort(holders.begin(), holders.end(),
                   [](const auto& a, const auto& b) {
                     return a.second.bytes > b.second.bytes;
                   });
  for (size_t i = 0; i < std::min(holders.size(), kMostHolders); ++i) {
    absl::StrAppend(text, "  held by ", holders[i].first, ": ",
                    Blocks(holders[i].second), "\n");
  }
  if (holders.size() > kMostHolders) {
    absl::StrAppend(text, "  and ", holders.size() - kMostHolders,
                    " holders more\n");
  }
}

}  // namespace

std::string MemoryReport(Device device) {
  const absl::StatusOr<MemorySnapshot> snapshot = TakeMemorySnapshot(device);
  if (!snapshot.ok()) {
    return absl::StrCat("memory of ", device.name(), ": ",
                        snapshot.status().message(), "\n");
  }
  Summary sum = Summarize(*snapshot);
  AddPrivates(device, &sum);
  std::string text =
      absl::StrCat("memory of ", snapshot->device, ", ",
                   FormatBytes(snapshot->total_memory), ":\n  all: ");
  AppendPool(sum.all, &text);
  for (const auto& [stream, pool] : sum.pools) {
    absl::StrAppend(&text, "  stream ", stream, ": ");
    AppendPool(pool, &text);
  }
  if (sum.privates.reserved != 0) {
    absl::StrAppend(&text, "  private resources: ");
    AppendPool(sum.privates, &text);
  }
  AppendHolders(*snapshot, sum, &text);
  return text;
}

}  // namespace devrt
