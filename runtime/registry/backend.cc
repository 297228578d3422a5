// SPDX-License-Identifier: Apache-2.0
#include "devrt/runtime/backend.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "devrt/runtime/device.h"
#include "devrt/runtime/status.h"
#include "runtime/common/text.h"
#include "runtime/registry/load_report.h"
#include "runtime/registry/process_state.h"
#include "runtime/registry/records.h"
#include "runtime/registry/registry.h"

namespace devrt {

using internal::BackendRecord;

const std::string& Backend::name() const { return record_->name; }

std::string Backend::vendor() const { return record_->manifest.vendor; }

std::string Backend::version() const { return record_->manifest.version; }

const std::string& Backend::path() const { return record_->path; }

uint64_t Backend::capabilities() const { return record_->capabilities; }

std::vector<Device> Backend::devices() const {
  std::vector<Device> devices;
  for (internal::DeviceRecord* device : record_->devices) {
    devices.push_back(Device(device));
  }
  return devices;
}

int Backend::device_count() const {
  return static_cast<int>(record_->devices.size());
}

absl::StatusOr<Extension> Backend::GetExtension(const char* name,
                                                uint32_t minimum_size) const {
  if (!internal::IsProcessOpen()) return internal::ProcessClosedError();
  if (name == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("GetExtension of backend ",
                     internal::Quoted(record_->name), " needs a name"));
  }
  const Extension found = record_->chain->FindExtension(name);
  if (found.table == nullptr) {
    return absl::UnimplementedError(
        absl::StrCat("backend ", internal::Quoted(record_->name),
                     " has no extension ", internal::Quoted(name)));
  }
  uint32_t size = 0;
  std::memcpy(&size, found.table, sizeof size);
  if (size < minimum_size) {
    return absl::UnimplementedError(
        absl::StrCat("extension ", internal::Quoted(name), " of backend ",
                     internal::Quoted(record_->name), " is too old: it has ",
                     size, " bytes, needed are ", minimum_size));
  }
  return found;
}

absl::StatusOr<Backend> GetBackend(std::string_view name) {
  DEVRT_ASSIGN_OR_RETURN(BackendRecord * record,
                         internal::GetBackendRecord(name));
  return BackendRecord::Wrap(record);
}

std::vector<std::string> BackendNames() {
  return internal::FoundBackendNames();
}

absl::StatusOr<Backend> LoadBackend(std::string_view path) {
  DEVRT_ASSIGN_OR_RETURN(BackendRecord * record,
                         internal::LoadBackendRecord(std::string(path)));
  return BackendRecord::Wrap(record);
}

absl::Status RegisterBackend(const devrt_manifest_v0* manifest,
                             devrt_plugin_open_fn_v0 open) {
  return internal::RegisterBackendRecord(manifest, open);
}

const char* ToString(LoadAttempt::Result result) {
  switch (result) {
    case LoadAttempt::Result::kFound:
      return "found";
    case LoadAttempt::Result::kLoaded:
      return "loaded";
    case LoadAttempt::Result::kRefused:
      return "refused";
    case LoadAttempt::Result::kShadowed:
      return "shadowed";
    case LoadAttempt::Result::kExcluded:
      return "excluded";
    case LoadAttempt::Result::kSearched:
      return "searched";
    case LoadAttempt::Result::kIgnored:
      return "ignored";
  }
  return "unknown";
}

std::vector<LoadAttempt> LoadReport() { return internal::Attempts(); }

std::string LoadReportText() {
  return internal::FormatAttempts(internal::Attempts());
}

absl::Status Shutdown() {
  // The settle hooks destroy objects that finished host functions own, which
  // would otherwise keep devices in use.  They run code of the program, so no
  // lock of the registry may be held.
  const auto settle = [] {
    for (const BackendRecord* backend : internal::OpenedBackends()) {
      internal::RunSettleHooks(backend);
    }
  };
  if (internal::IsProcessOpen()) settle();
  absl::Status status = internal::ShutdownAll();
  if (status.ok()) settle();
  return status;
}

}  // namespace devrt
