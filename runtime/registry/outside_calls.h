// SPDX-License-Identifier: Apache-2.0
//
// Errors of tables of functions that libraries above libdevrt call themselves
// (collectives/).
//
//   return TakeOutsideError(device, table->comm_finish(self, comm), "Finish");
//
// Threads: any.

#ifndef DEVRT_RUNTIME_REGISTRY_OUTSIDE_CALLS_H_
#define DEVRT_RUNTIME_REGISTRY_OUTSIDE_CALLS_H_

#include <string_view>

#include "absl/status/status.h"
#include "devrt/backends/abi/devrt_plugin.h"
#include "devrt/runtime/device.h"
#include "devrt/runtime/export.h"

namespace devrt::internal {

// FromPlugin of records.h: consumes `error`; OK for nullptr.
DEVRT_EXPORT absl::Status TakeOutsideError(Device device, devrt_status error,
                                           const char* call);

// Puts the device into quarantine (docs/reference/semantics.md 2.5), since work
// on it cannot be ended.  Returns the error that later calls return.
DEVRT_EXPORT absl::Status LoseDevice(Device device, std::string_view why);

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_REGISTRY_OUTSIDE_CALLS_H_
