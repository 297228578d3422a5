// SPDX-License-Identifier: Apache-2.0

#include "memory/common/history_ring.h"

#include <unwind.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace devrt::internal {

namespace {

constexpr int kIndexBits = 32;

int64_t NowMicroseconds() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

struct Walk {
  uint64_t frames[HistoryRing::kMostFrames];
  int count;
  int skip;  // frames of devrt that are left out
};

_Unwind_Reason_Code Step(_Unwind_Context* context, void* argument) {
  Walk* walk = static_cast<Walk*>(argument);
  const uint64_t address = _Unwind_GetIP(context);
  if (address == 0) return _URC_END_OF_STACK;
  if (walk->skip > 0) {
    --walk->skip;
    return _URC_NO_REASON;
  }
  walk->frames[walk->count++] = address;
  return walk->count < HistoryRing::kMostFrames ? _URC_NO_REASON
                                                : _URC_END_OF_STACK;
}

void Append(std::string* key, const void* bytes, size_t size) {
  key->append(static_cast<const char*>(bytes), size);
}

}  // namespace

absl::Status HistoryRing::Start(const HistoryOptions& options) {
  if (options.events == 0 || options.events > kMostEvents) {
    return absl::InvalidArgumentError(
        absl::StrCat("a memory history keeps 1 to ", kMostEvents,
                     " events; asked for were ", options.events));
  }
  std::vector<Entry> entries;  // allocated and freed without the lock
  entries.reserve(options.events);
  MutexLock hold(&mutex_);
  options_ = options;
  Restart(&entries);
  on_ = true;
  return absl::OkStatus();
}

void HistoryRing::Stop() {
  std::vector<Entry> entries;
  MutexLock hold(&mutex_);
  on_ = false;
  Restart(&entries);
}

void HistoryRing::Restart(std::vector<Entry>* entries) {
  entries_.swap(*entries);
  count_ = 0;
  sites_.clear();
  site_index_.clear();
  ++generation_;
}

uint64_t HistoryRing::Site(CallSite site) {
  bool stacks;
  {
    MutexLock hold(&mutex_);
    if (!on_) return 0;
    stacks = options_.stacks;
  }
  Walk walk;
  walk.count = 0;
  walk.skip = 1;  // this function
  if (stacks) _Unwind_Backtrace(Step, &walk);
  std::string key;
  Append(&key, &site.file, sizeof(site.file));
  Append(&key, &site.line, sizeof(site.line));
  Append(&key, walk.frames, sizeof(walk.frames[0]) * walk.count);
  MutexLock hold(&mutex_);
  if (!on_) return 0;
  const auto [found, is_new] =
      site_index_.try_emplace(std::move(key), sites_.size());
  if (is_new) {
    if (sites_.size() == kMostSites) {
      site_index_.erase(found);
      return 0;
    }
    sites_.push_back(
        {site, std::vector<uint64_t>(walk.frames, walk.frames + walk.count)});
  }
  return (generation_ << kIndexBits) | (uint64_t{found->second} + 1);
}

uint32_t HistoryRing::Index(uint64_t site) const {
  constexpr uint64_t kMask = (uint64_t{1} << kIndexBits) - 1;
  if (site == 0 || site >> kIndexBits != (generation_ & kMask)) {
    return kNoMemorySite;
  }
  return static_cast<uint32_t>((site & kMask) - 1);
}

uint32_t HistoryRing::IndexOf(uint64_t site) const {
  MutexLock hold(&mutex_);
  return Index(site);
}

void HistoryRing::Add(MemoryAction action, const void* pointer, uint64_t bytes,
                      uint64_t stream, uint64_t site) {
  MutexLock hold(&mutex_);
  if (!on_) return;
  const Entry entry = {reinterpret_cast<uint64_t>(pointer),
                       bytes,
                       stream,
                       NowMicroseconds(),
                       Index(site),
                       action};
  if (entries_.size() < options_.events) {
    entries_.push_back(entry);  // reserved
  } else {
    entries_[count_ % options_.events] = entry;
  }
  ++count_;
}

void HistoryRing::Copy(MemorySnapshot* snapshot) const {
  MutexLock hold(&mutex_);
  snapshot->sites.reserve(snapshot->sites.size() + sites_.size());
  for (const SiteRecord& s : sites_) {
    snapshot->sites.push_back(
        {s.site.file == nullptr ? "" : s.site.file, s.site.line, s.frames});
  }
  const uint64_t kept = entries_.size();
  snapshot->events.reserve(snapshot->events.size() + kept);
  for (uint64_t i = count_ - kept; i < count_; ++i) {
    const Entry& e = entries_[i % std::max<uint64_t>(1, options_.events)];
    snapshot->events.push_back(
        {e.action, i + 1, e.address, e.bytes, e.stream, e.time_us, e.site});
  }
}

}  // namespace devrt::internal
