// SPDX-License-Identifier: Apache-2.0

#include "streams/objects/stream_record.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "devrt/runtime/status.h"
#include "streams/objects/may_capture.h"
#include "streams/objects/stream_target.h"

namespace devrt::internal {

Timeline* TimelineOf(StreamRef stream) {
  return stream.record()->timeline.load(std::memory_order_acquire);
}

StreamFacts FactsOfRecord(const void* record, devrt_stream handle) {
  const auto* const stream = static_cast<const StreamRecord*>(record);
  if (stream->handle.load(std::memory_order_acquire) != handle) {
    return {0, true};
  }
  const uint64_t serial = stream->serial.load(std::memory_order_acquire);
  uint64_t number = serial == 0 ? 0 : serial + 1;  // 0: the stream has ended
  if (serial == kDefaultSerial) number = 1;
  return {number, MayBeCaptured(*stream, *stream->timeline.load(
                                             std::memory_order_acquire))};
}

absl::Status ObtainHandle(StreamRecord* record, const char* call) {
  if (record->kind != StreamKind::kDefault) {
    return absl::InvalidArgumentError(absl::StrCat(
        call, " on a stream of ", DeviceName(record->device),
        " that another thread destroys: keep its Stream alive while it is "
        "used"));
  }
  Timeline* const timeline = record->timeline.load();
  if (InHostFunction() && !timeline->native().IsReachable()) {
    const std::string text =
        absl::StrCat(call, ", the first look at the default stream of ",
                     DeviceName(record->device), ",");
    return HostFunctionError(text.c_str());
  }
  DEVRT_ASSIGN_OR_RETURN(const devrt_stream handle,
                         timeline->ObtainDefaultHandle());
  record->handle.store(handle, std::memory_order_release);
  return absl::OkStatus();
}

}  // namespace devrt::internal
