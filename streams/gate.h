// SPDX-License-Identifier: Apache-2.0
//
// The head of a stream's record: what inline code needs to see whether a stream
// may be used.
//
// Not for programs; public only because guards are inline (runtime/gate.h).

#ifndef DEVRT_STREAMS_GATE_H_
#define DEVRT_STREAMS_GATE_H_

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "devrt/runtime/gate.h"
#include "devrt/streams/stream.h"

namespace devrt::internal {

// The base of StreamRecord (streams/internal/stream_record.h).
struct StreamGate {
  explicit StreamGate(DeviceGate* of) : device_gate(of) {}

  DeviceGate* const device_gate;
  std::atomic<uint64_t> serial{0};  // of the stream that lives; 0: none does
};

// False once the stream that `stream` was made for is destroyed: the record may
// serve another one by then.
inline bool IsAlive(StreamRef stream) {
  return stream.gate()->serial.load(std::memory_order_acquire) ==
         stream.serial();
}

// Why `stream` cannot be used; the caller has found that it cannot.
[[gnu::cold]] absl::Status UnusableStreamError(StreamRef stream,
                                               const char* call);

// Checks that `stream` lives and that its device takes calls.  Asks nothing of
// the backend: naming a default stream is no work on its device (C103).
inline absl::Status CheckStream(StreamRef stream, const char* call) {
  if (__builtin_expect(
          !IsAlive(stream) || !stream.gate()->device_gate->IsOpen(), 0)) {
    return UnusableStreamError(stream, call);
  }
  return absl::OkStatus();
}

}  // namespace devrt::internal

#endif  // DEVRT_STREAMS_GATE_H_
