// SPDX-License-Identifier: Apache-2.0
//
// Streams: queues of operations of one device.
//
//   DEVRT_ASSIGN_OR_RETURN(devrt::Stream s, devrt::Stream::Create(gpu));
//   DEVRT_RETURN_IF_ERROR(devrt::CopyAsync(s, dst, src, bytes));
//   DEVRT_RETURN_IF_ERROR(s.Synchronize());
//
// Operations of one stream run in the order of submission (C6).  Operations of
// different streams have no order unless an event orders them.  A stream is
// non-blocking, so that the default stream does not order it either, unless the
// options say `blocking` (C8, C10).
//
// Stream owns, StreamRef borrows.  Each Create returns a stream that nobody
// else holds (C101).  The destructor of a Stream returns at once: submitted
// work completes, and events that were recorded on the stream keep their
// meaning (C17, C18).  A later Create hands the stream out again, idle and
// under a new id, unless Native was called.  Calls through a StreamRef whose
// stream was destroyed are INVALID_ARGUMENT.
//
// Each thread has a current stream for each device, at first the default
// stream.
//
// What it is not: a thread, or a lock.  A submission does not wait for the
// device, unless the queue is full (DeviceProperties::queue_depth).
//
// Threads: any thread may call any stream.  Calls take effect in their order
// (R4).  A program must not destroy a stream while another thread uses it.
//
// Errors: INVALID_ARGUMENT (destroyed stream, wrong device),
// FAILED_PRECONDITION (inside a host function, after Shutdown, in a forked
// child), and any error of earlier work on the device
// (docs/reference/semantics.md 2.4).

#ifndef DEVRT_STREAMS_OBJECTS_STREAM_H_
#define DEVRT_STREAMS_OBJECTS_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/backends/abi/devrt_plugin.h"
#include "devrt/runtime/call_site.h"
#include "devrt/runtime/device.h"
#include "devrt/runtime/export.h"

namespace devrt {

class EventRef;
namespace internal {
struct StreamGate;    // streams/objects/gate.h
struct StreamRecord;  // derived from StreamGate
}  // namespace internal

// Where a stream comes from.
enum class StreamKind {
  kCreated,    // by Stream::Create
  kDefault,    // the device's default ("legacy") stream, id 0
  kPerThread,  // the default stream of one (thread, device) pair
  kExternal,   // adopted by Stream::FromNative
};

// What Stream::Create takes.
struct StreamOptions {
  int priority = 0;       // lower is more urgent; clamped to the device's range
  bool blocking = false;  // takes part in the default stream's order (C8)
};

// A borrowed stream: two words, which are cheap to copy.  Valid while its
// Stream lives.  The StreamRef of a moved-from Stream still names its device
// and has the id 0; every call refuses it.
class DEVRT_EXPORT StreamRef {
 public:
  // The device that the stream belongs to.
  Device device() const;
  // The process uses no id twice.  0 for a device's default stream (C100).
  uint64_t id() const;
  // How the stream came to be.
  StreamKind kind() const;
  // The priority, clamped to the device's range (C22).
  int priority() const;

  // Returns true if all submitted operations are complete, the running one
  // included (C19).  Their writes are then visible to this thread (C37).
  absl::StatusOr<bool> Query(CallSite site = CallSite::Here()) const;
  // Waits for all operations that were submitted before.
  absl::Status Synchronize(CallSite site = CallSite::Here()) const;
  // Makes operations that are submitted later to this stream wait for what
  // `event` captured last; for nothing if the event was never recorded (C24,
  // C28).  The event may be of any device of the stream's backend (C32).  For
  // an event of another backend the calling thread waits.
  absl::Status Wait(EventRef event, CallSite site = CallSite::Here()) const;
  // Makes operations that are submitted later to this stream wait for
  // everything that was submitted to `other` before.
  absl::Status Wait(StreamRef other, CallSite site = CallSite::Here()) const;
  // The vendor's handle (cudaStream_t, hipStream_t), while the Stream lives.
  absl::StatusOr<void*> Native() const;

  friend bool operator==(StreamRef a, StreamRef b) {
    return a.gate_ == b.gate_ && a.serial_ == b.serial_;
  }
  friend bool operator!=(StreamRef a, StreamRef b) { return !(a == b); }
  template <typename H>
  friend H AbslHashValue(H h, StreamRef s) {
    return H::combine(std::move(h), s.gate_, s.serial_);
  }

