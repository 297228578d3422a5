// SPDX-License-Identifier: Apache-2.0
//
// EventRecord: the record behind EventRef.  Event records are used again under
// a new serial number and never freed, like stream records.

#ifndef DEVRT_STREAMS_OBJECTS_EVENT_RECORD_H_
#define DEVRT_STREAMS_OBJECTS_EVENT_RECORD_H_

#include <atomic>
#include <cstdint>

#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "devrt/backends/abi/devrt_plugin.h"
#include "devrt/streams/event.h"
#include "runtime/registry/records.h"
#include "streams/timelines/event_order.h"

namespace devrt::internal {

// `device` and `flags` do not change.  The EventPool's lock guards `next`.  The
// native event stays with the record once it is made.
struct EventRecord {
  DeviceRecord* device = nullptr;
  uint32_t flags = 0;  // DEVRT_EVENT_*
  std::atomic<uint64_t> serial{0};
  std::atomic<bool> recorded{false};  // under this serial
  // A stream that waits for the event may become part of a graph capture.
  std::atomic<bool> may_be_captured{false};
  std::atomic<devrt_event> handle{nullptr};
  std::atomic<uint64_t> native{0};  // the id: the value of the native handle
  EventRecord* next = nullptr;
  uint64_t lives = 0;  // number of serials so far; only the pool uses it
  EventOrder order;    // unknown if other processes may record the event
};

// The error for `event`, which failed CheckEvent.
absl::Status UnusableEventError(EventRef event, const char* call);

// Checks that `event` lives and that its device takes calls.
inline absl::Status CheckEvent(EventRef event, const char* call) {
  EventRecord* record = event.record();
  if (ABSL_PREDICT_FALSE(record->serial.load(std::memory_order_acquire) !=
                             event.serial() ||
                         !IsOpen(record->device))) {
    return UnusableEventError(event, call);
  }
  return absl::OkStatus();
}

}  // namespace devrt::internal

#endif  // DEVRT_STREAMS_OBJECTS_EVENT_RECORD_H_
