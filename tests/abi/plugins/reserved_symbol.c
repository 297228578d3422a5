/* SPDX-License-Identifier: Apache-2.0
 *
 * Exports a function of its own under a name like those of compilers.
 */
#include "defect.h"

extern int __acme_debug(void);

const devrt_manifest_v0 devrt_plugin_manifest_v0 = MANIFEST(0);

DEVRT_PLUGIN_EXPORT int __acme_debug(void) { return 1; }

devrt_status devrt_plugin_open_v0(const devrt_host_v0* host,
                                  devrt_backend_v0* backend) {
  return good_open(host, backend);
}
