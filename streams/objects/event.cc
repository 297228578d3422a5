// SPDX-License-Identifier: Apache-2.0

#include "devrt/streams/event.h"

#include <utility>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "absl/strings/str_cat.h"
#include "devrt/runtime/status.h"
#include "runtime/registry/records.h"
#include "streams/objects/device_streams.h"
#include "streams/objects/event_record.h"
#include "streams/objects/stream_target.h"
#include "streams/objects/use_hooks.h"

namespace devrt {

using internal::DeviceRecord;
using internal::DeviceStreams;
using internal::EventRecord;
using internal::StreamTarget;

namespace internal {

namespace {

// The id is the value of the native handle, or the record's address if the
// backend shows no handle (C99).
ABSL_ATTRIBUTE_NOINLINE void NoteFirstRecord(EventRecord* record) {
  if (record->native.load(std::memory_order_relaxed) == 0) {
    DeviceRecord* device = record->device;
    void* native = nullptr;
    devrt_status error = device->ops->event_native(
        device->self, record->handle.load(std::memory_order_relaxed), &native);
    if (error != nullptr) (void)TakeError(device, error, "native event");
    uint64_t id = reinterpret_cast<uintptr_t>(native);
    if (id == 0) id = reinterpret_cast<uintptr_t>(record);
    record->native.store(id, std::memory_order_relaxed);
  }
  record->recorded.store(true, std::memory_order_release);
}

inline void NoteRecorded(EventRecord* record) {
  if (ABSL_PREDICT_FALSE(!record->recorded.load(std::memory_order_relaxed))) {
    NoteFirstRecord(record);
  }
}

// Records by `record`, and notes what the event comes after.  Records of other
// processes are not seen here, so the order of interprocess events stays
// unknown.
template <typename Record>
absl::Status RecordTracked(EventRecord* event, Timeline* timeline,
                           Record record) {
  EventOrder& order = event->order;
  const uint64_t token = order.Begin();
  const uint64_t epoch = timeline->BeginLook();
  const bool noted = EventOrder::IsAlone(token) &&
                     timeline->native().IsValidOnThisThread() &&
                     (event->flags & DEVRT_EVENT_IPC) == 0;
  if (noted) timeline->NoteIn(&order, epoch);
  absl::Status status = record();
  order.End(token, noted && status.ok());
  return status;
}

// The newest record of the event is complete.  `token` is from before the
// question: if the record is still that one, its streams have come so far.
void CompleteRecorded(const EventRecord& record, uint64_t token) {
  OrderedPoint recorded;
  if (token != 0 && record.order.Read(token, &recorded)) recorded.CompleteAll();
}

}  // namespace
}  // namespace internal

namespace {

using EventIpc = internal::ExtensionOf<devrt_event_ipc_v0>;

absl::StatusOr<EventIpc> EventIpcOf(DeviceRecord* device) {
  const EventIpc ipc = DeviceStreams::Of(device)->event_ipc;
  if (ipc.table != nullptr) return ipc;
  return absl::UnimplementedError(absl::StrCat(
      "backend \"", device->backend->name,
      "\" has no interprocess events (" DEVRT_EVENT_IPC_EXTENSION ")"));
}

}  // namespace

Device EventRef::device() const { return Device(record_->device); }

uint64_t EventRef::id() const {
  return !moved_from() && record_->recorded.load(std::memory_order_acquire)
             ? record_->native.load(std::memory_order_relaxed)
             : 0;
}

EventOptions EventRef::options() const {
  EventOptions options;
  if (moved_from()) return options;
  options.timing = (record_->flags & DEVRT_EVENT_TIMING) != 0;
  options.blocking_sync = (record_->flags & DEVRT_EVENT_BLOCKING_SYNC) != 0;
  options.interprocess = (record_->flags & DEVRT_EVENT_IPC) != 0;
  return options;
}

absl::Status EventRef::Record(StreamRef stream, CallSite site) const {
  StreamTarget t;
  DEVRT_RETURN_IF_ERROR(
      internal::ResolveStreamForWork(stream, "Record", site, &t));
  // The stream's device takes calls, so only two checks are left.
  if (ABSL_PREDICT_FALSE(record_->serial.load(std::memory_order_acquire) !=
                             serial() ||
                         record_->device != t.device)) {
    DEVRT_RETURN_IF_ERROR(internal::CheckEvent(*this, "Record"));
    return absl::InvalidArgumentError(absl::StrCat(
        "an event of ", device().name(), " cannot be recorded on a stream of ",
        stream.device().name(),
        ": create the event on the stream's device; its former capture stays"));
  }
  devrt_event handle = record_->handle.load(std::memory_order_acquire);
  if (ABSL_PREDICT_FALSE(handle == nullptr)) {
    DEVRT_RETURN_IF_ERROR(
        DeviceStreams::Of(t.device)->events.EnsureHandle(record_));
    handle = record_->handle.load(std::memory_order_acquire);
  }
  // Before the record, for threads that wait for the event at once.
  internal::Timeline* const timeline = t.timeline();
  if (timeline->native().MayCapture()) {
    record_->may_be_captured.store(true, std::memory_order_relaxed);
  }
  const auto record = [&] {
    return FromPlugin(t.device,
                      t.ops().event_record(t.self(), handle, t.handle),
                      "event record");
  };
  absl::Status status = internal::AreUsesTracked()
                            ? internal::RecordTracked(record_, timeline, record)
                            : record();
  t.MarkDirty();
  if (status.ok()) internal::NoteRecorded(record_);
  return status;
}

absl::StatusOr<bool> EventRef::Query(CallSite site) const {
  DEVRT_RETURN_IF_ERROR(internal::CheckEvent(*this, "Query"));
  if (!record_->recorded.load(std::memory_order_acquire)) return true;
  const internal::CallSiteScope noted(site);
  DeviceRecord* device = record_->device;
  const uint64_t order = record_->order.Known();
  uint32_t done = 0;
  absl::Status status = FromPlugin(
      device,
      device->ops->event_query(
          device->self, record_->handle.load(std::memory_order_acquire), &done),
      "event query");
  if (internal::HasDeferredDeletions()) internal::RunDeferredDeletions();
  if (!status.ok()) return status;
  if (done != 0) internal::CompleteRecorded(*record_, order);
  return done != 0;
}

absl::Status EventRef::Synchronize(CallSite site) const {
  if (internal::InHostFunction()) {
    return internal::HostFunctionError("Synchronize");
  }
  DEVRT_RETURN_IF_ERROR(internal::CheckEvent(*this, "Synchronize"));
  if (!record_->recorded.load(std::memory_order_acquire)) {
    return absl::OkStatus();
  }
  const internal::CallSiteScope noted(site);
  DeviceRecord* device = record_->device;
  const uint64_t order = record_->order.Known();
  absl::Status status = FromPlugin(
      device,
      device->ops->event_sync(device->self,
                              record_->handle.load(std::memory_order_acquire)),
      "event synchronisation");
  if (status.ok()) internal::CompleteRecorded(*record_, order);
  if (internal::HasDeferredDeletions()) internal::RunDeferredDeletions();
  return status;
}

absl::StatusOr<void*> EventRef::Native() const {
  DEVRT_RETURN_IF_ERROR(internal::CheckEvent(*this, "Native"));
  void* native = nullptr;
  if (!record_->recorded.load(std::memory_order_acquire)) return native;
  DeviceRecord* device = record_->device;
  // Other libraries may record the event in a graph capture.
  record_->may_be_captured.store(true, std::memory_order_relaxed);
  DEVRT_RETURN_IF_ERROR(FromPlugin(
      device,
      device->ops->event_native(device->self,
                                record_->handle.load(std::memory_order_acquire),
                                &native),
      "native event handle"));
  return native;
}

absl::StatusOr<EventHandle> EventRef::Export() const {
  DEVRT_RETURN_IF_ERROR(internal::CheckEvent(*this, "Export"));
  DeviceRecord* device = record_->device;
  if ((record_->flags & DEVRT_EVENT_IPC) == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "an event of ", this->device().name(),
        " without EventOptions::interprocess cannot be exported: create it "
        "with that option"));
  }
  DEVRT_ASSIGN_OR_RETURN(const EventIpc ipc, EventIpcOf(device));
  DEVRT_RETURN_IF_ERROR(
      DeviceStreams::Of(device)->events.EnsureHandle(record_));
  EventHandle handle{};
  DEVRT_RETURN_IF_ERROR(FromPlugin(
      device,
      ipc.table->event_export(
          ipc.self, record_->handle.load(std::memory_order_acquire), &handle),
      "event export"));
  // Another process may record the event from here on.
  internal::NoteRecorded(record_);
  return handle;
}

