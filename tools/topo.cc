// SPDX-License-Identifier: Apache-2.0
//
// devrt topo: where devices are in the machine, and which can access each
// other's memory.

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "devrt/runtime/device.h"
#include "devrt/runtime/peer.h"
#include "devrt/runtime/simulator.h"
#include "devrt/runtime/status.h"
#include "tools/commands.h"
#include "tools/common/arguments.h"
#include "tools/common/describe.h"
#include "tools/common/json.h"
#include "tools/common/terminal.h"
#include "tools/common/text.h"
#include "tools/topo/bandwidth.h"
#include "tools/topo/machine_links.h"

namespace devrt::tools {
namespace {

constexpr Flag kMeasureFlag = {
    "--measure", nullptr,
    "Also time copies of 64 MiB between each pair of devices of a backend, and "
    "between each device and pinned memory. On hardware this creates contexts, "
    "and other work on the devices makes the copies slower."};
constexpr Flag kTryFlag = {
    "--try", nullptr,
    "Also enable each possible access, and take it back: whether the driver "
    "does what it says. On hardware this creates contexts."};

struct Place {
  Device device;
  std::string name;  // the model
  std::string pci;   // empty for simulated devices
  PciPlace at;
  bool simulated = false;
};

// How fast copies between a device and pinned memory are, in GB/s.
struct HostBandwidth {
  absl::StatusOr<double> from_host;
  absl::StatusOr<double> to_host;
};

// How one device can access another's memory.
struct Link {
  const Place* device = nullptr;
  const Place* peer = nullptr;
  LinkKind kind = LinkKind::kUnknown;
  bool can = false;
  absl::Status failure = absl::OkStatus();  // from the driver or --try
  // Of copies from the device to the peer, with --measure:
  std::optional<absl::StatusOr<double>> bandwidth;  // GB/s
  double small_copy_us = 0;

