// SPDX-License-Identifier: Apache-2.0

#include "devrt/streams/stream.h"

#include <ostream>
#include <string>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "absl/strings/str_cat.h"
#include "devrt/runtime/status.h"
#include "devrt/streams/current_streams.h"
#include "devrt/streams/event.h"
#include "runtime/registry/records.h"
#include "streams/objects/device_streams.h"
#include "streams/objects/event_record.h"
#include "streams/objects/native_streams.h"
#include "streams/objects/ordering.h"
#include "streams/objects/stream_target.h"
#include "streams/objects/stream_wait.h"
#include "streams/objects/thread_streams.h"

namespace devrt {

using internal::DeviceRecord;
using internal::DeviceStreams;
using internal::StreamRecord;
using internal::StreamTarget;

namespace internal {

namespace {

// Returns true if a wait for the event may make a stream part of a capture.
bool MayJoin(const EventRecord& event) {
  return event.may_be_captured.load(std::memory_order_relaxed) &&
         DeviceStreams::Of(event.device)->capture.table != nullptr;
}

// Returns true if a wait has made the stream part of a capture.  `began`:
// BeginJoin was called before the wait.
ABSL_ATTRIBUTE_NOINLINE bool HasJoined(StreamRef stream, bool began) {
  Timeline* const timeline = TimelineOf(stream);
  if (!began) timeline->native().BeginJoin();
  const bool joined = IsCapturing(stream).value_or(true);
  timeline->native().EndJoin(joined);
  return joined;
}

}  // namespace

}  // namespace internal

Device StreamRef::device() const { return Device(gate_->device_gate); }

uint64_t StreamRef::id() const {
  return serial_ == internal::kDefaultSerial || moved_from() ? 0 : serial_;
}

StreamKind StreamRef::kind() const { return record()->kind; }

int StreamRef::priority() const { return record()->priority; }

absl::StatusOr<bool> StreamRef::Query(CallSite site) const {
  StreamTarget t;
  DEVRT_RETURN_IF_ERROR(internal::ResolveStream(*this, "Query", site, &t));
  return internal::QueryTarget(t);
}

absl::Status StreamRef::Synchronize(CallSite site) const {
  StreamTarget t;
  DEVRT_RETURN_IF_ERROR(
      internal::ResolveStreamForWork(*this, "Synchronize", site, &t));
  return internal::SynchronizeTarget(t);
}

absl::Status StreamRef::Wait(EventRef event, CallSite site) const {
  StreamTarget t;
  DEVRT_RETURN_IF_ERROR(
      internal::ResolveStreamForWork(*this, "Wait", site, &t));
  DEVRT_RETURN_IF_ERROR(internal::CheckEvent(event, "Wait"));
  internal::EventRecord* e = event.record();
  if (!e->recorded.load(std::memory_order_acquire)) return absl::OkStatus();
  if (e->device->backend != t.device->backend) return event.Synchronize(site);
  const uint64_t order = e->order.Known();
  internal::Timeline* const timeline = t.timeline();
  const bool may_join = internal::MayJoin(*e);
  if (ABSL_PREDICT_FALSE(may_join)) timeline->native().BeginJoin();
  absl::Status status = FromPlugin(
      t.device,
      t.ops().stream_wait_event(t.self(), t.handle,
                                e->handle.load(std::memory_order_acquire)),
      "stream wait");
  t.MarkDirty();
  // Another thread may have recorded the event again meanwhile, in a capture.
  // Captured work runs only in launches of its graph, so the wait gives no
  // order that could be noted.
  if (ABSL_PREDICT_FALSE(may_join || internal::MayJoin(*e)) &&
      internal::HasJoined(*this, may_join)) {
    return status;
  }
  if (order != 0 && status.ok()) {
    // The order is that of the record that was waited for, unless another
    // record has begun since.
    internal::OrderedPoint recorded;
    if (e->order.Read(order, &recorded)) timeline->Join(recorded);
  }
  return status;
}

namespace internal {
namespace {

// Returns true if only the two streams have a part in a wait of `t` for
// `other`: nothing may be captured, no detector is told of an event, and the
// backend orders the two.
bool IsPlainWait(const StreamTarget& t, const StreamTarget& other) {
  return t.device->backend == other.device->backend &&
         DeviceStreams::Of(other.device)->race.table == nullptr &&
         !t.timeline()->native().MayCapture() &&
         !other.timeline()->native().MayCapture() &&
         other.timeline()->native().IsValidOnThisThread();
}

}  // namespace
}  // namespace internal

absl::Status StreamRef::Wait(StreamRef other, CallSite site) const {
  // Both streams are checked before an event is recorded on `other` (R2).
  StreamTarget t;
  DEVRT_RETURN_IF_ERROR(
      internal::ResolveStreamForWork(*this, "Wait", site, &t));
  if (other == *this) return absl::OkStatus();
  StreamTarget o;
  DEVRT_RETURN_IF_ERROR(internal::ResolveStream(other, "Wait", site, &o));
  if (ABSL_PREDICT_TRUE(internal::IsPlainWait(t, o))) {
    absl::Status status = internal::WaitByEvent(t, o.handle, o.timeline());
    o.MarkDirty();
    return status;
  }
  DEVRT_ASSIGN_OR_RETURN(Event event,
                         Event::Create(other.device(), {}, CallSite{}));
  DEVRT_RETURN_IF_ERROR(event.Record(other, site));
  return Wait(event, site);
}

absl::StatusOr<void*> StreamRef::Native() const {
  StreamTarget t;
  DEVRT_RETURN_IF_ERROR(
      internal::ResolveStream(*this, "Native", CallSite::Here(), &t));
  void* native = nullptr;
  DEVRT_RETURN_IF_ERROR(
      FromPlugin(t.device, t.ops().stream_native(t.self(), t.handle, &native),
                 "native stream handle"));
  const bool created = kind() == StreamKind::kCreated;
  // Before `exposed` is set: a thread that sees it may capture the stream.
  if (created) t.timeline()->native().NoteExposed();
  if (!t.record->exposed.exchange(true, std::memory_order_relaxed) && created) {
    internal::NativeStreams::Get().Add(*this, native);
  }
  return native;
}

std::ostream& operator<<(std::ostream& os, StreamRef stream) {
  if (stream.moved_from()) return os << "moved-from stream";
  switch (stream.kind()) {
    case StreamKind::kDefault:
      os << "default stream";
      break;
    case StreamKind::kPerThread:
      os << "per-thread default stream " << stream.id();
      break;
    case StreamKind::kExternal:
      os << "external stream " << stream.id();
      break;
    case StreamKind::kCreated:
      os << "stream " << stream.id();
      break;
  }
  return os << " of " << stream.device();
}

absl::StatusOr<Stream> Stream::Create(Device device, StreamOptions options,
                                      CallSite site) {
  DeviceRecord* record = device.record();
  if (internal::InHostFunction()) {
    return internal::HostFunctionError("Stream::Create");
  }
  if (!internal::IsOpen(record)) {
    return internal::RefusedCallError(record, "Stream::Create");
  }
  if (internal::HasDeferredDeletions()) internal::RunDeferredDeletions();
  auto ref = DeviceStreams::Of(record)->streams.Create(options);
  if (!ref.ok()) return ref.status();
  DeviceStreams::Of(record)->TellMade(DEVRT_RACE_STREAM, ref->record(), site);
  return Stream(*ref);
}

absl::StatusOr<Stream> Stream::FromNative(Device device, void* native,
                                          std::shared_ptr<void> owner) {
  DeviceRecord* record = device.record();
  if (internal::InHostFunction()) {
    return internal::HostFunctionError("Stream::FromNative");
  }
  if (!internal::IsOpen(record)) {
    return internal::RefusedCallError(record, "Stream::FromNative");
  }
  if (!device.backend().Has(DEVRT_CAP_STREAM_EXTERNAL)) {
    return absl::UnimplementedError(
        absl::StrCat("backend \"", device.backend().name(),
                     "\" cannot adopt native streams (STREAM_EXTERNAL)"));
  }
  auto ref = DeviceStreams::Of(record)->streams.Adopt(native, std::move(owner));
  if (!ref.ok()) return ref.status();
  internal::NativeStreams::Get().Add(*ref, native);
  return Stream(*ref);
}

Stream& Stream::operator=(Stream&& other) noexcept {
  if (this == &other) return *this;
  Stream old(std::move(*this));
  ref_ = std::exchange(other.ref_, other.ref_.MovedFrom());
  return *this;
}

Stream::~Stream() {
  if (ref_.moved_from()) return;
  StreamRecord* record = ref_.record();
  DeviceStreams* const streams = DeviceStreams::Of(record->device);
  streams->TellEnded(record);
  streams->streams.Release(record);
}

StreamRef DefaultStream(Device device) {
  return StreamRef(&DeviceStreams::Of(device.record())->legacy,
                   internal::kDefaultSerial);
}

absl::StatusOr<StreamRef> PerThreadDefaultStream(Device device) {
  DeviceRecord* const record = device.record();
  if (internal::InHostFunction()) {
    return internal::HostFunctionError("PerThreadDefaultStream");
  }
  if (!internal::IsOpen(record)) {
    return internal::RefusedCallError(record, "PerThreadDefaultStream");
  }
  return internal::ThreadStreams::OfThisThread()->PerThreadStream(record);
}

StreamRef CurrentStream(Device device) {
  const internal::StreamSlot* slot = internal::SlotOf(device.gate());
  return StreamRef(slot->gate, slot->serial);
}

absl::Status SetCurrentStream(StreamRef stream) {
  DEVRT_RETURN_IF_ERROR(internal::CheckStream(stream, "SetCurrentStream"));
  if (internal::InHostFunction()) {
    return internal::HostFunctionError("SetCurrentStream");
  }
  *internal::SlotOf(stream.gate()->device_gate) = {stream.gate(),
                                                   stream.serial()};
  return absl::OkStatus();
}

}  // namespace devrt
