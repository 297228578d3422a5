// SPDX-License-Identifier: Apache-2.0
//
// How the backend begins and what it is called.

#include "backend.h"

namespace mybackend_plugin {

// Looks for the driver, and no further: no device is touched and no thread is
// started here.  On a machine without the driver:
//   *error = devrt::plugin::Error(host, DEVRT_UNAVAILABLE, 0,
//                                 "the driver libmybackend.so is missing");
//   return nullptr;
// `capabilities` holds what DEVRT_DEFINE_PLUGIN lists; clear what this machine
// lacks.
std::unique_ptr<Backend> Backend::Open(const devrt_host_v0* host,
                                       devrt_status* error,
                                       uint64_t* capabilities) {
  static_cast<void>(error);
  static_cast<void>(capabilities);
  return std::unique_ptr<Backend>(new Backend(host));
}

devrt_status Backend::Error(devrt_code code, const char* text) {
  return devrt::plugin::Error(host_, code, 0, text);
}

devrt_status Backend::NotWritten(const char* function, const char* file) {
  return devrt::plugin::ErrorF(host_, DEVRT_UNIMPLEMENTED, 0,
                               "mybackend: %s is not written yet, see %s",
                               function, file);
}

devrt_status Backend::NoDevice(uint32_t device) {
  return devrt::plugin::ErrorF(
      host_, DEVRT_INVALID_ARGUMENT, 0,
      "Device index value %u is out of index range [0, %u)", device, kDevices);
}

}  // namespace mybackend_plugin

// Class, name, vendor, version, capabilities (DEVRT_CAP_*).
DEVRT_DEFINE_PLUGIN(mybackend_plugin::Backend, "mybackend", "me", "0.1.0", 0);
