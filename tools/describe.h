// SPDX-License-Identifier: Apache-2.0
//
// What several commands say about backends, devices and load attempts.

#ifndef DEVRT_TOOLS_DESCRIBE_H_
#define DEVRT_TOOLS_DESCRIBE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/runtime/backend.h"
#include "devrt/runtime/device.h"
#include "tools/command.h"
#include "tools/json.h"

namespace devrt::tools {

inline constexpr int kOpenLimit = 30;  // seconds

// A backend that was found, and whether it could be opened.
struct FoundBackend {
  std::string name;
  absl::StatusOr<Backend> backend;  // or why it could not be opened
  std::vector<Device> devices;      // empty when it could not
};

// Opens every backend that is found and selected, in a child process that goes
// on as this one (apart.h): a backend that ends it, or that takes longer than
// `limit_s`, is one that could not be opened.
std::vector<FoundBackend> OpenBackends(int limit_s = kOpenLimit);

// Says on stderr which backends could not be opened, and returns the exit code:
// a failure when none was found, or when one failed for another reason than
// that this machine lacks the accelerator (UNAVAILABLE).  Of that it is silent
// while another backend can be used.
int Report(const Command& command, const std::vector<FoundBackend>& backends);

// "0000:18:00.0"; empty for a device that is on no bus.
std::string PciAddress(const DeviceProperties& properties);

// "host_func", "peer_copy", ...: the set bits by name.
std::vector<std::string> CapabilityNames(uint64_t capabilities);

// The backend's manifest and file, as members of the open object.
void WriteBackend(Backend backend, JsonWriter* json);
// {"code": "NOT_FOUND", "message": "..."}
void WriteError(const absl::Status& status, JsonWriter* json);
void WriteAttempts(const std::vector<LoadAttempt>& attempts, JsonWriter* json);

// The path of the backend's file, or "linked in".
std::string Origin(const std::string& path);

}  // namespace devrt::tools

#endif  // DEVRT_TOOLS_DESCRIBE_H_
