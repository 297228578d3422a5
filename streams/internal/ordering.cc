// SPDX-License-Identifier: Apache-2.0

#include "devrt/streams/internal/ordering.h"

#include <sstream>
#include <string>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "devrt/runtime/status.h"
#include "devrt/streams/internal/captures.h"
#include "devrt/streams/internal/device_streams.h"
#include "devrt/streams/internal/stream_record.h"

namespace devrt::internal {

namespace {

std::string Text(StreamRef stream) {
  std::ostringstream text;
  text << stream;
  return text.str();
}

absl::Status SynchronizeDevice(DeviceRecord* device) {
  return RunSynchronizeHook(device, [device] {
    return FromPlugin(device,
                      device->ops->device_sync(device->self, device->ordinal),
                      "device synchronize");
  });
}

absl::Status NotBeforeCapture(StreamRef stream) {
  return absl::FailedPreconditionError(absl::StrCat(
      Text(stream),
      " is capturing, and work from before the capture that it would have to "
      "wait for is not known to be complete: order the stream after it, or "
      "synchronise, before the capture begins"));
}

}  // namespace

absl::StatusOr<bool> IsCapturing(StreamRef stream) {
  StreamRecord* const record = stream.record();
  DeviceRecord* const device = record->device;
  const auto& capture = DeviceStreams::Of(device)->capture;
  if (ABSL_PREDICT_TRUE(capture.table == nullptr)) return false;
  // What nobody else has the handle of nobody else can capture.
  if (record->kind != StreamKind::kExternal &&
      record->kind != StreamKind::kPerThread &&
      !record->exposed.load(std::memory_order_relaxed)) {
    return false;
  }
  const devrt_stream handle = record->handle.load(std::memory_order_acquire);
  if (handle == nullptr || !IsOpen(device)) return false;
  uint32_t yes = 0;
  absl::Status status = FromPlugin(
      device, capture.table->stream_is_capturing(capture.self, handle, &yes),
      "capture query");
  if (!status.ok()) return status;
  return yes != 0;
}

absl::StatusOr<bool> OrderAfter(StreamRef stream, const OrderPoint& point,
                                bool capturing, CallSite site) {
  StreamTarget t;
  DEVRT_RETURN_IF_ERROR(UseStream(stream, "a wait", site, &t));
  Timeline* const timeline = t.timeline();
  if (timeline->IsAfter(point)) return true;
  Timeline* const other = point.timeline;
  DeviceRecord* const device = other->device();
  // No wait leads out of a capture.
  if (capturing) {
    if (other->AskFor(point.epoch)) return true;
    return NotBeforeCapture(stream);
  }
  if (device->backend != t.device->backend) return false;
  if (!IsOpen(device)) return ClosedError(device);
  Captured captured;
  DEVRT_ASSIGN_OR_RETURN(Check* const check,
                         other->PinCheck(point.epoch, &captured));
  if (check == nullptr) return other->IsComplete(point.epoch);
  const absl::Cleanup unpin = [other, check] { other->Unpin(check); };
  DEVRT_RETURN_IF_ERROR(FromPlugin(
      t.device, t.ops().stream_wait_event(t.self(), t.handle, check->event),
      "stream wait"));
  t.MarkDirty();
  timeline->Join(captured);
  return true;
}

absl::Status OrderInCapture(StreamRef stream, StreamRef after, CallSite site) {
  if (stream == after) return absl::OkStatus();
  StreamTarget to;
  DEVRT_RETURN_IF_ERROR(UseStream(stream, "a wait", site, &to));
  StreamTarget from;
  DEVRT_RETURN_IF_ERROR(UseStream(after, "a wait", site, &from));
  // Not a checkpoint: what is captured never runs, and cannot be asked.
  Timelines& timelines = DeviceStreams::Of(from.device)->timelines;
  DEVRT_ASSIGN_OR_RETURN(Check* const check, timelines.TakeCheck());
  const absl::Cleanup put_back = [&] { timelines.PutCheck(check); };
  DEVRT_RETURN_IF_ERROR(FromPlugin(
      from.device,
      from.ops().event_record(from.self(), check->event, from.handle),
      "event record"));
  return FromPlugin(
      to.device, to.ops().stream_wait_event(to.self(), to.handle, check->event),
      "stream wait");
}

absl::Status WaitOnHost(const OrderPoint& point, CallSite site) {
  Timeline* const timeline = point.timeline;
  if (timeline == nullptr || timeline->IsComplete(point.epoch)) {
    return absl::OkStatus();
  }
  if (InHostFunction()) return HostFunctionError("a wait");
  const CallSiteScope noted(site);
  DeviceRecord* const device = timeline->device();
  if (!IsOpen(device)) return ClosedError(device);
  Captured captured;
  DEVRT_ASSIGN_OR_RETURN(Check* const check,
                         timeline->PinCheck(point.epoch, &captured));
  if (check == nullptr) {
    return timeline->IsComplete(point.epoch) ? absl::OkStatus()
                                             : SynchronizeDevice(device);
  }
  const absl::Cleanup unpin = [timeline, check] { timeline->Unpin(check); };
  absl::Status status;
  {
    const RelaxedCaptures relaxed(device);
    status =
        FromPlugin(device, device->ops->event_sync(device->self, check->event),
                   "event synchronisation");
  }
  if (HasFinished()) DrainFinished();
  if (!status.ok()) return status;
  timeline->Complete(captured.point.epoch);
  for (size_t i = 0; i < captured.order.count; ++i) {
    const Order::Point& p = captured.order.points[i];
    p.timeline->Complete(p.epoch);
  }
  return status;
}

}  // namespace devrt::internal
