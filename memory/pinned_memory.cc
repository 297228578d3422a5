// SPDX-License-Identifier: Apache-2.0

#include "devrt/memory/pinned_memory.h"

#include "devrt/memory/internal/unimplemented.h"
#include "devrt/runtime/raw_memory.h"
#include "devrt/runtime/status.h"

namespace devrt {

absl::StatusOr<void*> AllocatePinned(Device, uint64_t, CallSite) {
  return internal::NotBuilt("AllocatePinned");
}

absl::Status FreePinned(void*, CallSite) {
  return internal::NotBuilt("FreePinned");
}

absl::Status RecordPinnedUse(const void*, StreamRef, CallSite) {
  return internal::NotBuilt("RecordPinnedUse");
}

absl::StatusOr<bool> IsPinned(const void* pointer) {
  DEVRT_ASSIGN_OR_RETURN(const PointerInfo info, GetPointerInfo(pointer));
  return info.kind == PointerKind::kPinned;
}

absl::Status EmptyPinnedCache(Backend) {
  return internal::NotBuilt("EmptyPinnedCache");
}

}  // namespace devrt
