// SPDX-License-Identifier: Apache-2.0
#include "sim/fault_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "devrt/runtime/layer.h"
#include "devrt/runtime/status.h"
#include "devrt/sim/faults.h"
#include "runtime/registry/call_faults.h"
#include "runtime/registry/registry.h"

namespace devrt::sim {
namespace {

constexpr char kLayer[] = "faults";

FaultPoint ToPoint(const devrt_fault_point_v0& point) {
  FaultPoint copy;
  copy.call = point.call;
  copy.index = point.index;
  copy.file = point.file == nullptr ? "" : point.file;
  copy.line = point.line;
  copy.device = point.device;
  copy.forms = point.forms;
  return copy;
}

}  // namespace

absl::StatusOr<FaultTable> FaultTable::Find(Backend backend) {
  const absl::StatusOr<Extension> found = backend.GetExtension(
      DEVRT_FAULTS_EXTENSION, DEVRT_SIZE_THROUGH(devrt_faults_v0, live));
  if (!found.ok() || backend.device_count() == 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the layer faults is not in front of backend ", backend.name(),
        ": call devrt::sim::EnableFaults before the first use of devrt, or set "
        "DEVRT_LAYERS=faults"));
  }
  return FaultTable(backend, static_cast<const devrt_faults_v0*>(found->table),
                    found->self);
}

const std::vector<internal::DeviceRecord*>& FaultTable::devices() const {
  return internal::BackendRecord::Of(backend_)->devices;
}

absl::Status FaultTable::Checked(devrt_status status) const {
  return internal::FromPlugin(devices()[0], status, "faults");
}

absl::Status FaultTable::Set(std::string_view rules) const {
  DEVRT_RETURN_IF_ERROR(
      Checked(table_->set(self_, rules.data(), rules.size())));
  internal::ForgetLeftFaults(*internal::BackendRecord::Of(backend_));
  return absl::OkStatus();
}

absl::Status FaultTable::Record(bool on) const {
  return Checked(table_->record(self_, on ? 1 : 0));
}

absl::StatusOr<std::vector<FaultPoint>> FaultTable::Points() const {
  std::vector<FaultPoint> points;
  const auto add = [](void* arg, const devrt_fault_point_v0* point) {
    static_cast<std::vector<FaultPoint>*>(arg)->push_back(ToPoint(*point));
  };
  DEVRT_RETURN_IF_ERROR(Checked(table_->points(self_, add, &points)));
  return points;
}

absl::StatusOr<uint64_t> FaultTable::Fired() const {
  uint64_t count = 0;
  devrt_fault_point_v0 last = {};
  last.struct_size = sizeof last;
  DEVRT_RETURN_IF_ERROR(Checked(table_->fired(self_, &count, &last)));
  return count;
}

absl::StatusOr<std::vector<int64_t>> FaultTable::Live() const {
  devrt_fault_live_v0 live = {};
  live.struct_size = sizeof live;
  DEVRT_RETURN_IF_ERROR(Checked(table_->live(self_, &live)));
  std::vector<int64_t> counts;
  for (const uint64_t count :
       {live.streams, live.events, live.blocks, live.pinned, live.registered,
        live.flags, live.virtual_memory}) {
    counts.push_back(static_cast<int64_t>(count));
  }
  return counts;
}

absl::Status EnableFaults() {
  DEVRT_ASSIGN_OR_RETURN(std::vector<std::string> layers,
                         internal::LayerNames());
  if (std::find(layers.begin(), layers.end(), kLayer) != layers.end()) {
    return absl::OkStatus();
  }
  layers.emplace_back(kLayer);
  return SetLayers(layers);
}

absl::Status SetFaults(std::string_view rules, std::string_view backend) {
  DEVRT_ASSIGN_OR_RETURN(const Backend opened, GetBackend(backend));
  DEVRT_ASSIGN_OR_RETURN(const FaultTable table, FaultTable::Find(opened));
  return table.Set(rules);
}

}  // namespace devrt::sim
