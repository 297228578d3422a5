// SPDX-License-Identifier: Apache-2.0
//
// StreamGuard: a current stream, and its device, for one scope.
//
//   devrt::StreamGuard on_copy(copy_stream);
//   // CurrentStream(copy_stream.device()) == copy_stream, and the device is
//   // current
//
// On exit the stream that was current on that device and the current device
// are restored; other devices' streams are left alone (C96).  Otherwise as
// DeviceGuard: nests, is not copied or moved, stays on its thread.  With a
// destroyed stream or a lost device nothing changes and status() says why.

#ifndef DEVRT_GUARDS_STREAM_GUARD_H_
#define DEVRT_GUARDS_STREAM_GUARD_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "devrt/backends/abi/devrt_plugin.h"
#include "devrt/guards/enter.h"
#include "devrt/runtime/export.h"
#include "devrt/streams/slots.h"
#include "devrt/streams/stream.h"

namespace devrt {

class DEVRT_EXPORT StreamGuard {
 public:
  explicit StreamGuard(StreamRef stream) noexcept
      : stream_(stream), previous_stream_{nullptr, 0}, number_(0) {
    if (__builtin_expect(!IsAlive(stream), 0)) {
      previous_ = {};
      return;
    }
    internal::DeviceRecord* device = internal::GateOf(stream.record())->device;
    number_ = internal::OpenGuard(device, &previous_, "StreamGuard");
    if (__builtin_expect(number_ == 0, 0)) return;
    internal::StreamSlot* slot = internal::SlotOf(device);
    previous_stream_ = *slot;
    *slot = {stream.record(), stream.serial()};
  }
  StreamGuard(std::nullptr_t) = delete;
  StreamGuard(const StreamGuard&) = delete;
  StreamGuard& operator=(const StreamGuard&) = delete;
  ~StreamGuard() {
    if (__builtin_expect(number_ == 0, 0)) {
      internal::DropGuardError(&previous_);
      return;
    }
    if (!internal::CloseGuard(number_, "StreamGuard")) return;
    internal::DeviceRecord* device = internal::GateOf(stream_.record())->device;
    *internal::SlotOf(device) = previous_stream_;
    internal::LeaveDevice(device, &previous_, "StreamGuard");
  }

  StreamRef stream() const { return stream_; }
  absl::Status status() const;

 private:
  static bool IsAlive(StreamRef stream) {
    return internal::GateOf(stream.record())
               ->serial.load(std::memory_order_acquire) == stream.serial();
  }

  StreamRef stream_;
  internal::StreamSlot previous_stream_;
  devrt_context previous_;
  uint64_t number_;  // 0: inactive
};

}  // namespace devrt

#endif  // DEVRT_GUARDS_STREAM_GUARD_H_
