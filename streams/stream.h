// SPDX-License-Identifier: Apache-2.0
//
// Streams: queues of operations of one device.
//
//   DEVRT_ASSIGN_OR_RETURN(devrt::Stream s, devrt::Stream::Create(gpu));
//   DEVRT_RETURN_IF_ERROR(devrt::CopyAsync(s, dst, src, bytes));
//   DEVRT_RETURN_IF_ERROR(s.Synchronize());
//
// Operations of one stream run in the order of submission (C6).  Streams are
// unordered among themselves unless an event orders them; streams created here
// are non-blocking, so the default stream does not order them either, unless
// the options say `blocking` (C8, C10).
//
// Stream owns, StreamRef borrows.  Every Create yields a stream that no one
// else holds (C101).  Destroying a Stream returns at once: submitted work
// completes, events recorded on it keep their meaning (C17, C18).  Unless its
// Native was asked for, a later Create gets it again, idle and under a new id.
// Calls through a StreamRef whose stream was destroyed are INVALID_ARGUMENT.
//
// Each thread has a current stream per device, at first the default stream.
//
// What it is not: a thread, or a lock.  Submission never waits for the
// device, except where DeviceProperties::queue_depth says so.
//
// Threads: any thread may call on any stream; effects take place in the order
// of the calls (R4).  Destroying a stream while another thread uses it is the
// program's race.
//
// Errors: INVALID_ARGUMENT (destroyed stream, wrong device),
// FAILED_PRECONDITION (inside a host function, after Shutdown, in a forked
// child), and any error of earlier work on the device (docs/semantics.md 2.4).

#ifndef DEVRT_STREAMS_STREAM_H_
#define DEVRT_STREAMS_STREAM_H_

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
struct StreamGate;    // streams/gate.h
struct StreamRecord;  // derived from StreamGate
}  // namespace internal

enum class StreamKind {
  kCreated,    // by Stream::Create
  kDefault,    // the device's default ("legacy") stream, id 0
  kPerThread,  // the default stream of one (thread, device) pair
  kExternal,   // adopted by Stream::FromNative
};

struct StreamOptions {
  int priority = 0;       // lower is more urgent; clamped to the device's range
  bool blocking = false;  // takes part in the default stream's order (C8)
};

// A borrowed stream: two words, copied freely.  Valid while its Stream lives.
// That of a moved-from Stream still names its device, has the id 0, and is
// refused by every call.
class DEVRT_EXPORT StreamRef {
 public:
  Device device() const;
  // Never reused in the process; 0 for a device's default stream (C100).
  uint64_t id() const;
  StreamKind kind() const;
  // The clamped priority (C22).
  int priority() const;

  // True when all submitted operations, the running one too, are complete
  // (C19).  A true answer makes their writes visible to this thread (C37).
  absl::StatusOr<bool> Query(CallSite site = CallSite::Here()) const;
  // Waits for all operations submitted before.
  absl::Status Synchronize(CallSite site = CallSite::Here()) const;
  // Operations submitted later to this stream wait for what `event` captured
  // last; nothing if it was never recorded (C24, C28).  Any two devices of one
  // backend (C32); across backends the calling thread waits.
  absl::Status Wait(EventRef event, CallSite site = CallSite::Here()) const;
  // The same for everything submitted to `other` so far.
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

  // For devrt's own code.  record() is defined where the record is, in
  // streams/internal/stream_record.h.
  StreamRef(internal::StreamGate* gate, uint64_t serial)
      : gate_(gate), serial_(serial) {}
  StreamRef(std::nullptr_t) = delete;
  internal::StreamGate* gate() const { return gate_; }
  inline internal::StreamRecord* record() const;
  uint64_t serial() const { return serial_; }
  bool moved_from() const { return serial_ == kMovedFrom; }
  StreamRef MovedFrom() const { return StreamRef(gate_, kMovedFrom); }

 private:
  // No stream's: they count up from 1, and ~0 is for default streams.
  static constexpr uint64_t kMovedFrom = ~uint64_t{1};

  internal::StreamGate* gate_;
  uint64_t serial_;
};

// "stream 17 of mtia:0", "default stream of mtia:0".
DEVRT_EXPORT std::ostream& operator<<(std::ostream& os, StreamRef stream);

// An owned stream.  Movable.  Calls on a moved-from Stream, or with one, are
// INVALID_ARGUMENT ("... was moved from ..."); its id is 0, its device the one
// that it had.
class DEVRT_EXPORT Stream {
 public:
  static absl::StatusOr<Stream> Create(Device device,
                                       StreamOptions options = {});

  // Borrows a stream that another library made on `device`; it is never
  // destroyed here.  `owner`, if given, is kept until this Stream is gone and
  // its last reference dropped.  INVALID_ARGUMENT when the backend can tell
  // that the handle belongs to another device (C104).  The default streams
  // have functions of their own below.
  static absl::StatusOr<Stream> FromNative(Device device, void* native,
                                           std::shared_ptr<void> owner = {});

  Stream(Stream&& other) noexcept
      : ref_(std::exchange(other.ref_, other.ref_.MovedFrom())) {}
  Stream& operator=(Stream&& other) noexcept;
  ~Stream();

  StreamRef ref() const { return ref_; }
  operator StreamRef() const { return ref_; }

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
// operations are ordered with those of all blocking streams of the device, per
// thread ones included (C8, C12).
DEVRT_EXPORT StreamRef DefaultStream(Device device);

// The calling thread's own default stream of `device`: a blocking stream.
// Its work outlives the thread; references to it do not.
DEVRT_EXPORT absl::StatusOr<StreamRef> PerThreadDefaultStream(Device device);

// The calling thread's current stream of `device`.
DEVRT_EXPORT StreamRef CurrentStream(Device device);

// Makes `stream` the calling thread's current stream of its device.  Neither
// the current device nor other devices' streams change.  INVALID_ARGUMENT for
// a destroyed stream, FAILED_PRECONDITION inside a host function (C42).  To
// have it restored, use StreamGuard.
DEVRT_EXPORT absl::Status SetCurrentStream(StreamRef stream);

}  // namespace devrt

template <>
struct std::hash<devrt::StreamRef> {
  std::size_t operator()(devrt::StreamRef s) const noexcept {
    return std::hash<uint64_t>()(s.serial()) ^
           std::hash<const void*>()(s.gate());
  }
};

#endif  // DEVRT_STREAMS_STREAM_H_
