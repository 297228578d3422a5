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

#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "devrt/backends/abi/devrt_plugin.h"
#include "devrt/runtime/call_site.h"
#include "devrt/streams/gate.h"
#include "devrt/streams/stream.h"
#include "runtime/internal/records.h"
#include "runtime/internal/stream_numbers.h"
#include "streams/internal/finished.h"
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
uint64_t NextStreamSerial();

// A stream that may be used now, and the call's site for as long.
struct StreamTarget {
  StreamRecord* record = nullptr;
  DeviceRecord* device = nullptr;
  devrt_stream handle = nullptr;

  Timeline* timeline() const {
    return record->timeline.load(std::memory_order_relaxed);
  }

  StreamTarget() = default;
  StreamTarget(const StreamTarget&) = delete;
  StreamTarget& operator=(const StreamTarget&) = delete;
  ~StreamTarget() { SetCallSite({}); }

  const devrt_ops_v0& ops() const { return *device->ops; }
  void* self() const { return device->self; }
  // To be called after an enqueue: before it, a concurrent Synchronize could
  // take the mark away.
  void MarkDirty() const {
    if (!record->dirty.load(std::memory_order_relaxed)) {
      record->dirty.store(true, std::memory_order_relaxed);
    }
  }
};

// Obtains the native handle of a default stream, once; no host function may.
absl::Status ObtainHandle(StreamRecord* record, const char* call);

// CheckStream, and what a call to the backend needs; notes `site` for reports.
// Allowed inside host functions: `call` must not enqueue or wait.
inline absl::Status LookAt(StreamRef stream, const char* call, CallSite site,
                           StreamTarget* target) {
  StreamRecord* record = stream.record();
  target->record = record;
  absl::Status checked = CheckStream(stream, call);
  if (ABSL_PREDICT_FALSE(!checked.ok())) return checked;
  SetCallSite(site);
  devrt_stream handle = record->handle.load(std::memory_order_acquire);
  if (ABSL_PREDICT_FALSE(handle == nullptr)) {
    absl::Status status = ObtainHandle(record, call);
    if (!status.ok()) return status;
    handle = record->handle.load(std::memory_order_acquire);
  }
  target->device = record->device;
  target->handle = handle;
  const uint64_t serial = stream.serial();
  NoteStreamNumber(handle, serial == kDefaultSerial ? 1 : serial + 1);
  return absl::OkStatus();
}

// LookAt for calls that enqueue or wait.
inline absl::Status UseStream(StreamRef stream, const char* call, CallSite site,
                              StreamTarget* target) {
  if (ABSL_PREDICT_FALSE(InHostFunction())) return HostFunctionError(call);
  if (ABSL_PREDICT_FALSE(HasFinished())) DrainFinished();
  return LookAt(stream, call, site, target);
}

}  // namespace devrt::internal

namespace devrt {

inline internal::StreamRecord* StreamRef::record() const {
  return static_cast<internal::StreamRecord*>(gate_);
}

}  // namespace devrt

#endif  // DEVRT_STREAMS_INTERNAL_STREAM_RECORD_H_
