// SPDX-License-Identifier: Apache-2.0
//
// Streams: queues of the device's work.

#include "backend.h"

namespace mybackend_plugin {

// `desc->kind` asks for a new stream, for one of the two default streams, or
// for a handle on a stream that somebody else has made.
devrt_status Backend::stream_create(uint32_t device,
                                    const devrt_stream_desc_v0* desc,
                                    devrt_stream* stream) {
  if (device >= kDevices) return NoDevice(device);
  static_cast<void>(desc);
  static_cast<void>(stream);
  return NotWritten("stream_create", "stream.cc");
}

devrt_status Backend::stream_destroy(devrt_stream stream) {
  static_cast<void>(stream);
  return NotWritten("stream_destroy", "stream.cc");
}

// "Not yet" is *done = 0, never an error.
devrt_status Backend::stream_query(devrt_stream stream, uint32_t* done) {
  static_cast<void>(stream);
  static_cast<void>(done);
  return NotWritten("stream_query", "stream.cc");
}

devrt_status Backend::stream_sync(devrt_stream stream) {
  static_cast<void>(stream);
  return NotWritten("stream_sync", "stream.cc");
}

devrt_status Backend::stream_native(devrt_stream stream, void** native) {
  static_cast<void>(stream);
  static_cast<void>(native);
  return NotWritten("stream_native", "stream.cc");
}

devrt_status Backend::stream_wait_event(devrt_stream stream,
                                        devrt_event event) {
  static_cast<void>(stream);
  static_cast<void>(event);
  return NotWritten("stream_wait_event", "stream.cc");
}

}  // namespace mybackend_plugin
