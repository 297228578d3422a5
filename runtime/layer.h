// SPDX-License-Identifier: Apache-2.0
//
// Layers: what stands between programs and backends.
//
//   DEVRT_RETURN_IF_ERROR(devrt::SetLayers({"trace"}));
//   DEVRT_ASSIGN_OR_RETURN(devrt::Device d, devrt::GetDevice("mtia:0"));
//   ... every call on d's backend now passes the layer
//
// A layer sees the calls of every backend that is opened after it was chosen:
// it traces, counts, checks or makes them fail.  The first of several is the
// outermost: it sees a call first and its result last.  Where none is chosen,
// none costs anything.
//
// DEVRT_LAYERS="trace,acme" chooses without a word in the program, unless the
// program calls SetLayers.  A name stands for a layer that is linked in
// (RegisterLayer), or for the file libdevrt_layer_NAME.so in one of the
// directories of DEVRT_LAYER_PATH or in devrt/layers/ beside the library; an
// absolute path stands for that file.  The rules for files are those for
// plugins, and each attempt is in LoadReport().
//
// A layer that was asked for and cannot be had is no layer to do without: every
// backend then answers why.
//
// What it is not: a way to change a program's results.  How to write one:
// backends/abi/devrt_layer.h, or devrt_layer_helper.h in C++.
//
// Threads: every function may be called from any thread.

#ifndef DEVRT_RUNTIME_LAYER_H_
#define DEVRT_RUNTIME_LAYER_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "devrt/backends/abi/devrt_layer.h"
#include "devrt/runtime/export.h"

namespace devrt {

// Chooses the layers of all backends opened from now on, instead of
// DEVRT_LAYERS; names or absolute paths, the outermost first.
//   FAILED_PRECONDITION  a backend is open already; shut down; forked child
//   INVALID_ARGUMENT     a name twice, or one that is none
//   NOT_FOUND            no such layer: what there is, and what was searched
//   otherwise            why that file could not be loaded
// After an error the choice is as before.
DEVRT_EXPORT absl::Status SetLayers(const std::vector<std::string>& names);

// The names of the chosen layers, the outermost first; empty also where
// DEVRT_LAYERS cannot be followed.
DEVRT_EXPORT std::vector<std::string> Layers();

// Makes a layer known that is linked into the program.
//   INVALID_ARGUMENT  null, or a manifest with a mistake
//   ALREADY_EXISTS    a layer of that name is linked in already
DEVRT_EXPORT absl::Status RegisterLayer(const devrt_manifest_v0* manifest,
                                        devrt_layer_open_fn_v0 open);

}  // namespace devrt

#endif  // DEVRT_RUNTIME_LAYER_H_
