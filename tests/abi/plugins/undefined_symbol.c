/* SPDX-License-Identifier: Apache-2.0
 *
 * Needs a function that no library has: only the dynamic linker finds out.
 */
#include "defect.h"

extern int acme_driver_initialise(void);

const devrt_manifest_v0 devrt_plugin_manifest_v0 = MANIFEST(0);

devrt_status devrt_plugin_open_v0(const devrt_host_v0* host,
                                  devrt_backend_v0* backend) {
  if (acme_driver_initialise() != 0) return NULL;
  return good_open(host, backend);
}
