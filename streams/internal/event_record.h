// SPDX-License-Identifier: Apache-2.0
//
// The record behind EventRef; as StreamRecord, made once and used again.

#ifndef DEVRT_STREAMS_INTERNAL_EVENT_RECORD_H_
#define DEVRT_STREAMS_INTERNAL_EVENT_RECORD_H_

#include <atomic>
#include <cstdint>

#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "devrt/backends/abi/devrt_plugin.h"
#include "devrt/streams/event.h"
#include "runtime/internal/records.h"
#include "streams/internal/event_order.h"

namespace devrt::internal {

// `device` and `flags` never change; `next` belongs to the EventPool's lock.
// The native event stays with the record from its first use on.
struct EventRecord {
  DeviceRecord* device = nullptr;
  uint32_t flags = 0;  // DEVRT_EVENT_*
  std::atomic<uint64_t> serial{0};
  std::atomic<bool> recorded{false};  // in this life
  // In this life: who waits for it may become part of a capture.
  std::atomic<bool> may_be_captured{false};
  std::atomic<devrt_event> handle{nullptr};
  std::atomic<uint64_t> native{0};  // id: the native handle's value
  EventRecord* next = nullptr;
  uint64_t lives = 0;  // serials so far; its maker's and its pool's
  EventOrder order;    // unknown if other processes may record the event
};

absl::Status StaleEventError(EventRef event, const char* call);

// Checks that `event` lives and its device takes calls.
inline absl::Status CheckEvent(EventRef event, const char* call) {
  EventRecord* record = event.record();
  if (ABSL_PREDICT_FALSE(record->serial.load(std::memory_order_acquire) !=
                         event.serial())) {
    return StaleEventError(event, call);
  }
  if (ABSL_PREDICT_FALSE(!IsOpen(record->device))) {
    return ClosedError(record->device);
  }
  return absl::OkStatus();
}

}  // namespace devrt::internal

#endif  // DEVRT_STREAMS_INTERNAL_EVENT_RECORD_H_
