// SPDX-License-Identifier: Apache-2.0
//
// EngineOf and SetNcclLibrary of communicator.h.  They make no provider, so
// that the command devrt can have them without the rest of the library.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "collectives/nccl/library.h"
#include "collectives/provider.h"
#include "devrt/backends/abi/devrt_collectives.h"
#include "devrt/collectives/communicator.h"
#include "devrt/runtime/backend.h"
#include "devrt/runtime/status.h"
#include "runtime/registry/outside_calls.h"

namespace devrt::collectives {
namespace {

absl::StatusOr<ProviderInfo> OfExtension(Device device,
                                         const Extension& extension) {
  const auto* const table =
      static_cast<const devrt_collectives_v0*>(extension.table);
  devrt_collectives_info_v0 info{};
  info.struct_size = sizeof info;
  DEVRT_RETURN_IF_ERROR(devrt::internal::TakeOutsideError(
      device, table->info(extension.self, &info), "info"));
  const auto text = [](const char* t) { return t == nullptr ? "" : t; };
  return ProviderInfo{text(info.provider), text(info.text), text(info.path),
                      internal::FeaturesOf(table->flags)};
}

}  // namespace

std::vector<std::string> internal::FeaturesOf(uint32_t flags) {
  constexpr std::pair<uint32_t, const char*> kNames[] = {
      {DEVRT_COLLECTIVES_ABORT, "abort"},
      {DEVRT_COLLECTIVES_CAPTURE, "capture"},
      {DEVRT_COLLECTIVES_COMPARES, "compares"},
      {DEVRT_COLLECTIVES_KEEPS_ORDER, "keeps_order"},
      {DEVRT_COLLECTIVES_ORDERS_ITSELF, "orders_itself"},
      {DEVRT_COLLECTIVES_OWN_DEADLINES, "own_deadlines"},
      {DEVRT_COLLECTIVES_REGISTER, "register"},
      {DEVRT_COLLECTIVES_REVOKE, "revoke"},
      {DEVRT_COLLECTIVES_SHARED_DEVICE, "shared_device"},
      {DEVRT_COLLECTIVES_SHRINK, "shrink"},
      {DEVRT_COLLECTIVES_SPLIT, "split"},
      {DEVRT_COLLECTIVES_STREAM_ORDERED, "stream_ordered"},
  };
  std::vector<std::string> features;
  for (const auto& [flag, name] : kNames) {
    if ((flags & flag) != 0) features.emplace_back(name);
  }
  return features;
}

absl::StatusOr<ProviderInfo> EngineOf(Device device) {
  const Backend backend = device.backend();
  const absl::StatusOr<Extension> extension = backend.GetExtension(
      DEVRT_COLLECTIVES_EXTENSION, sizeof(devrt_collectives_v0));
  if (extension.ok()) return OfExtension(device, *extension);
  if (!absl::IsUnimplemented(extension.status())) return extension.status();
  for (const nccl::Flavor* flavor : {&nccl::kNccl, &nccl::kRccl}) {
    if (backend.name() != flavor->backend) continue;
    DEVRT_ASSIGN_OR_RETURN(const nccl::Library* const library,
                           nccl::OpenLibrary(*flavor));
    return ProviderInfo{flavor->provider, library->version_text, library->path,
                        internal::FeaturesOf(nccl::FlagsOf(*library))};
  }
  return absl::UnimplementedError(absl::StrCat(
      device.name(), " has no engine for collectives: backend ", backend.name(),
      " lacks the extension " DEVRT_COLLECTIVES_EXTENSION));
}

absl::Status SetNcclLibrary(std::string path) {
  return nccl::SetLibraryPath(nccl::kNccl, std::move(path));
}

}  // namespace devrt::collectives
