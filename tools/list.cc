// SPDX-License-Identifier: Apache-2.0
//
// devrt list: backends and devices, and the files that they came from.

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "devrt/runtime/backend.h"
#include "devrt/runtime/device.h"
#include "tools/commands.h"
#include "tools/common/arguments.h"
#include "tools/common/describe.h"
#include "tools/common/json.h"
#include "tools/common/terminal.h"
#include "tools/common/text.h"

namespace devrt::tools {
namespace {

std::string BackendTable(const std::vector<FoundBackend>& backends) {
  Table table({"BACKEND", "DEVICES", "VERSION", "VENDOR", "FROM"});
  for (const FoundBackend& found : backends) {
    if (!found.backend.ok()) {
      table.Add({found.name, "-", "-", "-", "-"},
                absl::StrFormat(
                    "cannot be used: %s",
                    absl::StatusCodeToString(found.backend.status().code())));
      continue;
    }
    table.Add({found.name, std::to_string(found.devices.size()),
               Printable(found.backend->version()),
               Printable(found.backend->vendor()),
               Printable(PathOrLinkedIn(found.backend->path()))});
  }
  return table.empty() ? "  none\n" : table.Text(2);
}

std::string DeviceTable(const std::vector<FoundBackend>& backends) {
  Table table({"DEVICE", "NAME", "ARCH", "MEMORY"});
  for (const FoundBackend& found : backends) {
    for (Device device : found.devices) {
      const absl::StatusOr<DeviceProperties> p = device.Properties();
      if (p.ok()) {
        table.Add({device.name(), Printable(p->name), Printable(p->arch),
                   FormatBytes(p->total_memory)});
      } else {
        table.Add({device.name(), "-", "-", "-"}, Explain(p.status()));
      }
    }
  }
  return table.empty() ? "  none\n" : table.Text(2);
}

// The default device, which a new thread has; empty: there is none.
std::string DefaultDevice(const std::vector<FoundBackend>& backends) {
  for (const FoundBackend& found : backends) {
    if (!found.devices.empty()) return found.devices.front().name();
  }
  return "";
}

// The load report, and the backends that ended a child process, which the
// report cannot know.
std::vector<LoadAttempt> Attempts() {
  std::vector<LoadAttempt> attempts = LoadReport();
  for (LoadAttempt& attempt : attempts) {
    const absl::Status broken = OpeningFailure(attempt.backend);
    if (attempt.result != LoadAttempt::Result::kFound || broken.ok()) continue;
    attempt.result = LoadAttempt::Result::kRefused;
    attempt.status = broken;
  }
  return attempts;
}

std::string AttemptTable(const std::vector<LoadAttempt>& attempts) {
  Table table({"RESULT", "SOURCE", "BACKEND", "PATH"});
  for (const LoadAttempt& attempt : attempts) {
    table.Add({ToString(attempt.result), attempt.source,
               attempt.backend.empty() ? "-" : attempt.backend,
               Printable(PathOrLinkedIn(attempt.path))},
              attempt.status.ok() ? "" : Explain(attempt.status));
  }
  return table.empty() ? "  nothing was tried\n" : table.Text(2);
}

// Returns true if a file was refused for another reason than that this machine
// lacks the accelerator.
bool AnyFileRefused(const std::vector<LoadAttempt>& attempts) {
  for (const LoadAttempt& attempt : attempts) {
    if (attempt.result == LoadAttempt::Result::kRefused &&
        !absl::IsUnavailable(attempt.status)) {
      return true;
    }
  }
  return false;
}

std::string Json(const std::vector<FoundBackend>& backends,
                 const std::vector<LoadAttempt>& attempts) {
  JsonWriter json;
  json.BeginObject().Key("devrt").String(DEVRT_VERSION);
  json.Key("backends").BeginArray();
  for (const FoundBackend& found : backends) {
    json.BeginObject().Key("name").String(found.name);
    json.Key("usable").Bool(found.backend.ok());
    json.Key("device_count").Unsigned(found.devices.size());
    if (found.backend.ok()) {
      WriteBackend(*found.backend, &json);
    } else {
      json.Key("error");
      WriteError(found.backend.status(), &json);
    }
    json.End();
  }
  json.End().Key("devices").BeginArray();
  for (const FoundBackend& found : backends) {
    for (Device device : found.devices) {
      json.BeginObject().Key("device").String(device.name());
      if (const auto p = device.Properties(); p.ok()) {
        json.Key("name").String(p->name).Key("arch").String(p->arch);
        json.Key("total_memory").Unsigned(p->total_memory);
      } else {
        json.Key("error");
        WriteError(p.status(), &json);
      }
      json.End();
    }
  }
  json.End().Key("default_device");
  const std::string device = DefaultDevice(backends);
  device.empty() ? json.Null() : json.String(device);
  json.Key("load_report");
  WriteAttempts(attempts, &json);
  json.End();
  return std::move(json).Finish();
}

constexpr Flag kTimeoutFlag = {
    "--timeout", "S",
    "Seconds that opening a backend may take (default: 30). One that takes "
    "longer is left out, and named."};

int RunListCommand(const Arguments& arguments) {
  const absl::StatusOr<int64_t> limit =
      arguments.GetNumber(kTimeoutFlag.name, kOpenLimit, 1, 86'400);
  if (!limit.ok())
    return UsageError(kListCommand, std::string(limit.status().message()));
  const std::vector<FoundBackend> backends =
      OpenBackends(static_cast<int>(*limit));
  const std::vector<LoadAttempt> attempts = Attempts();
  if (arguments.Has(kJsonFlag.name)) {
    Print(Json(backends, attempts));
  } else {
    Print("Backends\n" + BackendTable(backends));
    Print("\nDevices\n" + DeviceTable(backends));
    if (const std::string device = DefaultDevice(backends); !device.empty()) {
      Print("  " + device + " is the default where a program names none.\n");
    }
    Print("\nWhere backends were looked for\n" + AttemptTable(attempts));
  }
  if (backends.empty()) {
    return Failure(kListCommand, "no backend was found");
  }
  const int code = ReportOpenFailures(kListCommand, backends);
  return AnyFileRefused(attempts) ? kFailure : code;
}

constexpr Flag kListFlags[] = {kTimeoutFlag, kJsonFlag, kHelpFlag};

}  // namespace

const Command kListCommand = {
    "list",
    nullptr,
    "Backends, their devices, and where they were looked for.",
    "Opens every backend that is found and selected, and reports every file "
    "and directory that was tried, in order, and why a file was refused. A "
    "backend whose vendor's library hangs or crashes is named, and the others "
    "are reported all the same.\n\n"
    "DEVRT_PLUGINS names plugin files and DEVRT_PLUGIN_PATH directories, "
    "separated by ':'. DEVRT_BACKENDS=mtia or DEVRT_BACKENDS='!mtia' selects "
    "by name. DEVRT_MTIA=devices=4,memory=1GiB configures the simulator.\n\n"
    "Fails when no backend was found, or when a file was refused or a backend "
    "could not be opened for another reason than that this machine lacks the "
    "accelerator.",
    kListFlags,
    &RunListCommand,
};

}  // namespace devrt::tools
