// SPDX-License-Identifier: Apache-2.0
//
// The folder of plugins that belongs to an installation, found from where the
// installation is, so that it can be moved.

#ifndef DEVRT_RUNTIME_INTERNAL_PLUGIN_DIRECTORY_H_
#define DEVRT_RUNTIME_INTERNAL_PLUGIN_DIRECTORY_H_

#include <string>

namespace devrt::internal {

// `file` is the one that devrt's code is in, `program` the running one, both
// absolute and without links.  The folder devrt/ beside `file`; where devrt is
// linked into the program and there is none, the folder that a program
// installed in bin/ would use.  Empty if `file` is.
std::string PluginDirectory(const std::string& file,
                            const std::string& program);

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_INTERNAL_PLUGIN_DIRECTORY_H_
