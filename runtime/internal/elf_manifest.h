// SPDX-License-Identifier: Apache-2.0
//
// Reads a plugin's manifest from its file, without running any of its code.

#ifndef DEVRT_RUNTIME_INTERNAL_ELF_MANIFEST_H_
#define DEVRT_RUNTIME_INTERNAL_ELF_MANIFEST_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/backends/abi/devrt_plugin.h"
#include "devrt/runtime/internal/library_kind.h"

namespace devrt::internal {

// The manifest of the plugin at `path`, checked.  Texts begin with the path.
//   NOT_FOUND            no such file
//   PERMISSION_DENIED    not readable
//   FAILED_PRECONDITION  a plugin of another ABI major
//   INVALID_ARGUMENT     anything else that is not a usable plugin
absl::StatusOr<devrt_manifest_v0> ReadManifest(
    const std::string& path, const LibraryKind& kind = kPluginLibrary);

// The same for an open file; texts begin with `name`.
absl::StatusOr<devrt_manifest_v0> ReadManifestFrom(
    int fd, const std::string& name, const LibraryKind& kind = kPluginLibrary);

// OK for a manifest that this devrt can use; also for linked-in ones.
absl::Status CheckManifest(const devrt_manifest_v0& manifest,
                           const LibraryKind& kind = kPluginLibrary);

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_INTERNAL_ELF_MANIFEST_H_
