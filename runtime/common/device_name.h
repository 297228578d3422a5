// SPDX-License-Identifier: Apache-2.0
//
// Device strings: "mtia", "mtia:1".

#ifndef DEVRT_RUNTIME_COMMON_DEVICE_NAME_H_
#define DEVRT_RUNTIME_COMMON_DEVICE_NAME_H_

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace devrt::internal {

// [a-z][a-z0-9_]*, at most 31 bytes (the manifest's field).
bool IsBackendName(std::string_view name);

struct ParsedDeviceName {
  std::string backend;
  std::optional<std::string> index;  // digits, no leading zeros
};
absl::StatusOr<ParsedDeviceName> ParseDeviceName(std::string_view text);

// "Invalid device string: 'cuda0': expected ..."; `hint` may be empty.
absl::Status InvalidDeviceString(std::string_view text, std::string_view hint);

// "Device index value 9 is out of index range [0, 2): ..."
absl::Status IndexOutOfRange(std::string_view index, std::string_view backend,
                             int count);

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_COMMON_DEVICE_NAME_H_
