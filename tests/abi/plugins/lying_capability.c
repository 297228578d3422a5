/* SPDX-License-Identifier: Apache-2.0
 *
 * Promises host_func, whose slot is NULL.
 */
#include "defect.h"

const devrt_manifest_v0 devrt_plugin_manifest_v0 =
    MANIFEST(DEVRT_CAP_HOST_FUNC);

devrt_status devrt_plugin_open_v0(const devrt_host_v0* host,
                                  devrt_backend_v0* backend) {
  devrt_status status = good_open(host, backend);
  if (status == NULL) backend->capabilities = DEVRT_CAP_HOST_FUNC;
  return status;
}
