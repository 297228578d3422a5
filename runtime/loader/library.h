// SPDX-License-Identifier: Apache-2.0
//
// Loads an inspected file: the open descriptor, not what its path means now.

#ifndef DEVRT_RUNTIME_INTERNAL_LIBRARY_H_
#define DEVRT_RUNTIME_INTERNAL_LIBRARY_H_

#include <string>

#include "absl/status/statusor.h"
#include "runtime/loader/plugin_file.h"

namespace devrt::internal {

// Loads the trusted plugin `file`, opened with Purpose::kLoad, and before it
// the libraries that it brings along, never to be unloaded; returns dlopen's
// handle.  To dladdr, debuggers and backtraces the libraries bear their real
// paths.
//   FAILED_PRECONDITION  changed since it was opened, or no /proc
//   UNAVAILABLE          a library that it needs is not installed
//   otherwise            what is wrong with the libraries that it brings
absl::StatusOr<void*> LoadPluginFile(const PluginFile& file);

// For tests: called between inspection and loading, with the real path.
using BeforeLoadHook = void (*)(const std::string& path);
void SetBeforeLoadHook(BeforeLoadHook hook);

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_INTERNAL_LIBRARY_H_
