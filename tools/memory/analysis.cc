// SPDX-License-Identifier: Apache-2.0

#include "tools/memory/analysis.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_format.h"

namespace devrt::tools {

namespace {

constexpr char kUnknown[] = "(place unknown)";

bool IsGrowth(MemoryAction a) {
  return a == MemoryAction::kSegmentAlloc || a == MemoryAction::kSegmentMap;
}
bool IsShrinking(MemoryAction a) {
  return a == MemoryAction::kSegmentFree || a == MemoryAction::kSegmentUnmap;
}

// Plays the history forward, from the memory that was in use before it.
class Replay {
 public:
  Replay(const MemorySnapshot& snapshot, std::vector<size_t> owner_of_site,
         size_t owners)
      : snapshot_(snapshot),
        owner_of_site_(std::move(owner_of_site)),
        unknown_(owners - 1),
        first_(owners, 0) {
    FindBeginning();
    Restart();
  }

  void Restart() {
    in_use_ = first_;
    total_ = std::accumulate(first_.begin(), first_.end(), uint64_t{0});
    pending_ = first_pending_;
    reserved_ = first_reserved_;
    blocks_.clear();
    time_us_ = 0;
  }

  void Apply(const MemoryEvent& e) {
    // The host's clock may have been set back.
    time_us_ = std::max(time_us_, e.time_us - snapshot_.events[0].time_us);
    switch (e.action) {
      case MemoryAction::kAlloc: {
        const size_t owner = OwnerOf(e.site);
        blocks_[e.address] = {e.bytes, owner};
        in_use_[owner] += e.bytes;
        total_ += e.bytes;
        break;
      }
      case MemoryAction::kFreeRequested:
        Free(e);
        break;
      case MemoryAction::kFreeCompleted:
        pending_ -= std::min(pending_, e.bytes);
        break;
      default:
        if (IsGrowth(e.action)) reserved_ += e.bytes;
        if (IsShrinking(e.action)) reserved_ -= std::min(reserved_, e.bytes);
    }
  }

  uint64_t total() const { return total_; }
  uint64_t pending() const { return pending_; }
  uint64_t reserved() const { return reserved_; }
  int64_t time_us() const { return time_us_; }
  const std::vector<uint64_t>& in_use() const { return in_use_; }
  size_t OwnerOf(uint32_t site) const {
    return site < owner_of_site_.size() ? owner_of_site_[site] : unknown_;
  }

 private:
  struct Held {
    uint64_t bytes;
    size_t owner;
  };

  void Free(const MemoryEvent& e) {
    const auto found = blocks_.find(e.address);
    const size_t owner =
        found == blocks_.end() ? FirstOwner(e.address) : found->second.owner;
    const uint64_t bytes = std::min(
        in_use_[owner], found == blocks_.end() ? e.bytes : found->second.bytes);
    if (found != blocks_.end()) blocks_.erase(found);
    in_use_[owner] -= bytes;
    total_ -= bytes;
    pending_ += bytes;
  }

  size_t FirstOwner(uint64_t address) const {
    const auto found = first_owner_.find(address);
    return found == first_owner_.end() ? unknown_ : found->second;
  }

  // Memory that the history does not allocate, but that is in use at the end or
  // is freed, was in use before the history.
  void FindBeginning() {
    struct Seen {
      bool live;
      bool pending;
    };
    std::unordered_map<uint64_t, Seen> seen;
    for (const MemoryEvent& e : snapshot_.events) {
      if (e.action == MemoryAction::kAlloc) {
        seen[e.address] = {true, false};
      } else if (e.action == MemoryAction::kFreeRequested) {
        if (seen.find(e.address) == seen.end()) first_[unknown_] += e.bytes;
        seen[e.address] = {false, true};
      } else if (e.action == MemoryAction::kFreeCompleted) {
        if (seen.find(e.address) == seen.end()) first_pending_ += e.bytes;
        seen[e.address] = {false, false};
      }
    }
    uint64_t reserved = 0;
    for (const SegmentSnapshot& s : snapshot_.segments) {
      reserved += s.size;
      for (const BlockSnapshot& b : s.blocks) {
        if (seen.find(b.address) != seen.end()) continue;
        if (b.state == BlockState::kLive) {
          first_[OwnerOf(b.site)] += b.size;
          first_owner_[b.address] = OwnerOf(b.site);
        }
        if (b.state == BlockState::kPending) first_pending_ += b.size;
      }
    }
    for (auto e = snapshot_.events.rbegin(); e != snapshot_.events.rend();
         ++e) {
      if (IsGrowth(e->action)) reserved -= std::min(reserved, e->bytes);
      if (IsShrinking(e->action)) reserved += e->bytes;
    }
    first_reserved_ = reserved;
  }

