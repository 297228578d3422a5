// SPDX-License-Identifier: Apache-2.0

#include "memory/api/plain_free.h"

#include "memory/api/captured_blocks.h"
#include "memory/device/address_map.h"
#include "memory/device/device_allocator.h"
#include "memory/pinned/pinned_allocator.h"
#include "memory/resource/block_owners.h"
#include "runtime/raw_memory/blocks.h"
#include "runtime/registry/process_state.h"

namespace devrt::internal {

bool FreeMemoryPlainly(void* pointer, CallSite site) {
  if (!IsProcessOpen() || InHostFunction() || BlockOwners::HasCached())
    return false;
  if (HasCapturedBlocks() && IsCapturedBlock(pointer)) return false;
  Segment* const segment = AddressMap::Get().Find(pointer);
  return segment != nullptr &&
         segment->allocator->FreePlainly(segment, pointer, site);
}

bool FreePinnedPlainly(void* pointer, CallSite site) {
  return IsProcessOpen() && !InHostFunction() &&
         PinnedAllocator::FreePlainly(pointer, site);
}

}  // namespace devrt::internal
