/* SPDX-License-Identifier: Apache-2.0
 *
 * The manifest says that it ends before the name.
 */
#include "defect.h"

const devrt_manifest_v0 devrt_plugin_manifest_v0 = {
    DEVRT_MANIFEST_MAGIC,
    offsetof(devrt_manifest_v0, backend),
    DEVRT_ABI_MAJOR,
    DEVRT_ABI_MINOR,
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
