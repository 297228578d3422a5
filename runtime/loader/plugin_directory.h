// SPDX-License-Identifier: Apache-2.0
//
// Finds the plugin folder of an installation relative to the running files, so
// that the installation can be moved.

#ifndef DEVRT_RUNTIME_LOADER_PLUGIN_DIRECTORY_H_
#define DEVRT_RUNTIME_LOADER_PLUGIN_DIRECTORY_H_

#include <string>

namespace devrt::internal {

// `file` is the file that contains devrt's code, `program` the running program;
// both paths are absolute, with links resolved.  The result is devrt/ beside
// `file`.  If devrt is linked into the program and that folder does not exist,
// the result is the folder for a program that is installed in bin/.  Empty if
// `file` is empty.
std::string PluginDirectory(const std::string& file,
                            const std::string& program);

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_LOADER_PLUGIN_DIRECTORY_H_
