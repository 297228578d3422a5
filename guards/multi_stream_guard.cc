// SPDX-License-Identifier: Apache-2.0

#include "devrt/guards/multi_stream_guard.h"

#include "devrt/guards/enter.h"
#include "devrt/streams/current_streams.h"
#include "devrt/streams/gate.h"

namespace devrt {

std::vector<StreamRef> MultiStreamGuard::Exchange(
    const std::vector<StreamRef>& streams) {
  std::vector<StreamRef> previous;
  previous.reserve(streams.size());
  for (StreamRef stream : streams) {
    internal::StreamSlot* slot = internal::SlotOf(stream.gate()->device_gate);
    previous.emplace_back(slot->gate, slot->serial);
    *slot = {stream.gate(), stream.serial()};
  }
  return previous;
}

void MultiStreamGuard::Restore(const std::vector<StreamRef>& previous) {
  for (auto it = previous.rbegin(); it != previous.rend(); ++it) {
    *internal::SlotOf(it->gate()->device_gate) = {it->gate(), it->serial()};
  }
}

MultiStreamGuard::MultiStreamGuard(std::vector<StreamRef> streams) {
  // All streams are checked before the first one is set, so that a failure
  // changes nothing.
  for (StreamRef stream : streams) {
    status_ = internal::CheckStream(stream, "MultiStreamGuard");
    if (!status_.ok()) return;
  }
  status_ = internal::CheckGuard("MultiStreamGuard");
  if (!status_.ok()) return;
  previous_ = Exchange(streams);
  number_ = internal::OpenGuard();
}

MultiStreamGuard::~MultiStreamGuard() {
  if (number_ == 0) return;
  if (internal::CloseGuard(number_, "MultiStreamGuard")) Restore(previous_);
}

}  // namespace devrt
