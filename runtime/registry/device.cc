// SPDX-License-Identifier: Apache-2.0
#include "devrt/runtime/device.h"

#include <charconv>
#include <cstring>
#include <ostream>
#include <tuple>
#include <vector>

#include "absl/base/optimization.h"
#include "absl/strings/str_cat.h"
#include "devrt/runtime/status.h"
#include "runtime/common/device_name.h"
#include "runtime/common/text.h"
#include "runtime/registry/load_report.h"
#include "runtime/registry/process_state.h"
#include "runtime/registry/records.h"

namespace devrt {
namespace {

using internal::BackendRecord;
using internal::ClosedError;
using internal::DeviceRecord;
using internal::FromPlugin;
using internal::HostFunctionError;
using internal::InHostFunction;
using internal::IsOpen;
using internal::IsProcessOpen;
using internal::ProcessClosedError;
using internal::RefusedCallError;

template <size_t kSize>
std::string FixedText(const char (&field)[kSize]) {
  return std::string(field, strnlen(field, kSize));
}

DeviceProperties ToProperties(const devrt_device_props_v0& p,
                              uint64_t capabilities) {
  DeviceProperties result;
  result.name = FixedText(p.name);
  result.arch = FixedText(p.arch);
  std::memcpy(result.uuid.data(), p.uuid, result.uuid.size());
  result.pci_domain = p.pci_domain;
  result.pci_bus = p.pci_bus;
  result.pci_device = p.pci_device;
  result.compute_major = p.compute_major;
  result.compute_minor = p.compute_minor;
  result.multiprocessors = p.multiprocessors;
  result.total_memory = p.total_memory;
  result.overhead_bytes = p.overhead_bytes;
  result.alloc_alignment = p.alloc_alignment;
  result.copy_engines = p.copy_engines;
  result.priority_least = p.priority_least;
  result.priority_greatest = p.priority_greatest;
  result.queue_depth = p.queue_depth;
  result.elapsed_resolution_ns = p.elapsed_resolution_ns;
  result.pageable_async = p.pageable_async;
  result.raw_free_syncs = p.raw_free_syncs != 0;
  result.fault_delivery = p.fault_delivery;
  result.fault_scope = p.fault_scope;
  result.device_reset = p.device_reset != 0;
  result.capabilities = capabilities;
  return result;
}

auto Tied(const DeviceProperties& p) {
  return std::tie(p.name, p.arch, p.uuid, p.pci_domain, p.pci_bus, p.pci_device,
                  p.compute_major, p.compute_minor, p.multiprocessors,
                  p.total_memory, p.overhead_bytes, p.alloc_alignment,
                  p.copy_engines, p.priority_least, p.priority_greatest,
                  p.queue_depth, p.elapsed_resolution_ns, p.pageable_async,
                  p.raw_free_syncs, p.fault_delivery, p.fault_scope,
                  p.device_reset, p.capabilities);
}

absl::StatusOr<Device> DeviceAt(Backend backend, std::string_view digits) {
  const std::vector<DeviceRecord*>& devices =
      BackendRecord::Of(backend)->devices;
  size_t index = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), index);
  if (error != std::errc() || end != digits.data() + digits.size() ||
      index >= devices.size()) {
    return internal::IndexOutOfRange(digits, backend.name(),
                                     backend.device_count());
  }
  return Device(devices[index]);
}

// True for "bool", "float32", "bfloat16", "float8_e4m3fn" and the like.
bool NamesDtype(std::string_view text) {
  if (text == "bool") return true;
  const std::string_view kind =
      text.substr(0, text.find_first_of("0123456789"));
  return kind != text && (kind == "bfloat" || kind == "complex" ||
                          kind == "float" || kind == "int" || kind == "uint");
}

// The error for a device string without ':', whose backend is not there.  A
// digit at its end may mean that the user forgot ':', as in "cuda0".
absl::Status UnknownBackend(std::string_view text, const absl::Status& why) {
  if (!absl::IsNotFound(why)) return why;
  if (NamesDtype(text)) {
    return internal::InvalidDeviceString(text, "; this is the name of a dtype");
  }
  const size_t letters = text.find_last_not_of("0123456789") + 1;
  if (letters == text.size()) return why;
  const std::string name(text.substr(0, letters));
  const std::string nearest = internal::NearestBackend(name, BackendNames());
  return internal::InvalidDeviceString(
      text, absl::StrCat("; did you mean '", nearest.empty() ? name : nearest,
                         ":", internal::ToAbsl(text.substr(letters)), "'?"));
}

}  // namespace

bool operator==(const DeviceProperties& a, const DeviceProperties& b) {
  return Tied(a) == Tied(b);
}

std::string DeviceProperties::uuid_string() const {
  std::string text;
  for (size_t i = 0; i < uuid.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    absl::StrAppend(&text, absl::Hex(uuid[i], absl::kZeroPad2));
  }
  return text;
}

Backend Device::backend() const {
  return BackendRecord::Wrap(record()->backend);
}

int Device::index() const { return static_cast<int>(record()->ordinal); }

std::string Device::name() const { return internal::DeviceName(record()); }

bool operator<(Device a, Device b) { return a.gate_->index < b.gate_->index; }

std::ostream& operator<<(std::ostream& os, Device device) {
  return os << device.name();
}

