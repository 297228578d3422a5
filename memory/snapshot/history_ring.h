// SPDX-License-Identifier: Apache-2.0
//
// HistoryRing: the last events of a device's allocator.  Off: one load and a
// branch in the allocator.  On: events are numbered and written under `mutex_`,
// a leaf, while the pool's lock is held, so that their order is that of their
// effects.  Stacks are taken before any lock and kept once each.
//
// One ring a device, made at the first history and never freed: a thread may
// still be on its way into it when the history ends.  Site numbers carry the
// history that they belong to, so that those in blocks from an earlier one are
// known for what they are.

#ifndef DEVRT_MEMORY_SNAPSHOT_HISTORY_RING_H_
#define DEVRT_MEMORY_SNAPSHOT_HISTORY_RING_H_

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "devrt/memory/history.h"
#include "devrt/runtime/call_site.h"
#include "devrt/runtime/mutex.h"

namespace devrt::internal {

class HistoryRing {
 public:
  static constexpr uint64_t kMostEvents = uint64_t{1} << 24;
  static constexpr int kMostFrames = 32;
  // Sites beyond them are unknown: a program that loads code all the time
  // shall not fill the memory.
  static constexpr uint32_t kMostSites = 1u << 20;

  // Begins anew.  INVALID_ARGUMENT as history.h says.
  absl::Status Start(const HistoryOptions& options) DEVRT_EXCLUDES(mutex_);
  void Stop() DEVRT_EXCLUDES(mutex_);

  // The number of a site, with the calling thread's stack if that is asked
  // for; 0: unknown.
  uint64_t Site(CallSite site) DEVRT_EXCLUDES(mutex_);
  void Add(MemoryAction action, const void* pointer, uint64_t bytes,
           uint64_t stream, uint64_t site) DEVRT_EXCLUDES(mutex_);

  // Appends the events and all sites.
  void Copy(MemorySnapshot* snapshot) const DEVRT_EXCLUDES(mutex_);
  // Of a site number that Site gave: its index in the copied sites.
  uint32_t IndexOf(uint64_t site) const DEVRT_EXCLUDES(mutex_);

 private:
  struct Entry {
    uint64_t address;
    uint64_t bytes;
    uint64_t stream;
    int64_t time_us;
    uint32_t site;
    MemoryAction action;
  };
  struct SiteRecord {
    CallSite site;
    std::vector<uint64_t> frames;
  };

  uint32_t Index(uint64_t site) const DEVRT_REQUIRES(mutex_);

  mutable Mutex mutex_;
  HistoryOptions options_ DEVRT_GUARDED_BY(mutex_);
  bool on_ DEVRT_GUARDED_BY(mutex_) = false;
  uint64_t generation_ DEVRT_GUARDED_BY(mutex_) = 0;
  std::vector<Entry> entries_ DEVRT_GUARDED_BY(mutex_);  // a ring
  uint64_t count_ DEVRT_GUARDED_BY(mutex_) = 0;
  std::vector<SiteRecord> sites_ DEVRT_GUARDED_BY(mutex_);
  std::unordered_map<std::string, uint32_t> site_index_
      DEVRT_GUARDED_BY(mutex_);  // by file, line and frames as bytes
};

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_SNAPSHOT_HISTORY_RING_H_
