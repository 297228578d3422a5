/* SPDX-License-Identifier: Apache-2.0
 *
 * open succeeds and fills nothing.
 */
#include "defect.h"

const devrt_manifest_v0 devrt_plugin_manifest_v0 = MANIFEST(0);

devrt_status devrt_plugin_open_v0(const devrt_host_v0* host,
                                  devrt_backend_v0* backend) {
  (void)host;
  (void)backend;
  return NULL;
}
