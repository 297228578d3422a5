// SPDX-License-Identifier: Apache-2.0

#include "devrt/memory/memory_snapshot.h"

namespace devrt {

const char* ToString(MemoryAction action) {
  switch (action) {
    case MemoryAction::kAlloc:
      return "alloc";
    case MemoryAction::kFreeRequested:
      return "free_requested";
    case MemoryAction::kFreeCompleted:
      return "free_completed";
    case MemoryAction::kSegmentAlloc:
      return "segment_alloc";
    case MemoryAction::kSegmentFree:
      return "segment_free";
    case MemoryAction::kSegmentMap:
      return "segment_map";
    case MemoryAction::kSegmentUnmap:
      return "segment_unmap";
    case MemoryAction::kSnapshot:
      return "snapshot";
    case MemoryAction::kOutOfMemory:
      return "oom";
  }
  return "unknown";
}

const char* ToString(BlockState state) {
  switch (state) {
    case BlockState::kFree:
      return "inactive";
    case BlockState::kLive:
      return "active_allocated";
    case BlockState::kPending:
      return "active_pending_free";
    case BlockState::kUnmapped:
      return "unmapped";
  }
  return "unknown";
}

}  // namespace devrt
