/* SPDX-License-Identifier: Apache-2.0
 *
 * Claims a capability that its manifest does not list.
 */
#include "defect.h"

const devrt_manifest_v0 devrt_plugin_manifest_v0 = MANIFEST(0);

devrt_status devrt_plugin_open_v0(const devrt_host_v0* host,
                                  devrt_backend_v0* backend) {
  devrt_status status = good_open(host, backend);
  if (status == NULL) backend->capabilities = DEVRT_CAP_STREAM_PRIORITY;
  return status;
}
