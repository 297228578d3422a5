// SPDX-License-Identifier: Apache-2.0
//
// The registry of all backends of the process: found ones, open ones, and the
// report of every attempt.

#ifndef DEVRT_RUNTIME_REGISTRY_REGISTRY_H_
#define DEVRT_RUNTIME_REGISTRY_REGISTRY_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/registry/records.h"

namespace devrt::internal {

// Implementations of the functions of backend.h with similar names.
absl::StatusOr<BackendRecord*> GetBackendRecord(std::string_view name);
absl::StatusOr<BackendRecord*> LoadBackendRecord(const std::string& path);
absl::Status RegisterBackendRecord(const devrt_manifest_v0* manifest,
                                   devrt_plugin_open_fn_v0 open);
std::vector<std::string> FoundBackendNames();
std::vector<LoadAttempt> Attempts();
absl::Status ShutdownAll();

// Implementations of the functions of layer.h.
absl::Status SetLayerNames(const std::vector<std::string>& names);
// An error if DEVRT_LAYERS has a mistake.
absl::StatusOr<std::vector<std::string>> LayerNames();
absl::Status RegisterLayerRecord(const devrt_manifest_v0* manifest,
                                 devrt_layer_open_fn_v0 open);

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_REGISTRY_REGISTRY_H_
