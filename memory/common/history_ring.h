// SPDX-License-Identifier: Apache-2.0
//
// HistoryRing: the last events of a device's allocator.  Without history the
// allocator pays for a load and a branch.  With history it adds each event
// while it holds the lock of the pool, so that events have the order of their
// effects.  `mutex_` is a leaf: no other lock is taken under it.  Stacks are
// taken before any lock, and each stack is kept once.
//
// A device has one ring, which the first history makes and nothing frees: a
// thread may still be about to use it when the history ends.  A site number
// contains the number of its history, so that blocks from an earlier history do
// not name a site of this one.

#ifndef DEVRT_MEMORY_COMMON_HISTORY_RING_H_
#define DEVRT_MEMORY_COMMON_HISTORY_RING_H_

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "devrt/memory/memory_snapshot.h"
#include "devrt/runtime/call_site.h"
#include "devrt/runtime/mutex.h"

namespace devrt::internal {

class HistoryRing {
 public:
  static constexpr uint64_t kMostEvents = uint64_t{1} << 24;
  static constexpr int kMostFrames = 32;
  // Further sites are recorded as unknown, so that a program which keeps
  // loading code does not fill the memory.
  static constexpr uint32_t kMostSites = 1u << 20;

  // Begins a new history.  INVALID_ARGUMENT as history.h says.
  absl::Status Start(const HistoryOptions& options) DEVRT_EXCLUDES(mutex_);
  void Stop() DEVRT_EXCLUDES(mutex_);

  // The number of a site, with the stack of the calling thread if the options
  // ask for stacks; 0: unknown.
  uint64_t Site(CallSite site) DEVRT_EXCLUDES(mutex_);
  void Add(MemoryAction action, const void* pointer, uint64_t bytes,
           uint64_t stream, uint64_t site) DEVRT_EXCLUDES(mutex_);

  // Appends the events and all sites to the snapshot.
  void Copy(MemorySnapshot* snapshot) const DEVRT_EXCLUDES(mutex_);
  // The index, in the copied sites, of a site number that Site returned.
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

  // Forgets events and sites.  Exchanges the memory of the events, so that it
  // is allocated and freed without the lock.
  void Restart(std::vector<Entry>* entries) DEVRT_REQUIRES(mutex_);
  uint32_t Index(uint64_t site) const DEVRT_REQUIRES(mutex_);

  mutable Mutex mutex_;
  HistoryOptions options_ DEVRT_GUARDED_BY(mutex_);
  bool on_ DEVRT_GUARDED_BY(mutex_) = false;
  uint64_t generation_ DEVRT_GUARDED_BY(mutex_) = 0;
  std::vector<Entry> entries_ DEVRT_GUARDED_BY(mutex_);  // a ring
  uint64_t count_ DEVRT_GUARDED_BY(mutex_) = 0;
  std::vector<SiteRecord> sites_ DEVRT_GUARDED_BY(mutex_);
  std::unordered_map<std::string, uint32_t> site_index_
      DEVRT_GUARDED_BY(mutex_);  // key: the bytes of file, line and frames
};

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_COMMON_HISTORY_RING_H_
