// SPDX-License-Identifier: Apache-2.0
//
// The bundle of a plugin: the libraries that the plugin needs and that its run
// path finds, mostly beside it ($ORIGIN).  devrt loads a plugin through a
// descriptor, and there the dynamic linker cannot resolve $ORIGIN.  Therefore
// devrt finds these libraries itself, checks them like the plugin, and loads
// them first.
//
//   const Bundle bundle = FindBundle(file);
//   DEVRT_RETURN_IF_ERROR(bundle.status());
//   for (const PluginFile& library : bundle.libraries) Load(library);
//
// The dynamic linker finds all other libraries in the system's directories.  It
// still searches the run path, so devrt checks every directory of the run path,
// also an empty one: nobody else may be able to put a library there.

#ifndef DEVRT_RUNTIME_LOADER_BUNDLE_H_
#define DEVRT_RUNTIME_LOADER_BUNDLE_H_

#include <vector>

#include "absl/status/status.h"
#include "runtime/loader/plugin_file.h"

namespace devrt::internal {

struct Bundle {
  // In loading order: each library comes after the libraries that it needs.
  std::vector<PluginFile> libraries;

  // OK if the run paths have only absolute directories and $ORIGIN, and only
  // trusted users can put a library into a directory, or create a directory
  // that does not exist.
  absl::Status run_paths;
  // OK if each library is trusted, is a shared object for this machine, and has
  // a soname equal to the name by which it is needed.
  absl::Status trusted;

  absl::Status status() const {
    absl::Status first = run_paths;
    first.Update(trusted);
    return first;
  }
};

Bundle FindBundle(const PluginFile& plugin);

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_LOADER_BUNDLE_H_
