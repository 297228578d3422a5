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

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "devrt/backends/abi/devrt_plugin.h"
#include "devrt/runtime/export.h"
#include "devrt/streams/stream.h"

namespace devrt {

class DEVRT_EXPORT StreamGuard {
 public:
  explicit StreamGuard(StreamRef stream) noexcept;
  StreamGuard(std::nullptr_t) = delete;
  StreamGuard(const StreamGuard&) = delete;
  StreamGuard& operator=(const StreamGuard&) = delete;
  ~StreamGuard();

  StreamRef stream() const { return stream_; }
  absl::Status status() const;

 private:
  StreamRef stream_;
  StreamRef previous_stream_;
  uint32_t depth_;  // 0: inactive
  devrt_context previous_;
};

}  // namespace devrt

#endif  // DEVRT_GUARDS_STREAM_GUARD_H_
