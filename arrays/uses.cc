// SPDX-License-Identifier: Apache-2.0
//
// What arrays ask of the memory behind them.

#include <optional>

#include "devrt/arrays/array.h"
#include "devrt/arrays/internal/storage.h"

namespace devrt {

absl::Status Array::NoteUse(StreamRef stream, bool writes,
                            CallSite site) const {
  return storage_->NoteUse(stream, writes, site);
}

absl::Status Array::RecordUse(StreamRef stream, CallSite site) const {
  return storage_->RecordUse(stream, site);
}

absl::Status Array::OrderBefore(StreamRef stream, CallSite site) const {
  return storage_->OrderBefore(stream, /*for_write=*/true, site);
}

absl::Status Array::Ready(CallSite site) const { return storage_->Ready(site); }

absl::StatusOr<bool> Array::IsReady(CallSite site) const {
  return storage_->IsReady(site);
}

std::optional<StreamRef> Array::home_stream() const {
  return storage_->home_stream();
}

absl::Status Array::SetDeallocationStream(StreamRef stream) const {
  return storage_->SetDeallocationStream(stream);
}

}  // namespace devrt