absl::StatusOr<Event> Event::Open(Device device, const EventHandle& handle) {
  DeviceRecord* record = device.record();
  if (internal::InHostFunction()) {
    return internal::HostFunctionError("Event::Open");
  }
  if (!internal::IsOpen(record)) {
    return internal::RefusedCallError(record, "Event::Open");
  }
  DEVRT_ASSIGN_OR_RETURN(const EventIpc ipc, EventIpcOf(record));
  devrt_event opened = nullptr;
  DEVRT_RETURN_IF_ERROR(FromPlugin(
      record,
      ipc.table->event_open(ipc.self, record->ordinal, &handle, &opened),
      "opening of an interprocess event"));
  const EventRef event =
      DeviceStreams::Of(record)->events.Acquire(DEVRT_EVENT_IPC, opened);
  internal::NoteRecorded(event.record());
  return Event(event);
}

namespace {

// Checks options that need a capability or exclude each other (C38).
absl::Status CheckOptions(Device device, EventOptions options) {
  if (options.interprocess && options.timing) {
    return absl::InvalidArgumentError(
        absl::StrCat("an interprocess event of ", device.name(),
                     " cannot have timing: leave one of the two options out"));
  }
  const bool supported = device.backend().Has(
      options.timing ? DEVRT_CAP_EVENT_TIMING : DEVRT_CAP_EVENT_IPC);
  if (supported) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat("backend \"", device.backend().name(), "\" has no ",
                   options.timing ? "EVENT_TIMING" : "EVENT_IPC", " events"));
}

}  // namespace