absl::StatusOr<DeviceProperties> Device::Properties() const {
  // A quarantined device answers too (docs/reference/semantics.md 2.4).
  if (!IsProcessOpen()) return ProcessClosedError();
  {
    MutexLock lock(&record()->mutex);
    if (record()->has_properties) return record()->properties;
  }
  devrt_device_props_v0 props = {};
  props.struct_size = sizeof props;
  DEVRT_RETURN_IF_ERROR(FromPlugin(
      record(),
      record()->ops->device_props(record()->self, record()->ordinal, &props),
      "device properties"));
  MutexLock lock(&record()->mutex);
  record()->properties = ToProperties(props, record()->backend->capabilities);
  record()->has_properties = true;
  return record()->properties;
}

absl::StatusOr<MemoryInfo> Device::GetMemoryInfo() const {
  if (InHostFunction()) return HostFunctionError("memory info");
  if (!IsOpen(record())) return RefusedCallError(record(), "memory info");
  MemoryInfo info;
  DEVRT_RETURN_IF_ERROR(
      FromPlugin(record(),
                 record()->ops->mem_info(record()->self, record()->ordinal,
                                         &info.free_bytes, &info.total_bytes),
                 "memory info"));
  return info;
}

absl::Status Device::Synchronize(CallSite site) const {
  if (InHostFunction()) return HostFunctionError("device synchronize");
  if (!IsOpen(record()))
    return RefusedCallError(record(), "device synchronize");
  absl::Status status;
  {
    const internal::CallSiteScope noted(site);
    status = internal::RunSynchronizeHook(record(), [this] {
      return FromPlugin(
          record(),
          record()->ops->device_sync(record()->self, record()->ordinal),
          "device synchronize");
    });
  }
  internal::RunSettleHook(record());
  return status;
}

absl::Status Device::Health() const {
  return IsOpen(record()) ? absl::OkStatus() : ClosedError(record());
}

absl::StatusOr<Device> GetDevice(std::string_view name) {
  if (!IsProcessOpen()) return ProcessClosedError();
  DEVRT_ASSIGN_OR_RETURN(internal::ParsedDeviceName parsed,
                         internal::ParseDeviceName(name));
  absl::StatusOr<Backend> backend = GetBackend(parsed.backend);
  if (!backend.ok()) {
    return parsed.index.has_value() ? backend.status()
                                    : UnknownBackend(name, backend.status());
  }
  if (!parsed.index.has_value()) return CurrentDevice(*backend);
  return DeviceAt(*backend, *parsed.index);
}

absl::StatusOr<Device> GetDevice(std::string_view backend, int64_t index) {
  DEVRT_ASSIGN_OR_RETURN(Backend found, GetBackend(backend));
  return DeviceAt(found, absl::StrCat(index));
}

absl::StatusOr<std::vector<Device>> Devices(std::string_view backend) {
  DEVRT_ASSIGN_OR_RETURN(Backend found, GetBackend(backend));
  return found.devices();
}

std::vector<Device> AllDevices() {
  std::vector<Device> all;
  for (const std::string& name : BackendNames()) {
    absl::StatusOr<Backend> backend = GetBackend(name);
    if (!backend.ok()) continue;
    for (Device device : backend->devices()) all.push_back(device);
  }
  return all;
}

absl::StatusOr<Device> CurrentDevice(std::string_view backend) {
  DEVRT_ASSIGN_OR_RETURN(Backend found, GetBackend(backend));
  return CurrentDevice(found);
}

namespace {

[[gnu::cold, gnu::noinline]] absl::Status NoDevicesError(Backend backend) {
  return absl::UnavailableError(
      absl::StrCat("backend \"", backend.name(), "\" has no devices"));
}

[[gnu::cold, gnu::noinline]] absl::Status NoSuchCurrentError(Backend backend,
                                                             uint32_t ordinal) {
  return absl::InternalError(
      absl::StrCat("backend \"", backend.name(), "\" says that device ",
                   ordinal, " is current, but it has ",
                   internal::Counted(backend.device_count(), "device")));
}

}  // namespace

absl::StatusOr<Device> CurrentDevice(Backend backend) {
  // A quarantined device answers too (docs/reference/semantics.md 2.4).
  if (ABSL_PREDICT_FALSE(!IsProcessOpen())) return ProcessClosedError();
  const BackendRecord* const record = BackendRecord::Of(backend);
  if (ABSL_PREDICT_FALSE(record->devices.empty())) {
    return NoDevicesError(backend);
  }
  uint32_t ordinal = 0;
  if (devrt_status error =
          record->ops.context_current(record->self, &ordinal)) {
    return internal::TakeError(record->devices[0], error, "current device");
  }
  if (ABSL_PREDICT_FALSE(ordinal >= record->devices.size())) {
    return NoSuchCurrentError(backend, ordinal);
  }
  return Device(record->devices[ordinal]);
}

absl::Status SetCurrentDevice(Device device) {
  DeviceRecord* record = device.record();
  if (InHostFunction()) return HostFunctionError("set current device");
  if (!IsOpen(record)) return RefusedCallError(record, "set current device");
  return FromPlugin(
      record,
      record->ops->context_enter(record->self, record->ordinal, nullptr),
      "set current device");
}

}  // namespace devrt