  bool is_itself() const { return device == peer; }
  bool crosses_backends() const {
    return device->device.backend() != peer->device.backend();
  }
};

absl::StatusOr<Place> Locate(Device device, const MachineLinks& machine) {
  DEVRT_ASSIGN_OR_RETURN(const DeviceProperties p, device.Properties());
  const bool simulated = Simulator::Get(device.backend()).ok();
  const std::string pci = simulated ? "" : PciAddress(p);
  return Place{device, p.name, pci, machine.PlaceOf(pci), simulated};
}

Link FindLink(const Place& device, const Place& peer,
              const MachineLinks& machine, bool try_it) {
  Link link;
  link.device = &device;
  link.peer = &peer;
  if (link.is_itself()) return link;
  link.kind = device.simulated || peer.simulated
                  ? LinkKind::kSimulated
                  : machine.LinkBetween(device.pci, peer.pci);
  const absl::StatusOr<bool> can = CanAccessPeer(device.device, peer.device);
  link.can = can.ok() && *can;
  link.failure = can.status();
  if (!link.can || !try_it) return link;
  link.failure = EnablePeerAccess(device.device, peer.device);
  if (link.failure.ok()) {
    link.failure = DisablePeerAccess(device.device, peer.device);
  }
  return link;
}

std::string BandwidthText(const absl::StatusOr<double>& bandwidth) {
  return bandwidth.ok() ? absl::StrFormat("%.1f", *bandwidth) : "fails";
}

std::string CellText(const Link& link) {
  if (link.is_itself()) return "-";
  if (!link.failure.ok()) return "fails";
  if (link.crosses_backends()) return "host";
  return link.can ? LinkCode(link.kind) : "no";
}

std::string PlacesText(const std::vector<Place>& places) {
  Table table({"DEVICE", "MODEL", "PCI ADDRESS", "NUMA", "NEAR CPUS"});
  for (const Place& place : places) {
    table.Add(
        {place.device.name(), Printable(place.name),
         place.pci.empty() ? "none" : place.pci,
         place.at.numa_node < 0 ? "-" : std::to_string(place.at.numa_node),
         place.at.cpus.empty() ? "-" : Printable(place.at.cpus)});
  }
  return table.Text(2);
}

// All ordered pairs of devices, row by row.
std::string MatrixText(const std::vector<Place>& places,
                       const std::vector<Link>& links) {
  std::vector<std::string> heading = {"FROM \\ TO"};
  for (const Place& peer : places) heading.push_back(peer.device.name());
  Table table(std::move(heading));
  std::string failures;
  auto link = links.begin();
  for (const Place& device : places) {
    std::vector<std::string> cells = {device.device.name()};
    for (size_t i = 0; i < places.size(); ++i, ++link) {
      cells.push_back(CellText(*link));
      if (!link->failure.ok()) {
        failures += "  " + Explain(link->failure) + "\n";
      }
    }
    table.Add(std::move(cells));
  }
  return table.Text(2) + failures;
}

// What --measure found: all ordered pairs, and pinned memory as "host".
std::string BandwidthMatrix(const std::vector<Place>& places,
                            const std::vector<Link>& links,
                            const std::vector<HostBandwidth>& host) {
  std::vector<std::string> heading = {"FROM \\ TO"};
  for (const Place& peer : places) heading.push_back(peer.device.name());
  heading.push_back("host");
  Table table(std::move(heading));
  std::string failures;
  const auto cell = [&failures](const absl::StatusOr<double>& bandwidth) {
    if (!bandwidth.ok()) {
      failures += "  " + Explain(bandwidth.status()) + "\n";
    }
    return BandwidthText(bandwidth);
  };
  auto link = links.begin();
  for (size_t row = 0; row < places.size(); ++row) {
    std::vector<std::string> cells = {places[row].device.name()};
    for (size_t i = 0; i < places.size(); ++i, ++link) {
      cells.push_back(link->bandwidth.has_value() ? cell(*link->bandwidth)
                                                  : "-");
    }
    cells.push_back(cell(host[row].to_host));
    table.Add(std::move(cells));
  }
  std::vector<std::string> cells = {"host"};
  for (const HostBandwidth& of : host) cells.push_back(cell(of.from_host));
  cells.push_back("-");
  table.Add(std::move(cells));
  return table.Text(2) + failures;
}

// Explains the cells that the table has.
std::string LegendText(const std::vector<Link>& links) {
  std::map<std::string, std::string> meanings;
  for (const Link& link : links) {
    const std::string cell = CellText(link);
    if (link.is_itself()) continue;
    meanings[cell] =
        cell == "host" ? "two backends: data passes through memory of the host"
        : cell == "no" ? "no peer access; copies work, the backend finds a way"
        : cell == "fails"
            ? "the driver answers with the error above"
            : absl::StrCat("peer access (kernels use the other's memory), ",
                           LinkMeaning(link.kind));
  }
  std::string text;
  for (const auto& [cell, meaning] : meanings) {
    text += "  " + PadRight(cell, 7) + Wrap(meaning, 80, 9) + "\n";
  }
  return text;
}

// By backend, the keys of DEVRT_MTIA with which the simulator's collectives
// take the time of the slowest link.
std::map<std::string, std::string> SimulatorKeys(
    const std::vector<Link>& links) {
  struct Slowest {
    double gigabytes = 0;
    double small_copy_us = 0;
  };
  std::map<std::string, Slowest> slowest;
  for (const Link& link : links) {
    if (!link.bandwidth.has_value() || !link.bandwidth->ok()) continue;
    Slowest& of =
        slowest.try_emplace(link.device->device.backend().name(), Slowest())
            .first->second;
    if (of.gigabytes == 0 || **link.bandwidth < of.gigabytes) {
      of.gigabytes = **link.bandwidth;
    }
    of.small_copy_us = std::max(of.small_copy_us, link.small_copy_us);
  }
  std::map<std::string, std::string> keys;
  for (const auto& [backend, of] : slowest) {
    keys[backend] =
        absl::StrFormat("collective_link=%.0fMB/s,collective_alpha=%.0fns",
                        of.gigabytes * 1e3, of.small_copy_us * 1e3);
  }
  return keys;
}

// Backends that cannot be used here, and facts that this machine does not tell.
std::vector<std::pair<std::string, std::string>> Missing(
    const std::vector<FoundBackend>& backends, const std::vector<Place>& places,
    const MachineLinks& machine) {
  std::vector<std::pair<std::string, std::string>> missing;
  for (const FoundBackend& found : backends) {
    if (!found.backend.ok()) {
      missing.emplace_back(found.name, Explain(found.backend.status()));
    } else if (found.devices.empty()) {
      missing.emplace_back(found.name, "has no device");
    }
  }
  const bool has_cuda = std::any_of(places.begin(), places.end(), [](auto& p) {
    return p.device.backend().name() == "cuda";
  });
  if (machine.numa_nodes() == 0) {
    missing.emplace_back("NUMA", "/sys/devices/system/node names no node");
  }
  for (const Place& place : places) {
    if (place.pci.empty() || !place.at.path.empty()) continue;
    missing.emplace_back(
        place.device.name(),
        "/sys/bus/pci/devices has no " + place.pci +
            ", as in some containers: PCIe and NUMA are not told");
  }
  if (has_cuda && !machine.sees_nvlink()) {
    missing.emplace_back("NVLink",
                         "libnvidia-ml.so.1 does not answer: an NVLink shows "
                         "as the PCIe beside it");
  }
  return missing;
}

// null without a measurement, and after one that failed.
void WriteBandwidth(const std::optional<absl::StatusOr<double>>& bandwidth,
                    JsonWriter* json) {
  if (bandwidth.has_value() && bandwidth->ok()) {
    json->Number(static_cast<int64_t>(**bandwidth * 1e9));
  } else {
    json->Null();
  }
}

void WriteLink(const Link& link, bool tried, JsonWriter* json) {
  if (link.is_itself()) return;
  json->BeginObject();
  json->Key("device").String(link.device->device.name());
  json->Key("peer").String(link.peer->device.name());
  json->Key("can_access").Bool(link.can).Key("enable_works");
  if (!tried || !link.can) {
    json->Null();
  } else {
    json->Bool(link.failure.ok());
  }
  json->Key("link").String(link.crosses_backends() ? "host"
                                                   : LinkCode(link.kind));
  json->Key("bytes_per_second");
  WriteBandwidth(link.bandwidth, json);
  if (!link.failure.ok()) {
    json->Key("error");
    WriteError(link.failure, json);
  }
  json->End();
}

void WritePlace(const Place& place, const HostBandwidth* host,
                JsonWriter* json) {
  json->BeginObject().Key("device").String(place.device.name());
  json->Key("name").String(place.name).Key("pci_address");
  if (place.pci.empty()) {
    json->Null();
  } else {
    json->String(place.pci);
  }
  json->Key("numa_node");
  if (place.at.numa_node < 0) {
    json->Null();
  } else {
    json->Number(place.at.numa_node);
  }
  json->Key("cpus").String(place.at.cpus);
  std::optional<absl::StatusOr<double>> from, to;
  if (host != nullptr) {
    from = host->from_host;
    to = host->to_host;
  }
  json->Key("bytes_per_second_from_host");
  WriteBandwidth(from, json);
  json->Key("bytes_per_second_to_host");
  WriteBandwidth(to, json);
  json->End();
}

struct Topology {
  std::vector<Place> places;
  std::vector<Link> links;
  std::vector<HostBandwidth> host;  // of each place, with --measure
  int numa_nodes = 0;
  std::vector<std::pair<std::string, std::string>> missing;  // what, why
};

std::string Json(const Topology& topology, bool tried) {
  JsonWriter json;
  json.BeginObject().Key("devrt").String(DEVRT_VERSION);
  json.Key("devices").BeginArray();
  for (size_t i = 0; i < topology.places.size(); ++i) {
    WritePlace(topology.places[i],
               topology.host.empty() ? nullptr : &topology.host[i], &json);
  }
  json.End().Key("links").BeginArray();
  for (const Link& link : topology.links) WriteLink(link, tried, &json);
  json.End().Key("numa_nodes").Number(topology.numa_nodes);
  json.Key("simulator_keys").BeginObject();
  for (const auto& [backend, keys] : SimulatorKeys(topology.links)) {
    json.Key(backend).String(keys);
  }
  json.End();
  json.Key("missing").BeginArray();
  for (const auto& [what, why] : topology.missing) {
    json.BeginObject().Key("what").String(what);
    json.Key("why").String(why).End();
  }
  json.End().End();
  return std::move(json).Finish();
}

std::string Text(const Topology& topology) {
  std::string text;
  if (!topology.places.empty()) {
    text = PlacesText(topology.places) +
           "\nHow the device on the left reaches memory of the one above:\n\n" +
           MatrixText(topology.places, topology.links) + "\n" +
           LegendText(topology.links);
  }
  if (!topology.host.empty()) {
    text +=
        "\nCopies from the left to the one above, in GB/s; host is pinned "
        "memory:\n\n" +
        BandwidthMatrix(topology.places, topology.links, topology.host);
  }
  for (const auto& [backend, keys] : SimulatorKeys(topology.links)) {
    text += "\nThe slowest of these links of " + backend +
            ", for collectives in the simulator:\n\n  DEVRT_MTIA=" + keys +
            "\n";
  }
  if (!topology.missing.empty()) text += "\nMissing on this machine:\n\n";
  for (const auto& [what, why] : topology.missing) {
    text += "  " + PadRight(what, 7) + " " +
            Wrap(Printable(why), 80, std::max<size_t>(10, what.size() + 3)) +
            "\n";
  }
  return text;
}

// Returns kFailure if a copy failed.
int MeasureAll(Topology* topology) {
  int code = kSuccess;
  const auto note = [&code](const absl::StatusOr<double>& bandwidth) {
    if (!bandwidth.ok()) code = kFailure;
    return bandwidth;
  };
  for (Link& link : topology->links) {
    if (link.is_itself() || link.crosses_backends()) continue;
    const absl::StatusOr<PairFigures> figures =
        MeasurePair(link.device->device, link.peer->device);
    link.bandwidth =
        note(figures.ok() ? absl::StatusOr<double>(figures->gigabytes)
                          : figures.status());
    if (figures.ok()) link.small_copy_us = figures->small_copy_us;
  }
  for (const Place& place : topology->places) {
    topology->host.push_back({note(MeasureFromHost(place.device)),
                              note(MeasureToHost(place.device))});
  }
  return code;
}

int RunTopoCommand(const Arguments& arguments) {
  const bool try_it = arguments.Has(kTryFlag.name);
  const std::vector<FoundBackend> backends = OpenBackends();
  int code = ReportOpenFailures(kTopoCommand, backends);
  const MachineLinks machine;
  Topology topology;
  topology.numa_nodes = machine.numa_nodes();
  for (const FoundBackend& found : backends) {
    for (const Device device : found.devices) {
      absl::StatusOr<Place> place = Locate(device, machine);
      if (!place.ok()) {
        code = Failure(kTopoCommand, Explain(place.status()));
        continue;
      }
      topology.places.push_back(*std::move(place));
    }
  }
  for (const Place& device : topology.places) {
    for (const Place& peer : topology.places) {
      topology.links.push_back(FindLink(device, peer, machine, try_it));
      if (!topology.links.back().failure.ok()) code = kFailure;
    }
  }
  if (arguments.Has(kMeasureFlag.name) && MeasureAll(&topology) != kSuccess) {
    code = kFailure;
  }
  topology.missing = Missing(backends, topology.places, machine);
  Print(arguments.Has(kJsonFlag.name) ? Json(topology, try_it)
                                      : Text(topology));
  return code;
}

constexpr Flag kTopoFlags[] = {kTryFlag, kMeasureFlag, kJsonFlag, kHelpFlag};

}  // namespace

const Command kTopoCommand = {
    "topo",
    nullptr,
    "Where devices are, and which reach each other's memory.",
    "Each device with its PCI address and NUMA node, and a matrix of all "
    "devices "
    "of all backends: whether peer access can be enabled, and over which link, "
    "for every ordered pair. Copies between devices work without it. Access is "
    "enabled by each program for itself, so there is nothing to tell about "
    "what "
    "is enabled now. Then what this machine lacks: backends that cannot be "
    "used, "
    "with the reason, and what the system does not tell.",
    kTopoFlags,
    &RunTopoCommand,
};

}  // namespace devrt::tools
