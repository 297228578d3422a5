/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens, and has no device: legal, if of little use.
 */
#include "defect.h"

const devrt_manifest_v0 devrt_plugin_manifest_v0 = MANIFEST(0);

static devrt_status none(void* self, uint32_t* count) {
  (void)self;
  *count = 0;
  return NULL;
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
