// SPDX-License-Identifier: Apache-2.0
//
// The record behind StreamRef.  Records are made as needed, used again under a
// new serial number, and never freed: a stale StreamRef is therefore always
// recognised, and nothing destroyed is ever passed to a backend (C17).

#ifndef DEVRT_STREAMS_INTERNAL_STREAM_RECORD_H_
#define DEVRT_STREAMS_INTERNAL_STREAM_RECORD_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "devrt/backends/abi/devrt_plugin.h"
#include "devrt/streams/gate.h"
#include "devrt/streams/stream.h"
#include "runtime/internal/records.h"
#include "streams/internal/timeline.h"

namespace devrt::internal {

// `device`, `kind`, `blocking` and `priority` never change after the record
// was made; `owner` and `next` belong to the StreamRecycler's lock.
// `memory_pool` is memory/'s, for the stream of that serial.
struct StreamRecord : StreamGate {
  explicit StreamRecord(DeviceRecord* of) : StreamGate(of), device(of) {}

  DeviceRecord* const device;
  std::atomic<devrt_stream> handle{nullptr};  // nullptr: not obtained yet
  std::atomic<bool> dirty{false};    // work since it was last known idle
  std::atomic<bool> exposed{false};  // somebody has the native handle
  std::atomic<Timeline*> timeline{nullptr};  // with the native handle
  std::atomic<void*> memory_pool{nullptr};
  std::atomic<uint64_t> memory_pool_serial{0};
  std::atomic<uint32_t> keepers{0};  // KeptStream
  StreamKind kind = StreamKind::kCreated;
  bool blocking = false;
  int priority = 0;
  std::shared_ptr<void> owner;
  StreamRecord* next = nullptr;
};

// Serial of every default stream; others are numbered from 1.
inline constexpr uint64_t kDefaultSerial = ~uint64_t{0};

// Obtains the native handle of a default stream, once; no host function may.
absl::Status ObtainHandle(StreamRecord* record, const char* call);

}  // namespace devrt::internal

namespace devrt {

inline internal::StreamRecord* StreamRef::record() const {
  return static_cast<internal::StreamRecord*>(gate_);
}

}  // namespace devrt

#endif  // DEVRT_STREAMS_INTERNAL_STREAM_RECORD_H_
