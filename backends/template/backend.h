// SPDX-License-Identifier: Apache-2.0
//
// The backend "mybackend": one object a process.  Its member functions have the
// names and signatures of the slots in devrt_plugin.h, and lie in the file that
// the comment above them names.

#ifndef MYBACKEND_BACKEND_H_
#define MYBACKEND_BACKEND_H_

#include <cstdint>
#include <memory>
#include <mutex>

#include "devrt/backends/abi/devrt_plugin_helper.h"

namespace mybackend_plugin {

inline constexpr uint32_t kDevices = 1;

class Backend {
 public:
  // plugin.cc
  static std::unique_ptr<Backend> Open(const devrt_host_v0* host,
                                       devrt_status* error,
                                       uint64_t* capabilities);

  // device.cc
  devrt_status device_count(uint32_t* count);
  devrt_status device_props(uint32_t device, devrt_device_props_v0* props);
  devrt_status device_sync(uint32_t device);
  devrt_status context_enter(uint32_t device, devrt_context* previous);
  devrt_status context_exit(const devrt_context* previous);
  devrt_status context_current(uint32_t* device);

  // memory.cc
  devrt_status mem_info(uint32_t device, uint64_t* free_bytes,
                        uint64_t* total_bytes);
  devrt_status alloc(uint32_t device, uint64_t size, uint64_t alignment,
                     void** ptr);
  devrt_status dealloc(uint32_t device, void* ptr, uint64_t size);

  // stream.cc
  devrt_status stream_create(uint32_t device, const devrt_stream_desc_v0* desc,
                             devrt_stream* stream);
  devrt_status stream_destroy(devrt_stream stream);
  devrt_status stream_query(devrt_stream stream, uint32_t* done);
  devrt_status stream_sync(devrt_stream stream);
  devrt_status stream_native(devrt_stream stream, void** native);
  devrt_status stream_wait_event(devrt_stream stream, devrt_event event);

  // event.cc
  devrt_status event_create(uint32_t device, uint32_t flags,
                            devrt_event* event);
  devrt_status event_destroy(devrt_event event);
  devrt_status event_record(devrt_event event, devrt_stream stream);
  devrt_status event_query(devrt_event event, uint32_t* done);
  devrt_status event_sync(devrt_event event);

  // copy.cc
  devrt_status copy_async(devrt_stream stream, void* dst, const void* src,
                          uint64_t size, uint32_t kind);
  devrt_status fill_async(devrt_stream stream, void* dst, uint32_t value,
                          uint64_t size);

 private:
  explicit Backend(const devrt_host_v0* host) : host_(host) {}

  devrt_status Error(devrt_code code, const char* text);
  // UNIMPLEMENTED: `function` waits to be written in `file`.
  devrt_status NotWritten(const char* function, const char* file);
  // INVALID_ARGUMENT: there is no device of that number.
  devrt_status NoDevice(uint32_t device);

  const devrt_host_v0* const host_;
  // Your state goes here.
};

}  // namespace mybackend_plugin

#endif  // MYBACKEND_BACKEND_H_
