// SPDX-License-Identifier: Apache-2.0
//
// Events: points in streams that other streams and the host wait for.
//
//   DEVRT_ASSIGN_OR_RETURN(devrt::Event e, devrt::Event::Create(gpu0));
//   DEVRT_RETURN_IF_ERROR(e.Record(producer));   // a stream of gpu0
//   DEVRT_RETURN_IF_ERROR(consumer.Wait(e));     // a stream of any device
//
// Record captures everything that was submitted to the stream before, its
// pending waits included (C25, C26).  A second record replaces the capture for
// later calls; waits that were issued before keep the former capture (C27).  An
// event that was never recorded is complete (C24).
//
// The first record makes the native event, which later events use again.  Until
// then the event's id and native handle are 0 (C99).
//
// What it is not: a semaphore.  A wait that is issued before the record does
// not wait for the record (C28).
//
// Threads: any thread may call any event (C39).  Errors: INVALID_ARGUMENT
// (destroyed event, stream of another device, C31), and the errors of streams.

#ifndef DEVRT_STREAMS_OBJECTS_EVENT_H_
#define DEVRT_STREAMS_OBJECTS_EVENT_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/backends/abi/devrt_event_ipc.h"
#include "devrt/runtime/call_site.h"
#include "devrt/runtime/device.h"
#include "devrt/runtime/export.h"
#include "devrt/streams/stream.h"

namespace devrt {

namespace internal {
struct EventRecord;
}

// What an event can do beyond order.
struct EventOptions {
  bool timing = false;         // for ElapsedMilliseconds
  bool blocking_sync = false;  // the host sleeps while it waits (C40)
  bool interprocess = false;   // excludes timing (C38)
};

// The name of an interprocess event for other processes of this machine: plain
// bytes, which the program sends there.
using EventHandle = devrt_event_handle_v0;

// A borrowed event: two words.  Valid while its Event lives.  The EventRef of a
// moved-from Event still names its device and has the id 0; every call refuses
// it.
class DEVRT_EXPORT EventRef {
 public:
  // The device that the event belongs to.
  Device device() const;
  // 0 before the first record; then not 0, and different for all live events.
  uint64_t id() const;
  // The options that the event was created with.
  EventOptions options() const;

  // Captures `stream`, which must be of this event's device (C31).
  absl::Status Record(StreamRef stream, CallSite site = CallSite::Here()) const;
  // Returns true if the newest capture is complete; see StreamRef::Query.
  absl::StatusOr<bool> Query(CallSite site = CallSite::Here()) const;
  // Waits for the newest capture, not for work submitted after it (C36).
  absl::Status Synchronize(CallSite site = CallSite::Here()) const;
  // The vendor's handle; nullptr before the first record.
  absl::StatusOr<void*> Native() const;
  // The handle for Event::Open in another process.  Before or after a record.
  // INVALID_ARGUMENT if the event was created without `interprocess`.
  absl::StatusOr<EventHandle> Export() const;

  friend bool operator==(EventRef a, EventRef b) {
    return a.record_ == b.record_ && a.serial_ == b.serial_;
  }
  friend bool operator!=(EventRef a, EventRef b) { return !(a == b); }

  // For devrt's own code:
  EventRef(internal::EventRecord* record, uint64_t serial)
      : record_(record), serial_(serial) {}
  EventRef(std::nullptr_t) = delete;
  internal::EventRecord* record() const { return record_; }
  uint64_t serial() const { return serial_; }
  bool moved_from() const { return serial_ == kMovedFrom; }
  EventRef MovedFrom() const { return EventRef(record_, kMovedFrom); }

 private:
  static constexpr uint64_t kMovedFrom = ~uint64_t{1};  // no event has it

  internal::EventRecord* record_;
  uint64_t serial_;
};

// An owned event.  Movable, with its options and its capture.  Calls on a
// moved-from Event, or with one, are INVALID_ARGUMENT; the message says that it
// was moved from.
class DEVRT_EXPORT Event {
 public:
  // UNIMPLEMENTED for `timing` or `interprocess` if the backend lacks the
  // capability.  `site` is for reports of leaks.
  static absl::StatusOr<Event> Create(Device device, EventOptions options = {},
                                      CallSite site = CallSite::Here());
  // Opens the event that another process has exported; `device` must be the
  // event's device there.  Both processes may record the event, wait for it and
  // query it, and each sees what the other one recorded.  Destroy the opened
  // event before the exporter destroys its event.  UNIMPLEMENTED without
  // EVENT_IPC; INVALID_ARGUMENT for a handle that no other process has
  // exported, or that this process has exported.
  static absl::StatusOr<Event> Open(Device device, const EventHandle& handle);

  Event(Event&& other) noexcept
      : ref_(std::exchange(other.ref_, other.ref_.MovedFrom())) {}
  Event& operator=(Event&& other) noexcept;
  ~Event();

  // A reference, which is valid while this Event lives:
  EventRef ref() const { return ref_; }
  operator EventRef() const { return ref_; }

  // Each calls the function of ref() that has its name:
  Device device() const { return ref_.device(); }
  uint64_t id() const { return ref_.id(); }
  EventOptions options() const { return ref_.options(); }
  absl::Status Record(StreamRef stream,
                      CallSite site = CallSite::Here()) const {
    return ref_.Record(stream, site);
  }
  absl::StatusOr<bool> Query(CallSite site = CallSite::Here()) const {
    return ref_.Query(site);
  }
  absl::Status Synchronize(CallSite site = CallSite::Here()) const {
    return ref_.Synchronize(site);
  }
  absl::StatusOr<void*> Native() const { return ref_.Native(); }
  absl::StatusOr<EventHandle> Export() const { return ref_.Export(); }

 private:
  explicit Event(EventRef ref) : ref_(ref) {}
  EventRef ref_;
};

// Milliseconds from `begin` to `end`; negative if `end` came first, 0 if both
// are one event.  The checks come in this order (C35): both were created with
// `timing`, both were recorded, both are of one device (INVALID_ARGUMENT each),
// both are complete (FAILED_PRECONDITION).
DEVRT_EXPORT absl::StatusOr<double> ElapsedMilliseconds(EventRef begin,
                                                        EventRef end);

inline absl::Status Stream::Wait(EventRef event, CallSite site) const {
  return ref_.Wait(event, site);
}

}  // namespace devrt

#endif  // DEVRT_STREAMS_OBJECTS_EVENT_H_
