// SPDX-License-Identifier: Apache-2.0
//
// Layers: interposers between the program and its backends.
//
//   DEVRT_RETURN_IF_ERROR(devrt::SetLayers({"trace"}));
//   DEVRT_ASSIGN_OR_RETURN(devrt::Device d, devrt::GetDevice("mtia:0"));
//   ... every call on d's backend now passes the layer
//
// A layer sees the calls of every backend that is opened after the layer was
// chosen.  It can trace calls, count them, check them or make them fail.  The
// first of several layers is the outermost: it sees a call first and the result
// last.  Without layers a call goes straight to the backend, at no cost.
//
// DEVRT_LAYERS="trace,acme" chooses layers without a change of the program; a
// call of SetLayers overrides it.  A name is a layer that is linked in
// (RegisterLayer), or the file libdevrt_layer_NAME.so in a directory of
// DEVRT_LAYER_PATH or in devrt/layers/ beside the library.  An absolute path is
// that file.  The rules for the files of plugins hold for layers too, and
// LoadReport() has an entry for each attempt.
//
// If a chosen layer cannot be loaded, no backend opens, and each attempt
// returns the reason: devrt never runs without a layer that was asked for.
//
// What it is not: a way to change a program's results.  How to write a layer:
// backends/abi/devrt_layer.h, or devrt_layer_helper.h in C++.
//
// Threads: every function may be called from any thread.

#ifndef DEVRT_RUNTIME_REGISTRY_LAYER_H_
#define DEVRT_RUNTIME_REGISTRY_LAYER_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "devrt/backends/abi/devrt_layer.h"
#include "devrt/runtime/export.h"

namespace devrt {

// Chooses the layers of all backends that are opened later, and overrides
// DEVRT_LAYERS.  `names` has names or absolute paths, the outermost first.
//   FAILED_PRECONDITION  a backend is open already; shut down; forked child
//   INVALID_ARGUMENT     a name occurs twice, or is not valid as a name
//   NOT_FOUND            no such layer; lists the known layers and the places
//                        searched
//   otherwise            why the file could not be loaded
// An error leaves the choice unchanged.
DEVRT_EXPORT absl::Status SetLayers(const std::vector<std::string>& names);

// The names of the chosen layers, the outermost first.  Empty if DEVRT_LAYERS
// has a mistake.
DEVRT_EXPORT std::vector<std::string> Layers();

// Registers a layer that is linked into the program.
//   INVALID_ARGUMENT  null, or a manifest with a mistake
//   ALREADY_EXISTS    a layer with this name is linked in already
DEVRT_EXPORT absl::Status RegisterLayer(const devrt_manifest_v0* manifest,
                                        devrt_layer_open_fn_v0 open);

}  // namespace devrt

#endif  // DEVRT_RUNTIME_REGISTRY_LAYER_H_
