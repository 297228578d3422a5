// SPDX-License-Identifier: Apache-2.0
//
// Finds plugin files and reads their manifests.  Runs none of their code.

#ifndef DEVRT_RUNTIME_INTERNAL_DISCOVERY_H_
#define DEVRT_RUNTIME_INTERNAL_DISCOVERY_H_

#include <string>
#include <vector>

#include "devrt/backends/abi/devrt_plugin.h"
#include "devrt/runtime/backend.h"
#include "runtime/loader/library_kind.h"

namespace devrt::internal {

// Where to look; an empty text is as good as an unset variable.
struct Environment {
  std::string plugins;            // DEVRT_PLUGINS
  std::string plugin_path;        // DEVRT_PLUGIN_PATH
  std::string backends;           // DEVRT_BACKENDS
  std::string layers;             // DEVRT_LAYERS
  std::string layer_path;         // DEVRT_LAYER_PATH
  std::string default_directory;  // devrt/ beside the library; may be empty
  // Variables that are set, but that this program must not heed: it has more
  // rights than its user.
  std::vector<std::string> ignored;
};

// As this process was started.
Environment ReadEnvironment();

// One file that was looked at, or a directory.
struct Finding {
  LoadAttempt attempt;    // kFound, kRefused, kShadowed, kSearched or kIgnored
  std::string canonical;  // without links; empty if refused
  devrt_manifest_v0 manifest{};
};

// Judges and inspects `path`, which the user or a directory named.
Finding Examine(const std::string& source, const std::string& path,
                const LibraryKind& kind = kPluginLibrary);

bool FileExists(const std::string& path);

// All findings of `environment`, in order; of several plugins of one name the
// first is kFound, the others are kShadowed.
std::vector<Finding> Discover(const Environment& environment);

// `later` lost to `earlier`, which has the same backend name or is the same
// file.
void MarkShadowed(const LoadAttempt& earlier, LoadAttempt* later);

inline constexpr char kSourcePlugins[] = "DEVRT_PLUGINS";
inline constexpr char kSourcePluginPath[] = "DEVRT_PLUGIN_PATH";
inline constexpr char kSourceLayers[] = "DEVRT_LAYERS";
inline constexpr char kSourceDefault[] = "default directory";
inline constexpr char kSourceLoad[] = "LoadBackend";
inline constexpr char kSourceRegister[] = "RegisterBackend";

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_INTERNAL_DISCOVERY_H_
