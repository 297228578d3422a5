// SPDX-License-Identifier: Apache-2.0
//
// Errors of the mtia backend: host-made devrt_status objects.

#ifndef DEVRT_BACKENDS_MTIA_ENGINE_ERROR_H_
#define DEVRT_BACKENDS_MTIA_ENGINE_ERROR_H_

#include <cstdint>
#include <string>

#include "devrt/backends/abi/devrt_plugin.h"

namespace devrt::mtia {

// The host table; set once by devrt_plugin_open_v0, before any other call.
extern const devrt_host_v0* g_host;
// The program's number of a stream that the present call is about, plus 1; 0:
// not known.
uint64_t HostStreamNumber(devrt_stream stream);

// A local error: the call failed, nothing changed.  `native_code` is CUDA's
// number for the same situation, 0 if there is none.
devrt_status MakeError(devrt_code code, int64_t native_code,
                       const std::string& text);

inline devrt_status InvalidArgument(const std::string& text) {
  return MakeError(DEVRT_INVALID_ARGUMENT, 1, text);
}

// Of calls that no driver has, nor a number for what is wrong with them.
inline devrt_status RefuseControl(const std::string& text) {
  return MakeError(DEVRT_INVALID_ARGUMENT, 0, text);
}

// What a device fault left behind: kept by value, so that every later call can
// make its own devrt_status from it.
struct Fault {
  int32_t native_code = 0;  // 0: no fault
  uint32_t device = 0;      // the device at fault
  bool process = false;     // fault_scope=process: all devices are lost
  std::string text;         // what happened, with operation and site

  explicit operator bool() const { return native_code != 0; }
};

// The sticky, asynchronous status for `fault`: code and native name by the
// table of docs/semantics.md 2.2.
devrt_status MakeFaultStatus(const Fault& fault, const char* entry_point);

// "cudaErrorIllegalAddress" for 700 and so on; "cudaErrorUnknown" for the
// rest.  mtia speaks CUDA's numbers, so that programs see what they will meet.
const char* NativeName(int32_t native_code);
devrt_code CodeOfNative(int32_t native_code);
bool IsSticky(int32_t native_code);

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_ENGINE_ERROR_H_
