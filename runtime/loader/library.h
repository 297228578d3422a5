// SPDX-License-Identifier: Apache-2.0
//
// Loads an inspected file through its open descriptor, since its path may name
// another file by now.

#ifndef DEVRT_RUNTIME_LOADER_LIBRARY_H_
#define DEVRT_RUNTIME_LOADER_LIBRARY_H_

#include <string>

#include "absl/status/statusor.h"
#include "devrt/runtime/export.h"
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

// Loads a library of a vendor that the user named by its absolute path, with
// the checks of OpenLibraryFile.  Returns dlopen's handle; the library is never
// unloaded.
//   INVALID_ARGUMENT, NOT_FOUND, PERMISSION_DENIED   the file, or its path
//   otherwise                                        as LoadPluginFile
DEVRT_EXPORT absl::StatusOr<void*> LoadLibraryFile(const std::string& path);

// For tests: called with the real path between inspection and loading.
using BeforeLoadHook = void (*)(const std::string& path);
void SetBeforeLoadHook(BeforeLoadHook hook);

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_LOADER_LIBRARY_H_
