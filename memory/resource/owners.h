// SPDX-License-Identifier: Apache-2.0
//
// Who must free a block.  A block of a caching allocator is known by its
// address (AddressMap) and is here only while another resource stands upon it;
// every other resource's is.
//
// Resources stand upon each other: the one block of a program is a block of the
// adaptor, a block that the adaptor holds of its upstream, and so on down.
// Each of them is an entry, with its holder: the resource in whose Do function
// it was allocated, nullptr for the program.  So two kinds of overlap are told
// apart:
//
//   within a block that the resource itself holds    an adaptor, an arena
//   anything else                                    a mistake, refused
//
// Entries are kept in levels; those of one level do not overlap, and a block is
// on the level after that of the block which it stands upon.  One ordered map a
// level: overlaps cannot be found by a hash.
//
// Locks: `mutex_`, a leaf.  A resource is released with it not held, as that
// may run code of the program.

#ifndef DEVRT_MEMORY_RESOURCE_OWNERS_H_
#define DEVRT_MEMORY_RESOURCE_OWNERS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/status/status.h"
#include "devrt/memory/memory_resource.h"
#include "devrt/runtime/call_site.h"
#include "devrt/runtime/mutex.h"
#include "devrt/streams/stream.h"

namespace devrt::internal {

class DeviceAllocator;

// A resource whose blocks are known by their addresses (AddressMap).
class KnownByAddress {
 public:
  // Whose segments hold them.
  virtual const DeviceAllocator* KnownAllocator() const = 0;

 protected:
  KnownByAddress() = default;
  ~KnownByAddress() = default;
};

struct OwnedBlock {
  const MemoryResource* resource;
  // Null for a resource that no shared_ptr owns: whoever made it keeps it.
  std::shared_ptr<MemoryResource> keep;
  const MemoryResource* holder;  // nullptr: the program
  void* base;
  uint64_t bytes;  // as asked for
  StreamRef stream;
  CallSite site;
  bool cached = false;   // lies in a segment of a caching allocator
  bool counted = false;  // in DeviceRecord::live_allocations
  uint64_t id = 0;       // never reused
};

class Owners {
 public:
  static Owners& Get();

  // What it overlaps and may not, then nothing has changed.
  std::optional<OwnedBlock> Add(OwnedBlock block) DEVRT_EXCLUDES(mutex_);
  // Exactly one of several threads that free a block gets true.
  bool Take(const OwnedBlock& block) DEVRT_EXCLUDES(mutex_);

  // The blocks that begin at `pointer`, the outermost last.
  std::vector<OwnedBlock> FindAt(const void* pointer) const
      DEVRT_EXCLUDES(mutex_);
  // Those that `pointer` lies in, the outermost last; the end counts only where
  // no other block begins there (F17).
  std::vector<OwnedBlock> FindAround(const void* pointer) const
      DEVRT_EXCLUDES(mutex_);

  // Whether a block of a caching allocator may have another owner.
  static bool HasCached() {
    return cached_.load(std::memory_order_acquire) != 0;
  }

 private:
  using Level = absl::btree_map<uintptr_t, OwnedBlock>;

  mutable Mutex mutex_;
  std::vector<Level> levels_ DEVRT_GUARDED_BY(mutex_);
  uint64_t last_id_ DEVRT_GUARDED_BY(mutex_) = 0;
  static inline std::atomic<int64_t> cached_{0};
};

// Whether `pointer` lies in a segment of a caching allocator.
bool IsCached(const void* pointer);

// For the functions of device_memory.h: the block of a program that `pointer`
// is the beginning of, or lies in, is given back to its resource, or marked
// there.  nullopt: no resource's block, ask the AddressMap.
std::optional<absl::Status> FreeOwned(void* pointer, const StreamRef* stream,
                                      CallSite site);
std::optional<absl::Status> RecordOwnedUse(const void* pointer,
                                           StreamRef stream, CallSite site);

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_RESOURCE_OWNERS_H_
