/* SPDX-License-Identifier: Apache-2.0
 *
 * The symbols of version 0, but the manifest says major version 9.
 */
#include "defect.h"

const devrt_manifest_v0 devrt_plugin_manifest_v0 = {
    DEVRT_MANIFEST_MAGIC,
    sizeof(devrt_manifest_v0),
    9,
    0,
    500,
    0,
    PLUGIN,
    "devrt tests",
    "1.0",
};

devrt_status devrt_plugin_open_v0(const devrt_host_v0* host,
                                  devrt_backend_v0* backend) {
  return good_open(host, backend);
}
