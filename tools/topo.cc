// SPDX-License-Identifier: Apache-2.0
//
// devrt topo: which devices reach each other's memory.

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "devrt/runtime/device.h"
#include "devrt/runtime/peer.h"
#include "devrt/runtime/status.h"
#include "tools/arguments.h"
#include "tools/command.h"
#include "tools/describe.h"
#include "tools/json.h"
#include "tools/terminal.h"
#include "tools/text.h"

namespace devrt::tools {
namespace {

constexpr Flag kTryFlag = {
    "--try", nullptr,
    "Also enable each possible access, and take it back: whether the driver "
    "does what it says. On hardware this creates contexts."};

// What one device can do with another's memory.
struct Link {
  Device device;
  Device peer;
  bool can = false;
  absl::Status enabled = absl::OkStatus();  // with --try
};

absl::StatusOr<Link> Ask(Device device, Device peer, bool try_it) {
  Link link{device, peer};
  DEVRT_ASSIGN_OR_RETURN(link.can, CanAccessPeer(device, peer));
  if (!link.can || !try_it) return link;
  link.enabled = EnablePeerAccess(device, peer);
  if (link.enabled.ok()) {
    DEVRT_RETURN_IF_ERROR(DisablePeerAccess(device, peer));
  }
  return link;
}

// All ordered pairs of one backend's devices, by rows.
absl::StatusOr<std::vector<Link>> AskAll(const std::vector<Device>& devices,
                                         bool try_it) {
  std::vector<Link> links;
  for (Device device : devices) {
    for (Device peer : devices) {
      DEVRT_ASSIGN_OR_RETURN(Link link, Ask(device, peer, try_it));
      links.push_back(std::move(link));
    }
  }
  return links;
}

std::string CellText(const Link& link) {
  if (link.device == link.peer) return "-";
  if (!link.can) return "no";
  return link.enabled.ok() ? "yes" : "fails";
}

std::string MatrixText(const std::vector<Device>& devices,
                       const std::vector<Link>& links) {
  std::vector<std::string> heading = {"FROM \\ TO"};
  for (Device peer : devices) heading.push_back(peer.name());
  Table table(std::move(heading));
  std::string failures;
  auto link = links.begin();
  for (Device device : devices) {
    std::vector<std::string> cells = {device.name()};
    for (size_t i = 0; i < devices.size(); ++i, ++link) {
      cells.push_back(CellText(*link));
      if (!link->enabled.ok()) {
        failures += "  " + Explain(link->enabled) + "\n";
      }
    }
    table.Add(std::move(cells));
  }
  return table.Text(2) + failures;
}

void WriteLinks(const std::vector<Link>& links, bool tried, JsonWriter* json) {
  for (const Link& link : links) {
    if (link.device == link.peer) continue;
    json->Compact().BeginObject().Key("device").String(link.device.name());
    json->Key("peer").String(link.peer.name());
    json->Key("can_access").Bool(link.can).Key("enable_works");
    if (!tried || !link.can) {
      json->Null().End();
      continue;
    }
    json->Bool(link.enabled.ok());
    if (!link.enabled.ok()) {
      json->Key("error");
      WriteError(link.enabled, json);
    }
    json->End();
  }
}

int Run(const Arguments& arguments) {
  const bool try_it = arguments.Has(kTryFlag.name);
  const std::vector<FoundBackend> backends = OpenBackends();
  int code = Report(kTopoCommand, backends);
  std::string text;
  JsonWriter json;
  json.BeginObject().Key("devrt").String(DEVRT_VERSION);
  json.Key("links").BeginArray();
  for (const FoundBackend& found : backends) {
    if (found.devices.empty()) continue;
    const auto links = AskAll(found.devices, try_it);
    if (!links.ok()) {
      code = Failure(kTopoCommand, Explain(links.status()));
      continue;
    }
    for (const Link& link : *links) {
      if (!link.enabled.ok()) code = kFailure;
    }
    if (!text.empty()) text += "\n";
    text +=
        "Kernels of the device on the left can use memory of the one "
        "above:\n\n" +
        MatrixText(found.devices, *links);
    WriteLinks(*links, try_it, &json);
  }
  json.End().End();
  Print(arguments.Has(kJsonFlag.name) ? std::move(json).Finish() : text);
  return code;
}

constexpr Flag kFlags[] = {kTryFlag, kJsonFlag, kHelpFlag};

}  // namespace

const Command kTopoCommand = {
    "topo",
    nullptr,
    "Which devices reach each other's memory.",
    "A matrix for each backend: whether peer access can be enabled, for every "
    "ordered pair of devices. Copies between devices work without it. Access "
    "is enabled by each program for itself, so there is nothing to tell about "
    "what is enabled now.",
    kFlags,
    &Run,
};

}  // namespace devrt::tools
