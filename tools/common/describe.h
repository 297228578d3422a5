// SPDX-License-Identifier: Apache-2.0
//
// Descriptions of backends, devices and load attempts for several commands.

#ifndef DEVRT_TOOLS_COMMON_DESCRIBE_H_
#define DEVRT_TOOLS_COMMON_DESCRIBE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/runtime/backend.h"
#include "devrt/runtime/device.h"
#include "tools/common/command.h"
#include "tools/common/json.h"

namespace devrt::tools {

inline constexpr int kOpenLimit = 30;  // seconds

// A backend that was found, opened if that worked.
struct FoundBackend {
  std::string name;
  absl::StatusOr<Backend> backend;  // or why opening it failed
  std::vector<Device> devices;      // empty if opening failed
};

// Opens every backend that is found and selected, in a child process that goes
// on in place of the caller (child_process.h).  A backend that ends the child,
// or takes longer than `limit_s`, counts as one that could not be opened.
std::vector<FoundBackend> OpenBackends(int limit_s = kOpenLimit);
// Why opening this backend ended a child, with the remedy; OK if none did.
absl::Status OpeningFailure(const std::string& name);

// Prints to stderr which backends could not be opened, and returns the exit
// code.  UNAVAILABLE means that this machine lacks the accelerator: no failure,
// and printed only if no backend can be used.  It is a failure if no backend
// was found, or one could not be opened for another reason.
int ReportOpenFailures(const Command& command,
                       const std::vector<FoundBackend>& backends);

// "0000:18:00.0"; empty for a device that is not on a PCI bus.
std::string PciAddress(const DeviceProperties& properties);

// "host_func", "peer_copy", ...: the set bits by name.
std::vector<std::string> CapabilityNames(uint64_t capabilities);

// Writes the backend's manifest and file as members of the open object.
void WriteBackend(Backend backend, JsonWriter* json);
// {"code": "NOT_FOUND", "message": "..."}
void WriteError(const absl::Status& status, JsonWriter* json);
void WriteAttempts(const std::vector<LoadAttempt>& attempts, JsonWriter* json);

// The path of the backend's file, or "linked in".
std::string PathOrLinkedIn(const std::string& path);

}  // namespace devrt::tools

#endif  // DEVRT_TOOLS_COMMON_DESCRIBE_H_
