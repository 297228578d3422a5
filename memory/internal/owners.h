// SPDX-License-Identifier: Apache-2.0
//
// Who must free a block.  A block of a caching allocator is known by its
// address (AddressMap) and is not here; every other resource's is, in one of
// 64 parts by a hash of its address, each with a lock.
//
// Locks: a part's, a leaf.  A resource is released with none held, as that may
// run code of the program.

#ifndef DEVRT_MEMORY_INTERNAL_OWNERS_H_
#define DEVRT_MEMORY_INTERNAL_OWNERS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "absl/container/btree_map.h"
#include "devrt/memory/memory_resource.h"
#include "devrt/runtime/mutex.h"
#include "devrt/streams/stream.h"

namespace devrt::internal {

struct OwnedBlock {
  std::shared_ptr<MemoryResource> resource;
  uint64_t bytes;  // as asked for
  StreamRef stream;
};

class Owners {
 public:
  static Owners& Get();
  // False when a block is there already: the resource gave it twice.
  bool Add(void* pointer, OwnedBlock block);
  // Exactly one of several threads that free a block gets it.
  std::optional<OwnedBlock> Take(void* pointer);
  std::optional<OwnedBlock> FindBase(const void* pointer) const;

 private:
  static constexpr size_t kParts = 64;
  struct Part {
    Mutex mutex;
    absl::btree_map<uintptr_t, OwnedBlock> blocks DEVRT_GUARDED_BY(mutex);
  };
  Part parts_[kParts];
};

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_INTERNAL_OWNERS_H_
