// SPDX-License-Identifier: Apache-2.0
#include "runtime/registry/outside_calls.h"

#include "runtime/plugins/host_table.h"
#include "runtime/registry/records.h"

namespace devrt::internal {

absl::Status TakeOutsideError(Device device, devrt_status error,
                              const char* call) {
  return FromPlugin(device.record(), error, call);
}

absl::Status LoseDevice(Device device, std::string_view why) {
  devrt_error* const error =
      MakeError(DEVRT_INTERNAL, 0, why.data(), why.size());
  // A static error, without memory for a text, serves all threads.
  if (!error->is_static) {
    error->flags = DEVRT_ERROR_STICKY;
    error->device = device.index();
  }
  return TakeError(device.record(), error, "abort");
}

}  // namespace devrt::internal
