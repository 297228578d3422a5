// SPDX-License-Identifier: Apache-2.0
//
// BlockOwners: which resource must free a block.  A block of a caching
// allocator is found by its address (AddressMap); it is here only while another
// resource stands in front of it.  Blocks of all other resources are here.
//
// Resources stand in front of each other: a block of a program is a block of an
// adaptor, within a block that the adaptor holds of its upstream, and so on.
// Each of these is an entry, with its holder: the resource in whose Do function
// the block was allocated, or nullptr for the program.  The holder tells two
// kinds of overlap apart:
//
//   within a block that the resource itself holds    an adaptor, an arena
//   any other overlap                                a mistake, refused
//
// Entries are kept in levels.  Entries of one level do not overlap, and a block
// is one level above the block that it lies in.  A level is an ordered map,
// because a hash cannot find overlaps.
//
// Locks: `mutex_`, a leaf.  A resource is released without the lock, because
// its destructor may run code of the program.

#ifndef DEVRT_MEMORY_RESOURCE_BLOCK_OWNERS_H_
#define DEVRT_MEMORY_RESOURCE_BLOCK_OWNERS_H_

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

// A resource whose blocks are found by their addresses (AddressMap).
class KnownByAddress {
 public:
  // The allocator whose segments hold the blocks.
  virtual const DeviceAllocator* KnownAllocator() const = 0;

 protected:
  KnownByAddress() = default;
  ~KnownByAddress() = default;
};

struct OwnedBlock {
  const MemoryResource* resource;
  // Null for a resource that no shared_ptr owns: its maker keeps it alive.
  std::shared_ptr<MemoryResource> keep;
  const MemoryResource* holder;  // nullptr: the program
  void* base;
  uint64_t bytes;  // that were asked for
  StreamRef stream;
  CallSite site;
  bool cached = false;   // lies in a segment of a caching allocator
  bool counted = false;  // in DeviceRecord::live_allocations
  uint64_t id = 0;       // never reused
};

class BlockOwners {
 public:
  static BlockOwners& Get();

  // Adds a block.  If it overlaps a block that it may not overlap, adds nothing
  // and returns that block.
  std::optional<OwnedBlock> Add(OwnedBlock block) DEVRT_EXCLUDES(mutex_);
  // Removes a block.  If several threads free it, exactly one gets true.
  bool Remove(const OwnedBlock& block) DEVRT_EXCLUDES(mutex_);

  // The blocks that begin at `pointer`, the outermost last.
  std::vector<OwnedBlock> FindAt(const void* pointer) const
      DEVRT_EXCLUDES(mutex_);
  // The blocks that `pointer` lies in, the outermost last.  The end of a block
  // counts only if no other block begins there (F17).
  std::vector<OwnedBlock> FindAround(const void* pointer) const
      DEVRT_EXCLUDES(mutex_);

  // True if some block of a caching allocator may have another owner.
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

// For device_memory.h: FreeOwned gives the block that begins at `pointer` back
// to its resource; RecordOwnedUse notes a use of the block that `pointer` lies
// in. nullopt: there is no such block here; the caller asks the AddressMap.
std::optional<absl::Status> FreeOwned(void* pointer, const StreamRef* stream,
                                      CallSite site);
std::optional<absl::Status> RecordOwnedUse(const void* pointer,
                                           StreamRef stream, CallSite site);

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_RESOURCE_BLOCK_OWNERS_H_