  // For devrt's own code; streams/objects/stream_record.h defines record():
  StreamRef(internal::StreamGate* gate, uint64_t serial)
      : gate_(gate), serial_(serial) {}
  StreamRef(std::nullptr_t) = delete;
  internal::StreamGate* gate() const { return gate_; }
  inline internal::StreamRecord* record() const;
  uint64_t serial() const { return serial_; }
  bool moved_from() const { return serial_ == kMovedFrom; }
  StreamRef MovedFrom() const { return StreamRef(gate_, kMovedFrom); }

 private:
  // Serials of streams count up from 1, and default streams have ~0.
  static constexpr uint64_t kMovedFrom = ~uint64_t{1};

  internal::StreamGate* gate_;
  uint64_t serial_;
};

// "stream 17 of mtia:0", "default stream of mtia:0".
DEVRT_EXPORT std::ostream& operator<<(std::ostream& os, StreamRef stream);

// An owned stream.  Movable.  Calls on a moved-from Stream, or with one, are
// INVALID_ARGUMENT ("... was moved from ...").  A moved-from Stream has the id
// 0 and keeps its device.
class DEVRT_EXPORT Stream {
 public:
  // A stream that nobody else holds.  `site` is for reports of leaks.
  static absl::StatusOr<Stream> Create(Device device,
                                       StreamOptions options = {},
                                       CallSite site = CallSite::Here());

  // Adopts a native stream that another library made on `device`.  devrt never
  // destroys the native stream.  `owner`, if given, is kept until this Stream
  // is destroyed and nobody keeps the native stream any more.
  // INVALID_ARGUMENT if the backend can tell that the handle belongs to another
  // device (C104).  For default streams see the functions below.
  static absl::StatusOr<Stream> FromNative(Device device, void* native,
                                           std::shared_ptr<void> owner = {});

  Stream(Stream&& other) noexcept
      : ref_(std::exchange(other.ref_, other.ref_.MovedFrom())) {}
  Stream& operator=(Stream&& other) noexcept;
  ~Stream();

  // A reference, which is valid while this Stream lives:
  StreamRef ref() const { return ref_; }
  operator StreamRef() const { return ref_; }

  // Each calls the function of ref() that has its name:
  Device device() const { return ref_.device(); }
  uint64_t id() const { return ref_.id(); }
  int priority() const { return ref_.priority(); }
  absl::StatusOr<bool> Query(CallSite site = CallSite::Here()) const {
    return ref_.Query(site);
  }
  absl::Status Synchronize(CallSite site = CallSite::Here()) const {
    return ref_.Synchronize(site);
  }
  absl::Status Wait(EventRef event, CallSite site = CallSite::Here()) const;
  absl::Status Wait(StreamRef other, CallSite site = CallSite::Here()) const {
    return ref_.Wait(other, site);
  }
  absl::StatusOr<void*> Native() const { return ref_.Native(); }

 private:
  explicit Stream(StreamRef ref) : ref_(ref) {}
  StreamRef ref_;
};

// The device's default stream: id 0, native handle 0 on cuda and hip.  Its
// operations are ordered with the operations of all blocking streams of the
// device, per-thread default streams included (C8, C12).
DEVRT_EXPORT StreamRef DefaultStream(Device device);

// The calling thread's own default stream of `device`: a blocking stream.
// References to it are valid until the thread ends; its work then goes on.
DEVRT_EXPORT absl::StatusOr<StreamRef> PerThreadDefaultStream(Device device);

// The calling thread's current stream of `device`.
DEVRT_EXPORT StreamRef CurrentStream(Device device);

// Makes `stream` the calling thread's current stream of its device.  The
// current device and the current streams of other devices stay.
// INVALID_ARGUMENT for a destroyed stream, FAILED_PRECONDITION inside a host
// function (C42).  To set a current stream for one scope, use StreamGuard.
DEVRT_EXPORT absl::Status SetCurrentStream(StreamRef stream);

}  // namespace devrt

template <>
struct std::hash<devrt::StreamRef> {
  std::size_t operator()(devrt::StreamRef s) const noexcept {
    return std::hash<uint64_t>()(s.serial()) ^
           std::hash<const void*>()(s.gate());
  }
};

#endif  // DEVRT_STREAMS_OBJECTS_STREAM_H_
