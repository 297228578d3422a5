// SPDX-License-Identifier: Apache-2.0
//
// Opens one plugin: the first moment at which its code runs.

#ifndef DEVRT_RUNTIME_INTERNAL_OPEN_H_
#define DEVRT_RUNTIME_INTERNAL_OPEN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/backends/abi/devrt_plugin.h"
#include "runtime/internal/records.h"
#include "runtime/loader/library_kind.h"

namespace devrt::internal {

// Inspects the shared library at `path`, loads it, never to be unloaded, and
// returns its open function.  `manifest` is what it said when it was found.
//   PERMISSION_DENIED    others than root and the user could have written it
//   FAILED_PRECONDITION  it changed
//   otherwise            as in elf_manifest.h and library.h
absl::StatusOr<void*> LoadLibrary(const std::string& path,
                                  const devrt_manifest_v0& manifest,
                                  const LibraryKind& kind);

// Runs code of `plugin` of which nothing is proven yet; the text of an error
// begins with `call`.
absl::Status CallPlugin(const std::string& plugin, const char* call,
                        absl::FunctionRef<devrt_status()> function);

// Calls `open`, checks what it gave, puts `layers` in front of it, the first
// one outermost, and makes the records.  Devices get dense indices from
// `first_index` on.
absl::StatusOr<BackendRecord*> OpenPlugin(
    const devrt_manifest_v0& manifest, const std::string& path,
    devrt_plugin_open_fn_v0 open, const std::vector<const Layer*>& layers,
    uint32_t first_index);

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_INTERNAL_OPEN_H_
