// SPDX-License-Identifier: Apache-2.0
//
// The libraries that a plugin brings along: those that it needs and that lie
// where its run path says, mostly beside it ($ORIGIN).  A plugin is loaded
// through a descriptor, for which the dynamic linker knows no $ORIGIN; so they
// are found here, judged like the plugin, and loaded before it.
//
//   const Bundle bundle = FindBundle(file);
//   DEVRT_RETURN_IF_ERROR(bundle.status());
//   for (const PluginFile& library : bundle.libraries) Load(library);
//
// What is not in a run path is left to the system.  Others must not be able to
// put anything there meanwhile, so every directory of a run path is judged,
// whether or not a library lies in it.

#ifndef DEVRT_RUNTIME_INTERNAL_BUNDLE_H_
#define DEVRT_RUNTIME_INTERNAL_BUNDLE_H_

#include <vector>

#include "absl/status/status.h"
#include "runtime/loader/plugin_file.h"

namespace devrt::internal {

struct Bundle {
  // In the order to load them: each after what it needs itself.
  std::vector<PluginFile> libraries;

  // Run paths have absolute directories and $ORIGIN only, and nobody else can
  // put a library there; of a directory that does not exist, nobody else can
  // make it.
  absl::Status run_paths;
  // Each library is trusted, is a shared object for this machine, and bears
  // the name by which it is needed.
  absl::Status trusted;

  absl::Status status() const {
    absl::Status first = run_paths;
    first.Update(trusted);
    return first;
  }
};

Bundle FindBundle(const PluginFile& plugin);

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_INTERNAL_BUNDLE_H_
