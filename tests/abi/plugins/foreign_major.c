/* SPDX-License-Identifier: Apache-2.0
 *
 * A plugin for ABI major version 9, which does not exist: its symbols have\n *
 * other names.
 */
#include "defect.h"

extern DEVRT_PLUGIN_EXPORT const devrt_manifest_v0 devrt_plugin_manifest_v9;
const devrt_manifest_v0 devrt_plugin_manifest_v9 = {
    DEVRT_MANIFEST_MAGIC,
    sizeof(devrt_manifest_v0),
    9,
    0,
    500,
    0,
    PLUGIN,
    "devrt tests",
    "9.0",
};

DEVRT_PLUGIN_EXPORT devrt_status
devrt_plugin_open_v9(const devrt_host_v0* host, devrt_backend_v0* backend);
devrt_status devrt_plugin_open_v9(const devrt_host_v0* host,
                                  devrt_backend_v0* backend) {
  return good_open(host, backend);
}
