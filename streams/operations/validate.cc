// SPDX-License-Identifier: Apache-2.0
#include "devrt/streams/validate.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "devrt/backends/abi/devrt_race.h"
#include "devrt/runtime/layer.h"
#include "devrt/runtime/status.h"
#include "runtime/registry/registry.h"
#include "streams/common/extension.h"
#include "streams/common/host_order.h"
#include "streams/objects/device_streams.h"
#include "streams/objects/stream_target.h"

namespace devrt::validate {
namespace {

using internal::DeviceRecord;
using RaceExtension = internal::ExtensionOf<devrt_race_v0>;

constexpr char kLayer[] = "validate";

// A device whose backend's calls the layer sees; nullptr: there is none.  One
// detector serves all backends, so any device will do.
DeviceRecord* CheckedDevice() {
  for (internal::BackendRecord* const backend : internal::OpenedBackends()) {
    if (backend->devices.empty()) continue;
    DeviceRecord* const device = backend->devices[0];
    if (internal::DeviceStreams::Of(device)->race.table != nullptr) {
      return device;
    }
  }
  return nullptr;
}

// Visits the findings after the first `after`, and returns how many there are.
uint64_t Visit(uint64_t after, void (*visit)(void*, const devrt_finding_v0*),
               void* arg) {
  DeviceRecord* const device = CheckedDevice();
  if (device == nullptr) return 0;
  const RaceExtension& race = internal::DeviceStreams::Of(device)->race;
  uint64_t total = 0;
  internal::FromPlugin(
      device, race.table->findings(race.self, after, visit, arg, &total),
      "findings")
      .IgnoreError();
  return total;
}

}  // namespace

absl::Status Enable() {
  DEVRT_ASSIGN_OR_RETURN(std::vector<std::string> layers,
                         internal::LayerNames());
  if (std::find(layers.begin(), layers.end(), kLayer) == layers.end()) {
    layers.insert(layers.begin(), kLayer);
    DEVRT_RETURN_IF_ERROR(SetLayers(layers));
  }
  internal::WantStacks();
  return absl::OkStatus();
}

bool IsActive() { return CheckedDevice() != nullptr; }

Scope::Scope() : first_(Visit(UINT64_MAX, nullptr, nullptr)) {}

std::vector<Finding> Scope::Findings() const {
  std::vector<Finding> findings;
  Visit(
      first_,
      [](void* arg, const devrt_finding_v0* finding) {
        const auto text = [](const char* given) {
          return std::string(given == nullptr ? "" : given);
        };
        Finding copy;
        copy.id = finding->id;
        copy.kind = finding->kind;
        copy.text = finding->text;
        copy.json = finding->json;
        // An older detector does not name the operations.
        if (DEVRT_HAS_FIELD(finding, devrt_finding_v0, until)) {
          copy.hold = text(finding->hold);
          copy.until = text(finding->until);
        }
        static_cast<std::vector<Finding>*>(arg)->push_back(std::move(copy));
      },
      &findings);
  return findings;
}

absl::Status UseOnHost(absl::Span<const Access> accesses, CallSite site) {
  DeviceRecord* const device = CheckedDevice();
  if (device == nullptr) return absl::OkStatus();
  const internal::CallSiteScope scope(site);
  const RaceExtension& race = internal::DeviceStreams::Of(device)->race;
  return internal::FromPlugin(
      device,
      race.table->host_access(race.self, "host access", accesses.data(),
                              static_cast<uint32_t>(accesses.size())),
      "host access");
}

absl::Status AnnotateWork(StreamRef stream, absl::Span<const Access> accesses,
                          const char* name, CallSite site) {
  if (!IsActive()) return absl::OkStatus();
  internal::StreamTarget t;
  DEVRT_RETURN_IF_ERROR(
      internal::ResolveStreamForWork(stream, "AnnotateWork", site, &t));
  internal::SetCallSite(site, name);
  const RaceExtension& race = internal::DeviceStreams::Of(t.device)->race;
  if (race.table == nullptr) return absl::OkStatus();
  return internal::FromPlugin(
      t.device,
      race.table->stream_access(race.self, t.handle, name, accesses.data(),
                                static_cast<uint32_t>(accesses.size())),
      "AnnotateWork");
}

absl::Status AnnotateOrder(StreamRef earlier, StreamRef later, CallSite site) {
  if (!IsActive()) return absl::OkStatus();
  internal::StreamTarget from;
  DEVRT_RETURN_IF_ERROR(
      internal::ResolveStreamForWork(earlier, "AnnotateOrder", site, &from));
  internal::StreamTarget to;
  DEVRT_RETURN_IF_ERROR(
      internal::ResolveStreamForWork(later, "AnnotateOrder", site, &to));
  const RaceExtension& race = internal::DeviceStreams::Of(to.device)->race;
  if (race.table == nullptr) return absl::OkStatus();
  return internal::FromPlugin(
      to.device, race.table->stream_order(race.self, from.handle, to.handle),
      "AnnotateOrder");
}

}  // namespace devrt::validate
