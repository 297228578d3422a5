// SPDX-License-Identifier: Apache-2.0
//
// Loads an inspected file through its open descriptor, since its path may name
// another file by now.

#ifndef DEVRT_RUNTIME_LOADER_LIBRARY_H_
#define DEVRT_RUNTIME_LOADER_LIBRARY_H_

#include <string>

#include "absl/status/statusor.h"
#include "runtime/loader/plugin_file.h"

namespace devrt::internal {

// Loads the libraries that `file` brings, then `file` itself, and returns
// dlopen's handle.  The libraries are never unloaded.  `file` is trusted and
// was opened with Purpose::kLoad.  dladdr, debuggers and backtraces show the
// real paths of the libraries.
//   FAILED_PRECONDITION  the file changed since it was opened, or /proc is not
//                        mounted
//   UNAVAILABLE          a library that `file` needs is not installed
//   otherwise            an error of a library in the bundle
absl::StatusOr<void*> LoadPluginFile(const PluginFile& file);

// For tests: called with the real path between inspection and loading.
using BeforeLoadHook = void (*)(const std::string& path);
void SetBeforeLoadHook(BeforeLoadHook hook);

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_LOADER_LIBRARY_H_
