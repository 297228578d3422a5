// SPDX-License-Identifier: Apache-2.0
//
// StreamRecord: the record behind StreamRef.
//
// Records are made as needed, used again under a new serial number, and never
// freed.  So a stale StreamRef is always recognised, and no destroyed stream
// is passed to a backend (C17).

#ifndef DEVRT_STREAMS_OBJECTS_STREAM_RECORD_H_
#define DEVRT_STREAMS_OBJECTS_STREAM_RECORD_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "devrt/backends/abi/devrt_plugin.h"
#include "devrt/streams/gate.h"
#include "devrt/streams/stream.h"
#include "runtime/registry/records.h"
#include "streams/timelines/timeline.h"

namespace devrt::internal {

// `device`, `kind`, `blocking` and `priority` do not change after the record
// was made.  The StreamRecycler's lock guards `owner` and `next`.
// `memory_pool` belongs to memory/ and to the stream of `memory_pool_serial`.
// Records share no line of the cache: threads submit to streams of their own.
struct alignas(64) StreamRecord : StreamGate {
  explicit StreamRecord(DeviceRecord* of) : StreamGate(of), device(of) {}

  DeviceRecord* const device;
  std::atomic<devrt_stream> handle{nullptr};  // nullptr: not obtained yet
  std::atomic<bool> dirty{false};    // got work since it was last seen idle
  std::atomic<bool> exposed{false};  // others have the native handle
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

// The timeline of `stream`, which is made with the native handle.
Timeline* TimelineOf(StreamRef stream);

// The serial of every default stream.  Serials of other streams count from 1.
inline constexpr uint64_t kDefaultSerial = ~uint64_t{0};

// Obtains the native handle of a default stream.  `call` names the call for
// errors.  FAILED_PRECONDITION inside a host function; INVALID_ARGUMENT for
// another kind of stream, which lost its handle because it was destroyed.
absl::Status ObtainHandle(StreamRecord* record, const char* call);

}  // namespace devrt::internal

namespace devrt {

inline internal::StreamRecord* StreamRef::record() const {
  return static_cast<internal::StreamRecord*>(gate_);
}

}  // namespace devrt

#endif  // DEVRT_STREAMS_OBJECTS_STREAM_RECORD_H_