absl::StatusOr<Event> Event::Create(Device device, EventOptions options,
                                    CallSite site) {
  DeviceRecord* record = device.record();
  if (internal::InHostFunction()) {
    return internal::HostFunctionError("Event::Create");
  }
  if (!internal::IsOpen(record)) {
    return internal::RefusedCallError(record, "Event::Create");
  }
  if (internal::HasDeferredDeletions()) internal::RunDeferredDeletions();
  if (options.timing || options.interprocess) {
    DEVRT_RETURN_IF_ERROR(CheckOptions(device, options));
  }
  const uint32_t flags =
      (options.timing ? DEVRT_EVENT_TIMING : 0) |
      (options.blocking_sync ? DEVRT_EVENT_BLOCKING_SYNC : 0) |
      (options.interprocess ? DEVRT_EVENT_IPC : 0);
  DeviceStreams* const streams = DeviceStreams::Of(record);
  const EventRef event = streams->events.Acquire(flags);
  streams->TellMade(DEVRT_RACE_EVENT, event.record(), site);
  return Event(event);
}

Event& Event::operator=(Event&& other) noexcept {
  if (this == &other) return *this;
  Event old(std::move(*this));
  ref_ = std::exchange(other.ref_, other.ref_.MovedFrom());
  return *this;
}

Event::~Event() {
  if (ref_.moved_from()) return;
  EventRecord* record = ref_.record();
  DeviceStreams* const streams = DeviceStreams::Of(record->device);
  streams->TellEnded(record);
  streams->events.Release(record);
}

namespace {

// Checks what the time between two events that live needs.
absl::Status CheckElapsed(EventRef begin, EventRef end) {
  const EventRecord* const a = begin.record();
  const EventRecord* const b = end.record();
  const auto named = [&] {
    return absl::StrCat("; the events are of ", begin.device().name(), " and ",
                        end.device().name());
  };
  if ((a->flags & b->flags & DEVRT_EVENT_TIMING) == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("Both events must be created with argument "
                     "'enable_timing=True' (EventOptions::timing)",
                     named()));
  }
  if (!a->recorded.load() || !b->recorded.load()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "Both events must be recorded before calculating elapsed time",
        named()));
  }
  if (a->device != b->device) {
    return absl::InvalidArgumentError(
        absl::StrCat("elapsed time needs two events of one device", named()));
  }
  for (EventRef event : {begin, end}) {
    DEVRT_ASSIGN_OR_RETURN(bool done, event.Query());
    if (!done) {
      return absl::FailedPreconditionError(absl::StrCat(
          "Both events must be completed before calculating elapsed time: "
          "synchronise with the later one first",
          named()));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<double> ElapsedMilliseconds(EventRef begin, EventRef end) {
  DEVRT_RETURN_IF_ERROR(internal::CheckEvent(begin, "ElapsedMilliseconds"));
  DEVRT_RETURN_IF_ERROR(internal::CheckEvent(end, "ElapsedMilliseconds"));
  DEVRT_RETURN_IF_ERROR(CheckElapsed(begin, end));
  const EventRecord* const a = begin.record();
  const EventRecord* const b = end.record();
  if (begin == end) return 0.0;
  int64_t nanoseconds = 0;
  DEVRT_RETURN_IF_ERROR(FromPlugin(
      a->device,
      a->device->ops->event_elapsed_ns(a->device->self, a->handle.load(),
                                       b->handle.load(), &nanoseconds),
      "elapsed time"));
  return static_cast<double>(nanoseconds) / 1e6;
}

}  // namespace devrt
