// SPDX-License-Identifier: Apache-2.0
//
// devrt info: the properties of one device or of all devices.

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "devrt/collectives/communicator.h"
#include "devrt/runtime/device.h"
#include "tools/commands.h"
#include "tools/common/arguments.h"
#include "tools/common/describe.h"
#include "tools/common/json.h"
#include "tools/common/terminal.h"
#include "tools/common/text.h"

namespace devrt::tools {
namespace {

struct DeviceReport {
  Device device;
  DeviceProperties properties;
  absl::StatusOr<MemoryInfo> memory;
  absl::StatusOr<collectives::ProviderInfo> engine;  // for collectives
};

absl::StatusOr<DeviceReport> QueryDevice(Device device) {
  absl::StatusOr<DeviceProperties> properties = device.Properties();
  if (!properties.ok()) return properties.status();
  return DeviceReport{device, *std::move(properties), device.GetMemoryInfo(),
                      collectives::EngineOf(device)};
}

const char* PageableText(uint32_t pageable) {
  switch (pageable) {
    case DEVRT_PAGEABLE_SYNC:
      return "the call waits until it is complete";
    case DEVRT_PAGEABLE_STAGED:
      return "the source is read before the call returns";
    case DEVRT_PAGEABLE_LATE:
      return "the source is read later, by the stream";
    default:
      return "unknown";
  }
}

std::string MemoryText(const DeviceReport& report) {
  const DeviceProperties& p = report.properties;
  const std::string free =
      report.memory.ok() ? FormatBytes(report.memory->free_bytes) + " free now"
                         : "free: " + Explain(report.memory.status());
  return absl::StrFormat("%s, %s; %s of it cannot be allocated",
                         FormatBytes(p.total_memory), free,
                         FormatBytes(p.overhead_bytes));
}

std::string EngineText(
    const absl::StatusOr<collectives::ProviderInfo>& engine) {
  if (!engine.ok()) return Explain(engine.status());
  return Printable(engine->name + " " + engine->version +
                   (engine->path.empty() ? "" : " from " + engine->path) +
                   ": " + absl::StrJoin(engine->features, ", "));
}

std::string FaultText(const DeviceProperties& p) {
  const bool aborts = p.fault_delivery == DEVRT_FAULT_DELIVERY_ABORT;
  const bool all = p.fault_scope == DEVRT_FAULT_SCOPE_PROCESS;
  return absl::StrFormat(
      "%s; %s", aborts ? "may end the process" : "are reported as errors",
      all ? "all devices of the backend are lost"
          : "other devices keep working");
}

std::vector<std::pair<const char*, std::string>> Lines(
    const DeviceReport& report) {
  const DeviceProperties& p = report.properties;
  const std::vector<std::string> names = CapabilityNames(p.capabilities);
  const std::string pci = PciAddress(p);
  std::vector<std::pair<const char*, std::string>> lines = {
      {"name", Printable(p.name)},
      {"arch", Printable(p.arch)},
      {"uuid", p.uuid_string()},
      {"PCI address", pci.empty() ? "none" : pci},
      {"memory", MemoryText(report)},
      {"alignment", FormatBytes(p.alloc_alignment) + " of every allocation"},
      {"multiprocessors", std::to_string(p.multiprocessors)},
      {"copy engines", std::to_string(p.copy_engines)},
      {"priorities", absl::StrFormat("%d (most urgent) to %d",
                                     p.priority_greatest, p.priority_least)},
      {"queue depth", p.queue_depth == 0
                          ? "no limit"
                          : Counted(p.queue_depth, "operation") + " a stream"},
      {"timing", FormatTime(p.elapsed_resolution_ns) + " resolution"},
      {"pageable copies", PageableText(p.pageable_async)},
      {"freeing memory", p.raw_free_syncs ? "waits for the device"
                                          : "does not wait for the device"},
      {"faults", FaultText(p)},
      {"collectives", EngineText(report.engine)},
      {"capabilities",
       names.empty() ? std::string("none") : absl::StrJoin(names, " ")},
  };
  if (p.compute_major != 0 || p.compute_minor != 0) {
    lines.insert(lines.begin() + 2,
                 {"compute",
                  absl::StrFormat("%d.%d", p.compute_major, p.compute_minor)});
  }
  return lines;
}

std::string Text(const DeviceReport& report) {
  constexpr size_t kColumn = 19;
  std::string text = report.device.name() + "\n";
  for (const auto& [name, value] : Lines(report)) {
    text += PadRight(std::string("  ") + name, kColumn) +
            Wrap(value, kTextWidth, kColumn) + "\n";
  }
  return text;
}

void WriteJson(const DeviceReport& report, JsonWriter* json) {
  const DeviceProperties& p = report.properties;
  json->BeginObject().Key("device").String(report.device.name());
  json->Key("name").String(p.name).Key("arch").String(p.arch);
  json->Key("uuid").String(p.uuid_string());
  json->Key("pci_domain").Unsigned(p.pci_domain);
  json->Key("pci_bus").Unsigned(p.pci_bus);
  json->Key("pci_device").Unsigned(p.pci_device);
  json->Key("compute_major").Unsigned(p.compute_major);
  json->Key("compute_minor").Unsigned(p.compute_minor);
  json->Key("multiprocessors").Unsigned(p.multiprocessors);
  json->Key("total_memory").Unsigned(p.total_memory);
  json->Key("overhead_bytes").Unsigned(p.overhead_bytes);
  json->Key("free_memory");
  if (report.memory.ok()) {
    json->Unsigned(report.memory->free_bytes);
  } else {
    json->Null();
  }
  json->Key("alloc_alignment").Unsigned(p.alloc_alignment);
  json->Key("copy_engines").Unsigned(p.copy_engines);
  json->Key("priority_least").Number(p.priority_least);
  json->Key("priority_greatest").Number(p.priority_greatest);
  json->Key("queue_depth").Unsigned(p.queue_depth);
  json->Key("elapsed_resolution_ns").Unsigned(p.elapsed_resolution_ns);
  json->Key("pageable_async").Unsigned(p.pageable_async);
  json->Key("raw_free_syncs").Bool(p.raw_free_syncs);
  json->Key("fault_delivery").Unsigned(p.fault_delivery);
  json->Key("fault_scope").Unsigned(p.fault_scope);
  json->Key("device_reset").Bool(p.device_reset);
  json->Key("capabilities").BeginArray();
  for (const std::string& name : CapabilityNames(p.capabilities)) {
    json->String(name);
  }
  json->End().Key("collectives").BeginObject();
  if (report.engine.ok()) {
    json->Key("engine").String(report.engine->name);
    json->Key("version").String(report.engine->version);
    json->Key("path").String(report.engine->path);
    json->Key("features").BeginArray();
    for (const std::string& feature : report.engine->features) {
      json->String(feature);
    }
    json->End();
  } else {
    json->Key("error");
    WriteError(report.engine.status(), json);
  }
  json->End().End();
}

void Print(const std::vector<DeviceReport>& reports, bool as_json) {
  std::string text;
  JsonWriter json;
  json.BeginObject().Key("devrt").String(DEVRT_VERSION);
  json.Key("devices").BeginArray();
  for (const DeviceReport& report : reports) {
    if (!text.empty()) text += "\n";
    text += Text(report);
    WriteJson(report, &json);
  }
  json.End().End();
  tools::Print(as_json ? std::move(json).Finish() : text);
}

int RunInfoCommand(const Arguments& arguments) {
  int code = kSuccess;
  std::vector<Device> devices;
  if (arguments.words().empty()) {
    const std::vector<FoundBackend> backends = OpenBackends();
    code = ReportOpenFailures(kInfoCommand, backends);
    for (const FoundBackend& found : backends) {
      devices.insert(devices.end(), found.devices.begin(), found.devices.end());
    }
  } else {
    const absl::StatusOr<Device> device = GetDevice(arguments.words()[0]);
    if (!device.ok()) return Failure(kInfoCommand, Explain(device.status()));
    devices.push_back(*device);
  }
  std::vector<DeviceReport> reports;
  for (Device device : devices) {
    absl::StatusOr<DeviceReport> report = QueryDevice(device);
    if (report.ok()) {
      reports.push_back(*std::move(report));
    } else {
      code = Failure(kInfoCommand, Explain(report.status()));
    }
  }
  Print(reports, arguments.Has(kJsonFlag.name));
  return code;
}

constexpr Flag kInfoFlags[] = {kJsonFlag, kHelpFlag};

}  // namespace

const Command kInfoCommand = {
    "info",
    "[DEVICE]",
    "Properties of one device, or of all.",
    "DEVICE is a name such as mtia:1; mtia alone is its first device. Without "
    "one, every device of every backend is described.",
    kInfoFlags,
    &RunInfoCommand,
};

}  // namespace devrt::tools
