// SPDX-License-Identifier: Apache-2.0
//
// The kinds of shared libraries that devrt loads, and the names of their
// symbols.

#ifndef DEVRT_RUNTIME_LOADER_LIBRARY_KIND_H_
#define DEVRT_RUNTIME_LOADER_LIBRARY_KIND_H_

#include "devrt/backends/abi/devrt_layer.h"
#include "devrt/backends/abi/devrt_plugin.h"

namespace devrt::internal {

struct LibraryKind {
  const char* noun;  // "plugin"
  const char* magic;
  const char* manifest_prefix;  // the ABI major follows
  const char* manifest_symbol;
  const char* open_symbol;
};

inline constexpr LibraryKind kPluginLibrary = {
    "plugin", DEVRT_MANIFEST_MAGIC, "devrt_plugin_manifest_v",
    DEVRT_PLUGIN_MANIFEST_SYMBOL, DEVRT_PLUGIN_OPEN_SYMBOL};

inline constexpr LibraryKind kLayerLibrary = {
    "layer", DEVRT_LAYER_MANIFEST_MAGIC, "devrt_layer_manifest_v",
    DEVRT_LAYER_MANIFEST_SYMBOL, DEVRT_LAYER_OPEN_SYMBOL};

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_LOADER_LIBRARY_KIND_H_
