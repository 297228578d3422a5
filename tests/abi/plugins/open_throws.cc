// SPDX-License-Identifier: Apache-2.0
//
// Breaks the contract: an exception leaves open. A host in C++ can still catch
// it.

#include <stdexcept>

#include "devrt/backends/abi/devrt_plugin.h"

extern "C" const devrt_manifest_v0 devrt_plugin_manifest_v0 = {
    DEVRT_MANIFEST_MAGIC,
    sizeof(devrt_manifest_v0),
    DEVRT_ABI_MAJOR,
    DEVRT_ABI_MINOR,
    500,
    0,
    PLUGIN,
    "devrt tests",
    "1.0"};

extern "C" devrt_status devrt_plugin_open_v0(const devrt_host_v0*,
                                             devrt_backend_v0*) {
  throw std::runtime_error("thrown by open_throws");
}
