// SPDX-License-Identifier: Apache-2.0

#include "tests/memory/model/model.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <tuple>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"

namespace devrt::testing {

namespace {

uint64_t Rounded(uint64_t bytes, uint64_t to) {
  return (bytes + to - 1) / to * to;
}
uint64_t SizeOf(uint64_t bytes) { return Rounded(bytes, 512); }
bool IsSmall(uint64_t bytes) { return SizeOf(bytes) <= kModelMiB; }

void Set(Stat* stat, int64_t now) {
  const int64_t change = now - stat->current;
  stat->current = now;
  stat->peak = std::max(stat->peak, now);
  (change > 0 ? stat->allocated : stat->freed) += std::abs(change);
}

struct Sums {
  int64_t blocks = 0, bytes = 0, requested = 0;
  int64_t segments = 0, reserved = 0;
  int64_t splits = 0, split_bytes = 0;
};

void Add(const ModelSegment& s, Sums* sums) {
  ++sums->segments;
  sums->reserved += static_cast<int64_t>(s.size);
  if (s.IsWhole()) return;
  for (const ModelBlock& b : s.blocks) {
    const int64_t size = static_cast<int64_t>(b.size);
    if (b.is_live) {
      ++sums->blocks;
      sums->bytes += size;
      sums->requested += static_cast<int64_t>(b.requested);
    } else {
      ++sums->splits;
      sums->split_bytes += size;
    }
  }
}

template <typename Function>
void ForEachStat(MemoryStatistics* s, Function function) {
  for (PoolStat* p :
       {&s->allocation, &s->segment, &s->active, &s->inactive_split,
        &s->allocated_bytes, &s->reserved_bytes, &s->active_bytes,
        &s->inactive_split_bytes, &s->requested_bytes}) {
    for (Stat* stat : {&p->all, &p->small_pool, &p->large_pool}) function(stat);
  }
}

}  // namespace

uint64_t ModelAllocator::SegmentFor(uint64_t bytes) {
  const uint64_t size = SizeOf(bytes);
  if (size <= kModelMiB) return 2 * kModelMiB;
  return size < 10 * kModelMiB ? 20 * kModelMiB : Rounded(size, 2 * kModelMiB);
}

std::optional<uint64_t> ModelAllocator::Place(size_t stream,
                                              uint64_t bytes) const {
  const ModelBlock* best = nullptr;
  for (const ModelSegment& s : segments_) {
    if (s.stream != stream || s.is_small != IsSmall(bytes)) continue;
    for (const ModelBlock& b : s.blocks) {
      if (b.is_live || b.size < SizeOf(bytes)) continue;
      if (best == nullptr ||
          std::tie(b.size, b.address) < std::tie(best->size, best->address)) {
        best = &b;
      }
    }
  }
  if (best == nullptr) return std::nullopt;
  return best->address;
}

void ModelAllocator::Allocate(size_t stream, uint64_t bytes, uint64_t address) {
  if (!Place(stream, bytes).has_value()) {
    const uint64_t size = SegmentFor(bytes);
    segments_.push_back(
        {address, size, IsSmall(bytes), stream, {{address, size, 0, false}}});
    ++native_calls_;
    Recount();  // the segment comes before the block
  }
  for (ModelSegment& s : segments_) {
    for (size_t i = 0; i < s.blocks.size(); ++i) {
      ModelBlock& b = s.blocks[i];
      if (b.address != address || b.is_live) continue;
      const uint64_t size = SizeOf(bytes);
      const uint64_t rest = b.size - size;
      b.is_live = true;
      b.requested = bytes;
      if (s.is_small ? rest >= 512 : rest > kModelMiB) {
        b.size = size;
        s.blocks.insert(s.blocks.begin() + static_cast<ptrdiff_t>(i) + 1,
                        {address + size, rest, 0, false});
      }
      Recount();
      return;
    }
  }
}

void ModelAllocator::Free(uint64_t address) {
  for (ModelSegment& s : segments_) {
    for (size_t i = 0; i < s.blocks.size(); ++i) {
      if (s.blocks[i].address != address) continue;
      s.blocks[i].is_live = false;
      s.blocks[i].requested = 0;
      const size_t first = i > 0 && !s.blocks[i - 1].is_live ? i - 1 : i;
      while (first + 1 < s.blocks.size() && !s.blocks[first].is_live &&
             !s.blocks[first + 1].is_live) {
        s.blocks[first].size += s.blocks[first + 1].size;
        s.blocks.erase(s.blocks.begin() + static_cast<ptrdiff_t>(first) + 1);
      }
      Recount();
      return;
    }
  }
}

bool ModelAllocator::Keep(const std::set<uint64_t>& bases) {
  bool all_whole = true;
  const size_t before = segments_.size();
  segments_.erase(std::remove_if(segments_.begin(), segments_.end(),
                                 [&](const ModelSegment& s) {
                                   const bool goes = bases.count(s.base) == 0;
                                   all_whole &= !goes || s.IsWhole();
                                   return goes;
                                 }),
                  segments_.end());
  native_frees_ += static_cast<int64_t>(before - segments_.size());
  Recount();
  return all_whole;
}

void ModelAllocator::EmptyCache() {
  const size_t before = segments_.size();
  segments_.erase(
      std::remove_if(segments_.begin(), segments_.end(),
                     [](const ModelSegment& s) { return s.IsWhole(); }),
      segments_.end());
  native_frees_ += static_cast<int64_t>(before - segments_.size());
  Recount();
}

void ModelAllocator::ResetPeak() {
  ForEachStat(&statistics_, [](Stat* stat) { stat->peak = stat->current; });
}

void ModelAllocator::ResetAccumulated() {
  ForEachStat(&statistics_, [](Stat* stat) {
    stat->allocated = stat->current;
    stat->freed = 0;
  });
  retries_ = failures_ = native_calls_ = native_frees_ = 0;
  Recount();
}

uint64_t ModelAllocator::reserved() const {
  uint64_t bytes = 0;
  for (const ModelSegment& s : segments_) bytes += s.size;
  return bytes;
}

uint64_t ModelAllocator::cached() const {
  uint64_t bytes = 0;
  for (const ModelSegment& s : segments_) bytes += s.IsWhole() ? s.size : 0;
  return bytes;
}

void ModelAllocator::Recount() {
  Sums small, large;
  for (const ModelSegment& s : segments_) Add(s, s.is_small ? &small : &large);
  const auto set = [&](PoolStat* stat, int64_t Sums::*sum) {
    Set(&stat->small_pool, small.*sum);
    Set(&stat->large_pool, large.*sum);
    Set(&stat->all, small.*sum + large.*sum);
  };
  MemoryStatistics& s = statistics_;
  set(&s.allocation, &Sums::blocks);
  set(&s.active, &Sums::blocks);
  set(&s.allocated_bytes, &Sums::bytes);
  set(&s.active_bytes, &Sums::bytes);
  set(&s.requested_bytes, &Sums::requested);
  set(&s.segment, &Sums::segments);
  set(&s.reserved_bytes, &Sums::reserved);
  set(&s.inactive_split, &Sums::splits);
  set(&s.inactive_split_bytes, &Sums::split_bytes);
  s.num_alloc_retries = retries_;
  s.num_ooms = failures_;
  s.num_device_alloc = native_calls_;
  s.num_device_free = native_frees_;
}

std::string ModelAllocator::Describe() const {
  std::string text;
  for (const ModelSegment& s : segments_) {
    absl::StrAppend(&text, s.is_small ? "small " : "large ", "stream ",
                    s.stream, " 0x", absl::Hex(s.base), ":");
    for (const ModelBlock& b : s.blocks) {
      absl::StrAppend(&text, b.is_live ? " [" : " (", b.size,
                      b.is_live ? "]" : ")");
    }
    text += "\n";
  }
  return text;
}

namespace {

// Sums that are left out of the comparison get equal values.
void TakeSums(const PoolStat& from, PoolStat* to) {
  const std::pair<const Stat*, Stat*> pools[] = {
      {&from.all, &to->all},
      {&from.small_pool, &to->small_pool},
      {&from.large_pool, &to->large_pool}};
  for (const auto& [source, target] : pools) {
    target->allocated = source->allocated;
    target->freed = source->freed;
  }
}

}  // namespace

std::string Difference(const MemoryStatistics& got,
                       const MemoryStatistics& wanted) {
  MemoryStatistics expected = wanted;
  TakeSums(got.inactive_split, &expected.inactive_split);
  TakeSums(got.inactive_split_bytes, &expected.inactive_split_bytes);
  // A text for each figure takes much longer than a step of a program.
  static_assert(std::has_unique_object_representations_v<MemoryStatistics>);
  if (std::memcmp(&got, &expected, sizeof got) == 0) return "";
  std::string text;
  const StatisticKeys a = ToKeys(got);
  const StatisticKeys b = ToKeys(expected);
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].second == b[i].second) continue;
    absl::StrAppend(&text, a[i].first, " is ", a[i].second, ", expected ",
                    b[i].second, "\n");
  }
  return text;
}

}  // namespace devrt::testing
