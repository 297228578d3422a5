// SPDX-License-Identifier: Apache-2.0
//
// Events: points in the work of a stream.

#include "backend.h"

namespace mybackend_plugin {

devrt_status Backend::event_create(uint32_t device, uint32_t flags,
                                   devrt_event* event) {
  if (device >= kDevices) return NoDevice(device);
  static_cast<void>(flags);
  static_cast<void>(event);
  return NotWritten("event_create", "event.cc");
}

devrt_status Backend::event_destroy(devrt_event event) {
  static_cast<void>(event);
  return NotWritten("event_destroy", "event.cc");
}

// Replaces what the event stood for.
devrt_status Backend::event_record(devrt_event event, devrt_stream stream) {
  static_cast<void>(event);
  static_cast<void>(stream);
  return NotWritten("event_record", "event.cc");
}

// An event that was never recorded is complete.
devrt_status Backend::event_query(devrt_event event, uint32_t* done) {
  static_cast<void>(event);
  static_cast<void>(done);
  return NotWritten("event_query", "event.cc");
}

devrt_status Backend::event_sync(devrt_event event) {
  static_cast<void>(event);
  return NotWritten("event_sync", "event.cc");
}

}  // namespace mybackend_plugin
