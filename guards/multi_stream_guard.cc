// SPDX-License-Identifier: Apache-2.0

#include "devrt/guards/multi_stream_guard.h"

#include "devrt/runtime/internal/records.h"
#include "devrt/streams/internal/stream_record.h"
#include "devrt/streams/slots.h"

namespace devrt {

MultiStreamGuard::MultiStreamGuard(std::vector<StreamRef> streams) {
  // All are checked before the first is set: a failure changes nothing.
  for (StreamRef stream : streams) {
    status_ = internal::CheckStream(stream, "MultiStreamGuard");
    if (!status_.ok()) return;
  }
  previous_.reserve(streams.size());
  for (StreamRef stream : streams) {
    internal::StreamSlot* slot = internal::SlotOf(stream.record()->device);
    previous_.emplace_back(slot->record, slot->serial);
    *slot = {stream.record(), stream.serial()};
  }
}

MultiStreamGuard::~MultiStreamGuard() {
  for (auto it = previous_.rbegin(); it != previous_.rend(); ++it) {
    *internal::SlotOf(it->record()->device) = {it->record(), it->serial()};
  }
}

}  // namespace devrt
