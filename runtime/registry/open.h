// SPDX-License-Identifier: Apache-2.0
//
// Opens one plugin.  The plugin's code runs here for the first time.

#ifndef DEVRT_RUNTIME_REGISTRY_OPEN_H_
#define DEVRT_RUNTIME_REGISTRY_OPEN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/backends/abi/devrt_plugin.h"
#include "runtime/loader/library_kind.h"
#include "runtime/registry/records.h"

namespace devrt::internal {

// Inspects the shared library at `path`, loads it for good, and returns its
// open function.  `manifest` is the manifest that discovery read.
//   PERMISSION_DENIED    users besides root and the user could have written it
//   FAILED_PRECONDITION  the file changed since discovery
//   otherwise            the errors of elf_manifest.h and library.h
absl::StatusOr<void*> LoadLibrary(const std::string& path,
                                  const devrt_manifest_v0& manifest,
                                  const LibraryKind& kind);

// Calls `function`, code of `plugin` that is not trusted to keep the contract.
// The text of an error begins with `call`.
absl::Status CallPlugin(const std::string& plugin, const char* call,
                        absl::FunctionRef<devrt_status()> function);

// Calls `open`, checks the table that it returns, puts `layers` in front of the
// backend, the first layer outermost, and makes the records.  Devices get
// indices from `first_index` on.
absl::StatusOr<BackendRecord*> OpenPlugin(
    const devrt_manifest_v0& manifest, const std::string& path,
    devrt_plugin_open_fn_v0 open, const std::vector<const Layer*>& layers,
    uint32_t first_index);

// Lets the backend schedule the threads of the program from now on, if it is a
// simulator (devrt/runtime/turns.h).  Called at the first use of a stream of
// the backend and at a reset.  A program that lists the devices of all backends
// opens the simulator as well, and does not mean to be scheduled.
void AttachTurns(const BackendRecord& backend);

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_REGISTRY_OPEN_H_
