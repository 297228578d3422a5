// SPDX-License-Identifier: Apache-2.0
//
// What the host gives to plugins (devrt_host_v0), and the errors it makes.

#ifndef DEVRT_RUNTIME_INTERNAL_HOST_TABLE_H_
#define DEVRT_RUNTIME_INTERNAL_HOST_TABLE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "devrt/backends/abi/devrt_plugin.h"
#include "devrt/runtime/status.h"

// The object behind devrt_status.
struct devrt_error {
  devrt_code code = DEVRT_UNKNOWN;
  uint32_t flags = 0;  // DEVRT_ERROR_*
  int64_t native_code = 0;
  uint64_t native_stream = 0;
  int32_t device = -1;                 // of the origin
  const char* missing_slot = nullptr;  // made by a stub, see table.h
  bool is_static = false;              // made without memory; not ours to free
  std::string text;
  std::string native_name;
  std::string entry_point;
};

namespace devrt::internal {

// The table for plugins.  Valid until the end of the process.
const devrt_host_v0* HostTable();

// Never fails: without memory it returns a static error of that code.
devrt_status MakeError(devrt_code code, int64_t native_code, const char* text,
                       uint64_t size);
// The error of a table slot that a backend has not.
devrt_status MakeMissingSlotError(const char* slot);
void DestroyError(devrt_status error);

// What `error` says of its origin; `backend` completes it.
ErrorInfo InfoOf(const devrt_error& error, const std::string& backend);

// `code` as Abseil knows it; codes that no plugin may use become kUnknown.
absl::StatusCode ToStatusCode(devrt_code code);

// "an illegal address was met (cudaErrorIllegalAddress, code 700, in
// cuStreamSynchronize)": the plugin's text and what its text left out.
std::string DescribeError(const devrt_error& error);

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_INTERNAL_HOST_TABLE_H_
