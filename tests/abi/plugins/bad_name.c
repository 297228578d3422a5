/* SPDX-License-Identifier: Apache-2.0
 *
 * The backend's name is not [a-z][a-z0-9_]*: in a device string it would be\n *
 * taken for something else.
 */
#include "defect.h"

const devrt_manifest_v0 devrt_plugin_manifest_v0 = {
    DEVRT_MANIFEST_MAGIC,
    sizeof(devrt_manifest_v0),
    0,
    0,
    500,
    0,
    "Bad:0",
    "devrt tests",
    "1.0",
};

devrt_status devrt_plugin_open_v0(const devrt_host_v0* host,
                                  devrt_backend_v0* backend) {
  return good_open(host, backend);
}
