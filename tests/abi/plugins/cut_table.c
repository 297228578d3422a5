/* SPDX-License-Identifier: Apache-2.0
 *
 * A table that ends within the required slots.
 */
#include "defect.h"

const devrt_manifest_v0 devrt_plugin_manifest_v0 = MANIFEST(0);

devrt_status devrt_plugin_open_v0(const devrt_host_v0* host,
                                  devrt_backend_v0* backend) {
  static devrt_ops_v0 ops;
  devrt_status status = good_open(host, backend);
  if (status != NULL) return status;
  ops = good_ops;
  ops.struct_size = offsetof(devrt_ops_v0, event_sync);
  backend->ops = &ops;
  return NULL;
}
