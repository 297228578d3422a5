// SPDX-License-Identifier: Apache-2.0

#include "devrt/memory/pinned_memory.h"

#include "devrt/runtime/raw_memory.h"
#include "devrt/runtime/status.h"
#include "memory/pinned/pinned_allocator.h"
#include "memory/pinned/pinned_uses.h"
#include "runtime/raw_memory/blocks.h"
#include "runtime/raw_memory/out_of_memory.h"
#include "runtime/registry/process_state.h"

namespace devrt {

using internal::DeviceRecord;
using internal::PinnedAllocator;

absl::StatusOr<void*> AllocatePinned(Device device, uint64_t bytes,
                                     CallSite site) {
  DeviceRecord* const record = device.record();
  if (ABSL_PREDICT_FALSE(bytes - 1 >= internal::kTooManyBytes - 1 ||
                         internal::InHostFunction() ||
                         !internal::IsOpen(record))) {
    DEVRT_RETURN_IF_ERROR(
        internal::CheckRequest(record, bytes, 0, "AllocatePinned"));
    return nullptr;  // zero bytes (C102)
  }
  return PinnedAllocator::Of(record)->Allocate(record, bytes, site);
}

absl::Status FreePinned(void* pointer, CallSite site) {
  if (ABSL_PREDICT_FALSE(!internal::IsProcessOpen())) {
    return internal::ProcessClosedError();
  }
  if (pointer == nullptr) return absl::OkStatus();
  if (internal::InHostFunction()) {
    return internal::HostFunctionError("FreePinned");
  }
  return PinnedAllocator::Free(pointer, site);
}

absl::Status RecordPinnedUse(const void* pointer, StreamRef stream, CallSite) {
  if (internal::InHostFunction()) {
    return internal::HostFunctionError("RecordPinnedUse");
  }
  return internal::RecordUseOfPinned(pointer, stream);
}

absl::StatusOr<bool> IsPinned(const void* pointer) {
  DEVRT_ASSIGN_OR_RETURN(const PointerInfo info, GetPointerInfo(pointer));
  return info.kind == PointerKind::kPinned;
}

absl::Status EmptyPinnedCache(Backend backend) {
  if (internal::InHostFunction()) {
    return internal::HostFunctionError("EmptyPinnedCache");
  }
  if (!internal::IsProcessOpen()) return internal::ProcessClosedError();
  PinnedAllocator* const allocator =
      PinnedAllocator::Existing(internal::BackendRecord::Of(backend));
  return allocator != nullptr ? allocator->EmptyCache() : absl::OkStatus();
}

}  // namespace devrt
