// SPDX-License-Identifier: Apache-2.0
//
// Errors of the mtia backend: host-made devrt_status objects.

#ifndef DEVRT_BACKENDS_MTIA_COMMON_ERROR_H_
#define DEVRT_BACKENDS_MTIA_COMMON_ERROR_H_

#include <cstdint>
#include <string>

#include "devrt/backends/abi/devrt_plugin.h"

namespace devrt::mtia {

// The functions that libdevrt gives the plugin.  devrt_plugin_open_v0 sets it
// before any other call.
extern const devrt_host_v0* g_host;
// Where the program made the call that the calling thread is in.
inline const devrt_call_site_v0& CurrentSite() {
  return *g_host->call_site(g_host->host);
}
// The program's number of the stream that the present call names, plus 1; 0 if
// it is not known.
uint64_t HostStreamNumber(devrt_stream stream);

// The error of a call that failed and changed nothing.  `native_code` is the
// number that CUDA has for the situation; 0 if CUDA has none.
devrt_status MakeError(devrt_code code, int64_t native_code,
                       const std::string& text);

inline devrt_status InvalidArgument(const std::string& text) {
  return MakeError(DEVRT_INVALID_ARGUMENT, 1, text);
}

// The error of a call of devrt.sim/1, for which CUDA has no number.
inline devrt_status RefuseControl(const std::string& text) {
  return MakeError(DEVRT_INVALID_ARGUMENT, 0, text);
}

// A fault of a device, as a value.  Each later call makes its own devrt_status
// from it.
struct Fault {
  int32_t native_code = 0;  // CUDA's number; 0: no fault
  uint32_t device = 0;      // the device at fault
  bool process = false;     // fault_scope=process: all devices are lost
  std::string text;         // what happened, with operation and site

  explicit operator bool() const { return native_code != 0; }
};

// The sticky, asynchronous status for `fault`: code and native name by the
// table of docs/reference/semantics.md 2.2.
devrt_status MakeFaultStatus(const Fault& fault, const char* entry_point);

// "cudaErrorIllegalAddress" for 700; "cudaErrorUnknown" for a number that is
// not in the table.  mtia uses CUDA's numbers, so that programs see the errors
// that they will see on a GPU.
const char* NativeName(int32_t native_code);
devrt_code CodeOfNative(int32_t native_code);
bool IsSticky(int32_t native_code);

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_COMMON_ERROR_H_
