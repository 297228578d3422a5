// SPDX-License-Identifier: Apache-2.0
#include "tools/common/describe.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "devrt/runtime/inspect.h"
#include "tools/common/child_process.h"

namespace devrt::tools {

absl::Status OpeningFailure(const std::string& name) {
  const absl::Status broken = ChildFailure(name);
  if (broken.ok()) return broken;
  return absl::Status(
      broken.code(), absl::StrCat(broken.message(), "; DEVRT_BACKENDS='!", name,
                                  "' leaves it out"));
}

std::vector<FoundBackend> OpenBackends(int limit_s) {
  ContinueInChild(limit_s);
  std::vector<FoundBackend> found;
  for (std::string& name : BackendNames()) {
    absl::Status broken = OpeningFailure(name);
    if (!broken.ok()) {
      found.push_back({std::move(name), std::move(broken), {}});
      continue;
    }
    const BackendScope opening(name);
    absl::StatusOr<Backend> backend = GetBackend(name);
    std::vector<Device> devices;
    if (backend.ok()) devices = backend->devices();
    // Some backends initialise their driver only at the first question.
    for (const Device device : devices) device.Properties().IgnoreError();
    found.push_back({std::move(name), std::move(backend), std::move(devices)});
  }
  return found;
}

int ReportOpenFailures(const Command& command,
                       const std::vector<FoundBackend>& backends) {
  if (backends.empty()) {
    return Failure(
        command, "no backend was found; \"devrt list\" says what was searched");
  }
  const bool any_usable =
      std::any_of(backends.begin(), backends.end(),
                  [](const FoundBackend& found) { return found.backend.ok(); });
  int code = kSuccess;
  std::set<std::string> said;  // each backend repeats the failure of a layer
  for (const FoundBackend& found : backends) {
    if (found.backend.ok()) continue;
    // A machine with one accelerator need not hear that it lacks another.
    const bool lacks = absl::IsUnavailable(found.backend.status());
    if (lacks && any_usable) continue;
    const std::string text = Explain(found.backend.status());
    if (said.insert(text).second) Failure(command, text);
    if (!lacks) code = kFailure;
  }
  return code;
}

std::string PciAddress(const DeviceProperties& p) {
  if (p.pci_domain == 0 && p.pci_bus == 0 && p.pci_device == 0) return "";
  return absl::StrFormat("%04x:%02x:%02x.0", p.pci_domain, p.pci_bus,
                         p.pci_device);
}

std::vector<std::string> CapabilityNames(uint64_t capabilities) {
  return absl::StrSplit(
      absl::AsciiStrToLower(devrt::CapabilityNames(capabilities)), ", ",
      absl::SkipEmpty());
}

void WriteBackend(Backend backend, JsonWriter* json) {
  json->Key("vendor").String(backend.vendor());
  json->Key("version").String(backend.version());
  json->Key("path").String(backend.path());
  json->Key("capabilities").BeginArray();
  for (const std::string& name : CapabilityNames(backend.capabilities())) {
    json->String(name);
  }
  json->End();
}

void WriteError(const absl::Status& status, JsonWriter* json) {
  json->BeginObject();
  json->Key("code").String(absl::StatusCodeToString(status.code()));
  json->Key("message").String(Explain(status));
  json->End();
}

void WriteAttempts(const std::vector<LoadAttempt>& attempts, JsonWriter* json) {
  json->BeginArray();
  for (const LoadAttempt& attempt : attempts) {
    json->BeginObject();
    json->Key("result").String(ToString(attempt.result));
    json->Key("source").String(attempt.source);
    json->Key("path").String(attempt.path);
    json->Key("backend").String(attempt.backend);
    json->Key("version").String(attempt.version);
    if (!attempt.status.ok()) {
      json->Key("error");
      WriteError(attempt.status, json);
    }
    json->End();
  }
  json->End();
}

std::string PathOrLinkedIn(const std::string& path) {
  return path.empty() ? "linked in" : path;
}

}  // namespace devrt::tools
