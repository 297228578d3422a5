// SPDX-License-Identifier: Apache-2.0
//
// FindProvider of provider.h.

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "collectives/host/host_table.h"
#include "collectives/nccl/nccl_provider.h"
#include "collectives/provider.h"
#include "devrt/runtime/backend.h"
#include "devrt/runtime/status.h"

namespace devrt::collectives::internal {

namespace {

// An engine that the library brings.
struct Engine {
  const char* backend;
  const char* name;
  absl::StatusOr<Provider> (*open)(const Backend& backend);
};
constexpr Engine kEngines[] = {{"cuda", "nccl", &OpenNccl},
                               {"hip", "rccl", &OpenRccl}};

}  // namespace

absl::StatusOr<Provider> FindProvider(Device device, std::string_view name) {
  const Backend backend = device.backend();
  const absl::StatusOr<Extension> extension = backend.GetExtension(
      DEVRT_COLLECTIVES_EXTENSION, sizeof(devrt_collectives_v0));
  if (!extension.ok() && !absl::IsUnimplemented(extension.status())) {
    return extension.status();
  }
  if (extension.ok() && (name.empty() || name == backend.name())) {
    return Provider{extension->self,
                    static_cast<const devrt_collectives_v0*>(extension->table),
                    /*is_of_backend=*/true};
  }
  const std::optional<Provider> host = FindHostProvider(backend, name);
  if (host.has_value()) return *host;
  std::string known = extension.ok() ? backend.name() : "";
  for (const Engine& engine : kEngines) {
    if (backend.name() != engine.backend) continue;
    if (name.empty() || name == engine.name) return engine.open(backend);
    absl::StrAppend(&known, known.empty() ? "" : ", ", engine.name);
  }
  if (name.empty()) {
    return absl::UnimplementedError(absl::StrCat(
        device.name(), " has no engine for collectives: backend ",
        backend.name(), " lacks the extension " DEVRT_COLLECTIVES_EXTENSION));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("Options::provider is \"", std::string(name), "\"; ",
                   device.name(), " has ", known.empty() ? "none" : known,
                   name == "mpi" ? "; MPI is one when the program, in C++, has "
                                   "called RegisterMpi of mpi_engine.h"
                                 : ""));
}

}  // namespace devrt::collectives::internal
