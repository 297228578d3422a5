// SPDX-License-Identifier: Apache-2.0
//
// Finds plugin files and reads their manifests, without running their code.

#ifndef DEVRT_RUNTIME_REGISTRY_DISCOVERY_H_
#define DEVRT_RUNTIME_REGISTRY_DISCOVERY_H_

#include <string>
#include <vector>

#include "devrt/backends/abi/devrt_plugin.h"
#include "devrt/runtime/backend.h"
#include "runtime/loader/library_kind.h"

namespace devrt::internal {

// The settings of the search; an empty text means that the variable is unset.
struct Environment {
  std::string plugins;            // DEVRT_PLUGINS
  std::string plugin_path;        // DEVRT_PLUGIN_PATH
  std::string backends;           // DEVRT_BACKENDS
  std::string layers;             // DEVRT_LAYERS
  std::string layer_path;         // DEVRT_LAYER_PATH
  std::string default_directory;  // devrt/ beside the library; may be empty
  // Variables that are set, but ignored because this program has more rights
  // than its user.
  std::vector<std::string> ignored;
};

// The settings of this process.
Environment ReadEnvironment();

// The result for one file or directory.
struct Finding {
  LoadAttempt attempt;    // kFound, kRefused, kShadowed, kSearched or kIgnored
  std::string canonical;  // symbolic links resolved; empty if refused
  devrt_manifest_v0 manifest{};
};

// Checks and inspects the file `path`; `source` says where the name comes from.
Finding Examine(const std::string& source, const std::string& path,
                const LibraryKind& kind = kPluginLibrary);

bool FileExists(const std::string& path);

// All findings of `environment`, in order.  Of several plugins with one name,
// the first is kFound and the others are kShadowed.
std::vector<Finding> Discover(const Environment& environment);

// Marks `later` as kShadowed by `earlier`, which has the same backend name or
// is the same file.
void MarkShadowed(const LoadAttempt& earlier, LoadAttempt* later);

inline constexpr char kSourcePlugins[] = "DEVRT_PLUGINS";
inline constexpr char kSourcePluginPath[] = "DEVRT_PLUGIN_PATH";
inline constexpr char kSourceLayers[] = "DEVRT_LAYERS";
inline constexpr char kSourceDefault[] = "default directory";
inline constexpr char kSourceLoad[] = "LoadBackend";
inline constexpr char kSourceRegister[] = "RegisterBackend";

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_REGISTRY_DISCOVERY_H_
