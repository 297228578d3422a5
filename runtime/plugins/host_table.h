// SPDX-License-Identifier: Apache-2.0
//
// The functions that the host gives to plugins (devrt_host_v0), and the errors
// that plugins make with them.

#ifndef DEVRT_RUNTIME_PLUGINS_HOST_TABLE_H_
#define DEVRT_RUNTIME_PLUGINS_HOST_TABLE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "devrt/backends/abi/devrt_plugin.h"
#include "devrt/runtime/export.h"
#include "devrt/runtime/status.h"

// The object behind devrt_status.
struct devrt_error {
  devrt_code code = DEVRT_UNKNOWN;
  uint32_t flags = 0;  // DEVRT_ERROR_*
  int64_t native_code = 0;
  uint64_t native_stream = 0;
  int32_t device = -1;                 // where the error arose
  const char* missing_slot = nullptr;  // set by a stub, see table.h
  bool is_static = false;              // static storage: must not be deleted
  std::string text;
  std::string native_name;
  std::string entry_point;
};

namespace devrt::internal {

// The table for plugins, and for tables that a library above makes.  Valid
// until the end of the process.
DEVRT_EXPORT const devrt_host_v0* HostTable();

// Never fails: without memory, returns a static error with that code.
devrt_status MakeError(devrt_code code, int64_t native_code, const char* text,
                       uint64_t size);
// The error of a table slot that the backend does not implement.
devrt_status MakeMissingSlotError(const char* slot);
void DestroyError(devrt_status error);

// The origin of `error`, completed with the name `backend`.
ErrorInfo InfoOf(const devrt_error& error, const std::string& backend);

// `code` as Abseil's code; kUnknown for codes that plugins must not use.
absl::StatusCode ToStatusCode(devrt_code code);

// "an illegal address was met (cudaErrorIllegalAddress, code 700, in
// cuStreamSynchronize)": the plugin's text, and the details that it omits.
std::string DescribeError(const devrt_error& error);

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_PLUGINS_HOST_TABLE_H_
