// SPDX-License-Identifier: Apache-2.0
//
// StreamGuard: makes a stream, and its device, current for one scope.
//
//   devrt::StreamGuard on_copy(copy_stream);
//   // CurrentStream(copy_stream.device()) == copy_stream, and the device is
//   // current
//
// The destructor restores the stream that was current on that device, and the
// device that was current.  The current streams of other devices stay (C96).
// Otherwise the guard is like a DeviceGuard: guards may be nested, are neither
// copied nor moved, and end on the thread that made them.  With a destroyed
// stream or a lost device nothing changes, and status() says why.

#ifndef DEVRT_GUARDS_STREAM_GUARD_H_
#define DEVRT_GUARDS_STREAM_GUARD_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "devrt/guards/enter.h"
#include "devrt/runtime/export.h"
#include "devrt/streams/current_streams.h"
#include "devrt/streams/gate.h"
#include "devrt/streams/stream.h"

namespace devrt {

// Makes a stream and its device current for one scope.
class DEVRT_EXPORT StreamGuard {
 public:
  // Makes `stream` current; status() says if that failed.
  explicit StreamGuard(StreamRef stream) noexcept
      : stream_(stream), number_(Open(stream)) {
    if (__builtin_expect(number_ == 0, 0)) return;
    internal::StreamSlot* slot = internal::SlotOf(stream.gate()->device_gate);
    previous_stream_ = *slot;
    *slot = {stream.gate(), stream.serial()};
  }
  StreamGuard(std::nullptr_t) = delete;
  StreamGuard(const StreamGuard&) = delete;
  StreamGuard& operator=(const StreamGuard&) = delete;
  ~StreamGuard() {
    if (__builtin_expect(number_ == 0, 0)) {
      internal::DropGuardError(error_);
      return;
    }
    if (!internal::CloseGuard(number_, "StreamGuard")) return;
    *internal::SlotOf(saved_.device) = previous_stream_;
    internal::LeaveDevice(saved_, "StreamGuard");
  }

  // The stream of the guard, also if it is not current.
  StreamRef stream() const { return stream_; }
  // OK, or why the stream is not current in this scope.
  absl::Status status() const;

 private:
  uint64_t Open(StreamRef stream) {
    internal::DeviceGate* device = stream.gate()->device_gate;
    if (__builtin_expect(internal::IsAlive(stream), 1)) {
      return internal::OpenGuard(device, &saved_, &error_, "StreamGuard");
    }
    saved_.device = device;
    error_ = nullptr;
    return 0;
  }

  StreamRef stream_;
  internal::StreamSlot previous_stream_;  // initialised if `number_` is not 0
  internal::SavedContext saved_;
  internal::GuardError error_;  // initialised if `number_` is 0
  uint64_t number_;             // of this guard in the process; 0: inactive
};

}  // namespace devrt

#endif  // DEVRT_GUARDS_STREAM_GUARD_H_
