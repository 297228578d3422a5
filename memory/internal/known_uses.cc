// SPDX-License-Identifier: Apache-2.0

#include "devrt/memory/internal/known_uses.h"

#include "devrt/memory/internal/address_map.h"
#include "devrt/memory/internal/block_pool.h"
#include "devrt/memory/internal/owners.h"
#include "devrt/memory/internal/pinned_allocator.h"

namespace devrt::internal {

bool AddKnownUses(const void* pointer, absl::Span<const StreamUse> uses) {
  Segment* const segment = AddressMap::Get().Find(pointer);
  if (segment == nullptr) return PinnedAllocator::AddPoints(pointer, uses);
  if (Owners::HasCached()) return false;
  for (;;) {
    BlockPool* const pool = segment->pool.load(std::memory_order_acquire);
    if (pool == nullptr) return false;
    const PoolAnswer answer = pool->AddPoints(segment, pointer, uses);
    if (answer == PoolAnswer::kMoved) continue;
    return answer == PoolAnswer::kDone;
  }
}

}  // namespace devrt::internal
