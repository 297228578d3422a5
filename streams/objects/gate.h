// SPDX-License-Identifier: Apache-2.0
//
// StreamGate: the head of a stream's record, with what inline code needs to
// check a stream.
//
// Not for programs: the header is public because guards are inline
// (runtime/registry/gate.h).

#ifndef DEVRT_STREAMS_OBJECTS_GATE_H_
#define DEVRT_STREAMS_OBJECTS_GATE_H_

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "devrt/runtime/gate.h"
#include "devrt/streams/stream.h"

namespace devrt::internal {

// The base of StreamRecord (streams/objects/stream_record.h).
struct StreamGate {
  explicit StreamGate(DeviceGate* of) : device_gate(of) {}

  DeviceGate* const device_gate;
  std::atomic<uint64_t> serial{0};  // of the stream that lives; 0: none lives
};

// Returns false once the stream of `stream` is destroyed.  Its record may serve
// another stream by then.
inline bool IsAlive(StreamRef stream) {
  return stream.gate()->serial.load(std::memory_order_acquire) ==
         stream.serial();
}

// The error for `stream`, which failed CheckStream.
[[gnu::cold]] absl::Status UnusableStreamError(StreamRef stream,
                                               const char* call);

// Checks that `stream` lives and that its device takes calls.  Does not call
// the backend: a call that names a default stream submits no work to the device
// (C103).
inline absl::Status CheckStream(StreamRef stream, const char* call) {
  if (__builtin_expect(
          !IsAlive(stream) || !stream.gate()->device_gate->IsOpen(), 0)) {
    return UnusableStreamError(stream, call);
  }
  return absl::OkStatus();
}

}  // namespace devrt::internal

#endif  // DEVRT_STREAMS_OBJECTS_GATE_H_
