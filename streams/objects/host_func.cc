// SPDX-License-Identifier: Apache-2.0

#include "devrt/streams/host_func.h"

#include <utility>

#include "absl/base/optimization.h"
#include "absl/strings/str_cat.h"
#include "devrt/runtime/status.h"
#include "runtime/common/thread_end.h"
#include "streams/objects/device_streams.h"
#include "streams/objects/host_calls.h"
#include "streams/objects/stream_target.h"

namespace devrt {

namespace {

// The backend calls this exactly once.
void RunHostCall(void* arg, devrt_status error) {
  auto* const call = static_cast<internal::HostCall*>(arg);
  internal::DeviceRecord* const device = call->device;
  if (!call->claimed.exchange(true, std::memory_order_acq_rel)) {
    internal::DeviceStreams::Of(device)->host_calls.Remove(call);
    call->Run(TakeError(device, error, "host function", call->life));
    // A request to cancel the backend's thread would keep later host functions
    // from running.
    if (error == nullptr) internal::DropCancellation();
  } else {
    (void)TakeError(device, error, "host function", call->life);
  }
  call->ReleaseReference();
}

// Tells a race detector what the function uses that the thread enqueues next.
void Declare(const internal::StreamTarget& t,
             absl::Span<const Access> accesses) {
  const auto& race = internal::DeviceStreams::Of(t.device)->race;
  if (accesses.empty() || race.table == nullptr ||
      !DEVRT_HAS_FIELD(race.table, devrt_race_v0, host_func_access)) {
    return;
  }
  race.table->host_func_access(race.self, accesses.data(),
                               static_cast<uint32_t>(accesses.size()));
}

}  // namespace

absl::Status LaunchHostFunc(StreamRef stream, HostFunc function,
                            CallSite site) {
  return LaunchHostFunc(stream, {}, std::move(function), site);
}

absl::Status LaunchHostFunc(StreamRef stream, absl::Span<const Access> accesses,
                            HostFunc function, CallSite site) {
  internal::StreamTarget t;
  DEVRT_RETURN_IF_ERROR(
      internal::ResolveStreamForWork(stream, "LaunchHostFunc", site, &t));
  if (!function) {
    return absl::InvalidArgumentError(
        absl::StrCat("LaunchHostFunc on ", stream.device().name(),
                     " got an empty function: give it one that can be called"));
  }
  auto* call = new internal::HostCall(t.device, std::move(function), site);
  internal::HostCalls& calls =
      internal::DeviceStreams::Of(t.device)->host_calls;
  calls.Add(call);
  Declare(t, accesses);
  devrt_status error =
      t.ops().host_func(t.self(), t.handle, &RunHostCall, call);
  t.MarkDirty();
  if (ABSL_PREDICT_TRUE(error == nullptr)) return absl::OkStatus();
  // The backend will not call the function.  TakeError may put the device into
  // quarantine, which runs pending functions.  The call is claimed before that,
  // so that an error means that the function was not called.
  const bool called = call->claimed.exchange(true, std::memory_order_acq_rel);
  calls.Remove(call);
  absl::Status status = TakeError(t.device, error, "host function");
  call->ReleaseReference();
  return called ? absl::OkStatus() : status;
}

}  // namespace devrt
