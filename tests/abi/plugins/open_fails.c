/* SPDX-License-Identifier: Apache-2.0
 *
 * A machine without the accelerator: UNAVAILABLE with the reason.
 */
#include "defect.h"

const devrt_manifest_v0 devrt_plugin_manifest_v0 = MANIFEST(0);

devrt_status devrt_plugin_open_v0(const devrt_host_v0* host,
                                  devrt_backend_v0* backend) {
  static const char kText[] =
      "the driver libacme.so.1 is not installed on this machine";
  (void)backend;
  return host->error_create(host->host, DEVRT_UNAVAILABLE, 35, kText,
                            sizeof kText - 1);
}