  const MemorySnapshot& snapshot_;
  const std::vector<size_t> owner_of_site_;
  const size_t unknown_;
  std::vector<uint64_t> first_;
  std::unordered_map<uint64_t, size_t> first_owner_;
  uint64_t first_pending_ = 0;
  uint64_t first_reserved_ = 0;

  std::vector<uint64_t> in_use_;
  std::unordered_map<uint64_t, Held> blocks_;
  uint64_t total_ = 0;
  uint64_t pending_ = 0;
  uint64_t reserved_ = 0;
  int64_t time_us_ = 0;
};

void AddFree(uint64_t size, MemoryAnalysis* a) {
  uint64_t least = 512;
  while (least <= size / 2) least *= 2;
  a->largest_free = std::max(a->largest_free, size);
  ++a->free_blocks;
  if (a->free_classes.empty()) a->free_classes.push_back({512});
  while (a->free_classes.back().least < least) {
    a->free_classes.push_back({a->free_classes.back().least * 2});
  }
  for (FreeClass& c : a->free_classes) {
    if (c.least == least) {
      ++c.blocks;
      c.bytes += size;
    }
  }
}

void AddSegment(const SegmentSnapshot& s, MemoryAnalysis* a) {
  a->reserved += s.size;
  uint64_t free = 0;
  for (const BlockSnapshot& b : s.blocks) {
    switch (b.state) {
      case BlockState::kLive:
        a->in_use += b.size;
        ++a->in_use_blocks;
        if (b.requested != 0) a->rounding += b.size - b.requested;
        break;
      case BlockState::kPending:
        a->pending += b.size;
        ++a->pending_blocks;
        break;
      case BlockState::kFree:
        free += b.size;
        AddFree(b.size, a);
        break;
      case BlockState::kUnmapped:
        break;
    }
  }
  (free == s.size ? a->free_whole : a->free_split) += free;
}

// One owner for each name; the last owner is for blocks without a known place.
void NameOwners(const MemorySnapshot& snapshot, MemoryAnalysis* a) {
  std::map<std::string, size_t> known;
  for (size_t i = 0; i < snapshot.sites.size(); ++i) {
    const std::string name = SiteName(snapshot, static_cast<uint32_t>(i));
    const auto [found, is_new] = known.emplace(name, a->owners.size());
    if (is_new) a->owners.push_back({name});
    a->owner_of_site.push_back(found->second);
  }
  a->owners.push_back({kUnknown});
  a->unknown_owner = a->owners.size() - 1;
}

void CountOwners(const MemorySnapshot& snapshot, MemoryAnalysis* a) {
  for (const SegmentSnapshot& s : snapshot.segments) {
    for (const BlockSnapshot& b : s.blocks) {
      if (b.state != BlockState::kLive) continue;
      MemoryOwner& owner = a->owners[a->owner(b.site)];
      owner.bytes += b.size;
      ++owner.blocks;
    }
  }
}

void FindPeak(const MemorySnapshot& snapshot, Replay* replay,
              MemoryAnalysis* a) {
  a->peak = replay->total();
  std::vector<uint64_t> at_peak = replay->in_use();
  size_t when = 0;
  for (size_t i = 0; i < snapshot.events.size(); ++i) {
    const MemoryEvent& e = snapshot.events[i];
    replay->Apply(e);
    if (e.action == MemoryAction::kAlloc) {
      ++a->owners[replay->OwnerOf(e.site)].allocations;
    }
    if (e.action == MemoryAction::kOutOfMemory) {
      a->failures.push_back({replay->time_us(), e.bytes});
    }
    if (replay->total() > a->peak) {
      a->peak = replay->total();
      a->peak_time_us = replay->time_us();
      when = i + 1;
    }
  }
  a->duration_us = replay->time_us();
  replay->Restart();
  for (size_t i = 0; i < when; ++i) replay->Apply(snapshot.events[i]);
  for (size_t i = 0; i < a->owners.size(); ++i) {
    a->owners[i].peak_bytes = replay->in_use()[i];
  }
  replay->Restart();
}

// Sorts the largest first, and removes owners without memory.
void SortOwners(MemoryAnalysis* a) {
  std::vector<size_t> order(a->owners.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto weight = [&](size_t i) {
    return std::max(a->owners[i].bytes, a->owners[i].peak_bytes);
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t x, size_t y) { return weight(x) > weight(y); });
  while (!order.empty() && weight(order.back()) == 0) order.pop_back();
  std::vector<size_t> place(a->owners.size(), order.size());
  std::vector<MemoryOwner> sorted;
  for (const size_t i : order) {
    place[i] = sorted.size();
    sorted.push_back(a->owners[i]);
  }
  for (size_t& owner : a->owner_of_site) owner = place[owner];
  a->unknown_owner = place[a->unknown_owner];
  a->owners = std::move(sorted);
}

MemoryMoment MomentOf(const Replay& replay, const std::vector<size_t>& place,
                      size_t series) {
  MemoryMoment m;
  m.time_us = replay.time_us();
  m.reserved = replay.reserved();
  m.pending = replay.pending();
  m.in_use.assign(series + 1, 0);
  for (size_t i = 0; i < place.size(); ++i) {
    m.in_use[std::min(place[i], series)] += replay.in_use()[i];
  }
  return m;
}

// One moment for each column of time: the one with the most memory in use.
void FillTimeline(const MemorySnapshot& snapshot, Replay* replay,
                  const std::vector<size_t>& place, size_t columns,
                  MemoryAnalysis* a) {
  const size_t series = std::min(MemoryAnalysis::kSeries, a->owners.size());
  a->timeline.push_back(MomentOf(*replay, place, series));
  const int64_t width =
      std::max<int64_t>(1, a->duration_us / static_cast<int64_t>(columns) + 1);
  int64_t column = -1;
  uint64_t most = 0;
  for (const MemoryEvent& e : snapshot.events) {
    const int64_t next = (e.time_us - snapshot.events[0].time_us) / width;
    if (column >= 0 && next > column + 1) {  // a pause, without a change
      a->timeline.push_back(MomentOf(*replay, place, series));
    }
    replay->Apply(e);
    if (replay->time_us() / width != column) {
      column = replay->time_us() / width;
    } else if (replay->total() <= most) {
      continue;  // the column ends with what is appended below
    } else {
      a->timeline.pop_back();
    }
    most = replay->total();
    a->timeline.push_back(MomentOf(*replay, place, series));
  }
  if (!snapshot.events.empty()) {
    a->timeline.push_back(MomentOf(*replay, place, series));
  }
}

}  // namespace

uint64_t MemoryMoment::total() const {
  return std::accumulate(in_use.begin(), in_use.end(), uint64_t{0});
}

double MemoryAnalysis::fragmentation() const {
  return free() == 0 ? 0
                     : 1 - static_cast<double>(largest_free) /
                               static_cast<double>(free());
}

std::string SiteName(const MemorySnapshot& snapshot, uint32_t site) {
  if (site >= snapshot.sites.size()) return kUnknown;
  const MemorySite& s = snapshot.sites[site];
  if (!s.file.empty()) {
    const size_t slash = s.file.rfind('/');
    return absl::StrFormat(
        "%s:%d", s.file.substr(slash == std::string::npos ? 0 : slash + 1),
        s.line);
  }
  return s.frames.empty() ? kUnknown : absl::StrFormat("0x%x", s.frames[0]);
}

MemoryAnalysis Analyse(const MemorySnapshot& snapshot, size_t columns) {
  MemoryAnalysis a;
  for (const SegmentSnapshot& s : snapshot.segments) AddSegment(s, &a);
  a.is_complete =
      snapshot.events.empty() || snapshot.events.front().number <= 1;
  NameOwners(snapshot, &a);
  CountOwners(snapshot, &a);
  const std::vector<size_t> unsorted = a.owner_of_site;
  const size_t count = a.owners.size();
  Replay replay(snapshot, unsorted, count);
  FindPeak(snapshot, &replay, &a);
  SortOwners(&a);
  std::vector<size_t> place(count, a.owners.size());
  for (size_t i = 0; i < unsorted.size(); ++i) {
    place[unsorted[i]] = a.owner_of_site[i];
  }
  place[count - 1] = a.unknown_owner;
  FillTimeline(snapshot, &replay, place, columns, &a);
  return a;
}

}  // namespace devrt::tools
