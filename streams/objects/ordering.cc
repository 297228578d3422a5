// SPDX-License-Identifier: Apache-2.0

#include "streams/objects/ordering.h"

#include <sstream>
#include <string>

#include "absl/base/optimization.h"
#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "devrt/runtime/capture_error.h"
#include "devrt/runtime/status.h"
#include "streams/common/capture_extension.h"
#include "streams/common/relaxed_captures.h"
#include "streams/objects/device_streams.h"
#include "streams/objects/may_capture.h"
#include "streams/objects/stream_target.h"
#include "streams/objects/use_hooks.h"

namespace devrt::internal {

namespace {

std::string TextOf(const StreamTarget& stream) {
  std::ostringstream text;
  text << StreamRef(stream.record, stream.record->serial);
  return text.str();
}

absl::Status NotBeforeCapture(const StreamTarget& stream) {
  return CaptureError(absl::StrCat(
      TextOf(stream),
      " is capturing, and work from before the capture that it would have to "
      "wait for is not known to be complete: order the stream after it, or "
      "synchronise, before the capture begins"));
}

// Asks about a stream that may be captured.
absl::StatusOr<bool> QueryCapture(DeviceRecord* device, devrt_stream handle) {
  if (handle == nullptr || !IsOpen(device)) return false;
  return IsStreamCapturing(device, DeviceStreams::Of(device)->capture, handle);
}

// Uses an event that is not kept as a checkpoint: captured work does not run,
// and a query of the event is an error.
absl::Status AddEdge(DeviceRecord* to, devrt_stream stream, DeviceRecord* from,
                     devrt_stream after) {
  CheckpointPool& pool = DeviceStreams::Of(from)->checkpoints;
  DEVRT_ASSIGN_OR_RETURN(CheckpointEvent* const edge, pool.Acquire());
  const absl::Cleanup put_back = [&pool, edge] { pool.Return(edge); };
  DEVRT_RETURN_IF_ERROR(
      FromPlugin(from, from->ops->event_record(from->self, edge->event, after),
                 "event record"));
  return FromPlugin(to,
                    to->ops->stream_wait_event(to->self, stream, edge->event),
                    "stream wait");
}

}  // namespace

absl::StatusOr<bool> IsCapturing(StreamRef stream) {
  const StreamRecord* const record = stream.record();
  if (ABSL_PREDICT_TRUE(!MayBeCaptured(stream))) return false;
  return QueryCapture(record->device,
                      record->handle.load(std::memory_order_acquire));
}

absl::StatusOr<bool> IsCapturing(const HeldStream& stream) {
  if (!MayBeCaptured(*stream.stream().record(), *stream.timeline())) {
    return false;
  }
  return QueryCapture(stream.device(), stream.handle());
}

absl::StatusOr<bool> OrderAfter(StreamRef stream, const OrderPoint& point,
                                bool capturing, CallSite site) {
  StreamTarget target;
  DEVRT_RETURN_IF_ERROR(ResolveStreamForWork(stream, "a wait", site, &target));
  if (target.timeline()->IsAfter(point)) return true;
  return OrderAfter(target, point, capturing);
}

absl::StatusOr<bool> OrderAfter(const StreamTarget& t, const OrderPoint& point,
                                bool capturing) {
  Timeline* const other = point.timeline;
  DeviceRecord* const device = other->device();
  // A captured stream cannot wait for work outside of its capture.
  if (capturing) {
    if (other->QueryEpoch(point.epoch)) return true;
    return NotBeforeCapture(t);
  }
  if (device->backend != t.device->backend) return false;
  if (!IsOpen(device)) return ClosedError(device);
  OrderedPoint covered;
  DEVRT_ASSIGN_OR_RETURN(CheckpointEvent* const check,
                         other->PinCheckpoint(point.epoch, &covered));
  if (check == nullptr) return other->IsComplete(point.epoch);
  const absl::Cleanup unpin = [other, check] { other->Unpin(check); };
  DEVRT_RETURN_IF_ERROR(FromPlugin(
      t.device, t.ops().stream_wait_event(t.self(), t.handle, check->event),
      "stream wait"));
  t.MarkDirty();
  t.timeline()->Join(covered);
  return true;
}

absl::Status WaitByEvent(const StreamTarget& t, devrt_stream after,
                         Timeline* timeline) {
  DeviceRecord* const device = timeline->device();
  devrt_event event = timeline->event_of_waits();
  if (ABSL_PREDICT_FALSE(event == nullptr)) {
    DEVRT_ASSIGN_OR_RETURN(event, timeline->MakeEventOfWaits());
  }
  const bool tracked = AreUsesTracked();
  OrderedPoint covered;
  if (tracked) timeline->BeginOrderedLook(t.timeline(), &covered);
  absl::Status status =
      FromPlugin(device, device->ops->event_record(device->self, event, after),
                 "event record");
  if (!status.ok()) return status;
  status =
      FromPlugin(t.device, t.ops().stream_wait_event(t.self(), t.handle, event),
                 "stream wait");
  t.MarkDirty();
  if (tracked && status.ok()) t.timeline()->Join(covered);
  return status;
}

absl::StatusOr<bool> OrderAfterOnce(const StreamTarget& t,
                                    const OrderPoint& point) {
  Timeline* const other = point.timeline;
  NativeHandle& native = other->native();
  // A detector is told of the event of a checkpoint, and only such an event
  // serves a stream that may be captured, or is out of reach.
  if (other->device()->backend != t.device->backend ||
      !IsOpen(other->device()) || t.timeline()->native().MayCapture() ||
      native.MayCapture() || !native.IsValidOnThisThread() ||
      native.MayBeDestroyed() ||
      DeviceStreams::Of(other->device())->race.table != nullptr) {
    return OrderAfter(t, point, /*capturing=*/false);
  }
  const devrt_stream after = native.Borrow();
  if (after == nullptr) return OrderAfter(t, point, /*capturing=*/false);
  absl::Status status = WaitByEvent(t, after, other);
  native.Return();
  if (!status.ok()) return status;
  return true;
}

absl::Status OrderInCapture(const StreamTarget& stream,
                            const StreamTarget& after) {
  if (stream.record == after.record) return absl::OkStatus();
  return AddEdge(stream.device, stream.handle, after.device, after.handle);
}

absl::Status OrderInCapture(const HeldStream& stream, const HeldStream& after,
                            CallSite site) {
  if (stream.stream() == after.stream()) return absl::OkStatus();
  if (InHostFunction()) return HostFunctionError("a wait");
  const CallSiteScope noted(site);
  NoteStream(stream.stream(), stream.handle());
  NoteStream(after.stream(), after.handle());
  return AddEdge(stream.device(), stream.handle(), after.device(),
                 after.handle());
}

namespace {

void Tell(DeviceRecord* device, devrt_stream later) {
  const auto& race = DeviceStreams::Of(device)->race;
  if (ABSL_PREDICT_TRUE(race.table == nullptr)) return;
  if (!DEVRT_HAS_FIELD(race.table, devrt_race_v0, known_order)) return;
  race.table->known_order(race.self, later);
}

}  // namespace

void TellKnownOrder(StreamRef stream) {
  const StreamRecord* const record = stream.record();
  Tell(record->device, record->handle.load(std::memory_order_acquire));
}

void TellKnownOrderToHost(DeviceRecord* device) { Tell(device, nullptr); }

absl::Status WaitForDevice(DeviceRecord* device) {
  DEVRT_ASSIGN_OR_RETURN(const bool captured,
                         DeviceStreams::Of(device)->timelines.HasCaptured());
  if (captured) {
    return CaptureError(absl::StrCat(
        "a stream of ", DeviceName(device),
        " is capturing, and a wait for the device would make the capture "
        "invalid: end the capture first, or synchronise the device before it "
        "begins"));
  }
  return RunSynchronizeHook(device, [device] {
    return FromPlugin(device,
                      device->ops->device_sync(device->self, device->ordinal),
                      "device synchronize");
  });
}

absl::Status WaitOnHost(const OrderPoint& point, CallSite site) {
  Timeline* const timeline = point.timeline;
  if (timeline == nullptr) return absl::OkStatus();
  if (timeline->IsComplete(point.epoch)) {
    TellKnownOrderToHost(timeline->device());
    return absl::OkStatus();
  }
  if (InHostFunction()) return HostFunctionError("a wait");
  const CallSiteScope noted(site);
  DeviceRecord* const device = timeline->device();
  if (!IsOpen(device)) return ClosedError(device);
  OrderedPoint covered;
  DEVRT_ASSIGN_OR_RETURN(CheckpointEvent* const check,
                         timeline->PinCheckpoint(point.epoch, &covered));
  if (check == nullptr) {
    return timeline->IsComplete(point.epoch) ? absl::OkStatus()
                                             : WaitForDevice(device);
  }
  const absl::Cleanup unpin = [timeline, check] { timeline->Unpin(check); };
  absl::Status status;
  {
    const RelaxedCaptures relaxed(device, DeviceStreams::Of(device)->capture);
    status =
        FromPlugin(device, device->ops->event_sync(device->self, check->event),
                   "event synchronisation");
  }
  if (HasDeferredDeletions()) RunDeferredDeletions();
  if (!status.ok()) return status;
  covered.CompleteAll();
  return status;
}

}  // namespace devrt::internal
