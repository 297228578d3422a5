// SPDX-License-Identifier: Apache-2.0
//
// The functions of Array that its Storage answers.

#include <optional>

#include "arrays/core/array_checks.h"
#include "arrays/storage/storage.h"
#include "devrt/arrays/array.h"
#include "devrt/runtime/status.h"

namespace devrt {

using internal::CheckNotMovedFrom;

absl::Status Array::NoteUse(StreamRef stream, bool writes,
                            CallSite site) const {
  DEVRT_RETURN_IF_ERROR(CheckNotMovedFrom(storage_, "NoteUse"));
  return storage_->NoteUse(stream, writes, site);
}

absl::Status Array::RecordUse(StreamRef stream, CallSite site) const {
  DEVRT_RETURN_IF_ERROR(CheckNotMovedFrom(storage_, "RecordUse"));
  return storage_->RecordUse(stream, site);
}

absl::Status Array::OrderBefore(StreamRef stream, CallSite site) const {
  DEVRT_RETURN_IF_ERROR(CheckNotMovedFrom(storage_, "OrderBefore"));
  return storage_->OrderBefore(stream, /*for_write=*/true, site);
}

absl::Status Array::Ready(CallSite site) const {
  DEVRT_RETURN_IF_ERROR(CheckNotMovedFrom(storage_, "Ready"));
  return storage_->Ready(site);
}

absl::StatusOr<bool> Array::IsReady(CallSite site) const {
  DEVRT_RETURN_IF_ERROR(CheckNotMovedFrom(storage_, "IsReady"));
  return storage_->IsReady(site);
}

std::optional<StreamRef> Array::home_stream() const {
  if (storage_ == nullptr) return std::nullopt;
  return storage_->home_stream();
}

absl::Status Array::SetDeallocationStream(StreamRef stream) const {
  DEVRT_RETURN_IF_ERROR(CheckNotMovedFrom(storage_, "SetDeallocationStream"));
  return storage_->SetDeallocationStream(stream);
}

}  // namespace devrt
