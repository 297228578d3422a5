/* SPDX-License-Identifier: Apache-2.0
 *
 * The driver is there, an accelerator is not: device_count says UNAVAILABLE.
 */
#include "defect.h"

const devrt_manifest_v0 devrt_plugin_manifest_v0 = MANIFEST(0);

static devrt_status none(void* self, uint32_t* count) {
  (void)count;
  return fail(self, DEVRT_UNAVAILABLE, "no accelerator is plugged in");
}

devrt_status devrt_plugin_open_v0(const devrt_host_v0* host,
                                  devrt_backend_v0* backend) {
  static devrt_ops_v0 ops;
  devrt_status status = good_open(host, backend);
  if (status != NULL) return status;
  ops = good_ops;
  ops.device_count = none;
  backend->ops = &ops;
  return NULL;
}
