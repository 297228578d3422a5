// SPDX-License-Identifier: Apache-2.0
//
// Events: points in streams that others wait for.
//
//   DEVRT_ASSIGN_OR_RETURN(devrt::Event e, devrt::Event::Create(gpu0));
//   DEVRT_RETURN_IF_ERROR(e.Record(producer));   // a stream of gpu0
//   DEVRT_RETURN_IF_ERROR(consumer.Wait(e));     // a stream of any device
//
// Record captures everything submitted to the stream so far, its pending waits
// included (C25, C26); recording again replaces the capture for later calls,
// while waits already issued keep the older one (C27).  An event that was
// never recorded is complete (C24).
//
// The native event is made at the first record and used again by later events;
// until then the event's id and native handle are 0 (C99).
//
// What it is not: a semaphore.  A wait issued before the record does not wait
// for it (C28).
//
// Threads: any thread may call on any event (C39).
// Errors: INVALID_ARGUMENT (destroyed event, stream of another device, C31),
// and those of streams.

#ifndef DEVRT_STREAMS_EVENT_H_
#define DEVRT_STREAMS_EVENT_H_

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

struct EventOptions {
  bool timing = false;         // for ElapsedMilliseconds
  bool blocking_sync = false;  // the host sleeps while it waits (C40)
  bool interprocess = false;   // excludes timing (C38)
};

// An interprocess event's name for other processes of this machine: plain
// bytes, to be carried there by any means.
using EventHandle = devrt_event_handle_v0;

// A borrowed event: two words.  Valid while its Event lives.  That of a
// moved-from Event still names its device, has the id 0, and is refused by
// every call.
class DEVRT_EXPORT EventRef {
 public:
  Device device() const;
  // 0 before the first record, then nonzero and distinct among live events.
  uint64_t id() const;
  EventOptions options() const;

  // Captures `stream`, which must be of this event's device (C31).
  absl::Status Record(StreamRef stream, CallSite site = CallSite::Here()) const;
  // True when the newest capture is complete; see StreamRef::Query.
  absl::StatusOr<bool> Query(CallSite site = CallSite::Here()) const;
  // Waits for the newest capture, not for work submitted after it (C36).
  absl::Status Synchronize(CallSite site = CallSite::Here()) const;
  // The vendor's handle; nullptr before the first record.
  absl::StatusOr<void*> Native() const;
  // For Event::Open in another process; before or after a record.
  // INVALID_ARGUMENT unless created with `interprocess`.
  absl::StatusOr<EventHandle> Export() const;

  friend bool operator==(EventRef a, EventRef b) {
    return a.record_ == b.record_ && a.serial_ == b.serial_;
  }
  friend bool operator!=(EventRef a, EventRef b) { return !(a == b); }

  // For devrt's own layers.
  EventRef(internal::EventRecord* record, uint64_t serial)
      : record_(record), serial_(serial) {}
  EventRef(std::nullptr_t) = delete;
  internal::EventRecord* record() const { return record_; }
  uint64_t serial() const { return serial_; }
  bool moved_from() const { return serial_ == kMovedFrom; }
  EventRef MovedFrom() const { return EventRef(record_, kMovedFrom); }

 private:
  static constexpr uint64_t kMovedFrom = ~uint64_t{1};  // no event's

  internal::EventRecord* record_;
  uint64_t serial_;
};

// An owned event.  Movable; all attributes move along.  Calls on a moved-from
// Event, or with one, are INVALID_ARGUMENT ("... was moved from ...").
class DEVRT_EXPORT Event {
 public:
  // UNIMPLEMENTED for `timing` or `interprocess` without that capability.
  static absl::StatusOr<Event> Create(Device device, EventOptions options = {});
  // The event that another process has exported, of the same device there.
  // Both processes may record it, wait for it and ask it: each sees what the
  // other recorded.  Destroy it before the exporter's own.
  // UNIMPLEMENTED without EVENT_IPC; INVALID_ARGUMENT for a handle that no
  // other process has given out, or that is this process's own.
  static absl::StatusOr<Event> Open(Device device, const EventHandle& handle);

  Event(Event&& other) noexcept
      : ref_(std::exchange(other.ref_, other.ref_.MovedFrom())) {}
  Event& operator=(Event&& other) noexcept;
  ~Event();

  EventRef ref() const { return ref_; }
  operator EventRef() const { return ref_; }

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

// Milliseconds from `begin` to `end`; negative when reversed, 0 for the same
// event.  Checked in this order (C35): both created with `timing`, both
// recorded, one device (INVALID_ARGUMENT each), both complete
// (FAILED_PRECONDITION).
DEVRT_EXPORT absl::StatusOr<double> ElapsedMilliseconds(EventRef begin,
                                                        EventRef end);

inline absl::Status Stream::Wait(EventRef event, CallSite site) const {
  return ref_.Wait(event, site);
}

}  // namespace devrt

#endif  // DEVRT_STREAMS_EVENT_H_
