// SPDX-License-Identifier: Apache-2.0
#include "streams/captures/relaxed_wait.h"

#include "devrt/runtime/status.h"
#include "streams/common/relaxed_captures.h"
#include "streams/objects/device_streams.h"
#include "streams/objects/stream_target.h"
#include "streams/objects/stream_wait.h"

namespace devrt::internal {

absl::StatusOr<bool> QueryRelaxed(StreamRef stream, CallSite site) {
  StreamTarget t;
  DEVRT_RETURN_IF_ERROR(ResolveStream(stream, "Query", site, &t));
  const RelaxedCaptures relaxed(t.device, DeviceStreams::Of(t.device)->capture);
  return QueryTarget(t);
}

absl::Status SynchronizeRelaxed(StreamRef stream, CallSite site) {
  StreamTarget t;
  DEVRT_RETURN_IF_ERROR(ResolveStreamForWork(stream, "Synchronize", site, &t));
  return SynchronizeRelaxed(t);
}

absl::Status SynchronizeRelaxed(const StreamTarget& target) {
  const RelaxedCaptures relaxed(target.device,
                                DeviceStreams::Of(target.device)->capture);
  return SynchronizeTarget(target);
}

}  // namespace devrt::internal
