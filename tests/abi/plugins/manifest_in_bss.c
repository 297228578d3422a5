/* SPDX-License-Identifier: Apache-2.0
 *
 * The manifest has no bytes in the file: it is filled when the plugin runs.
 */
#define devrt_plugin_manifest_v0 declared_manifest /* const in the header */
#include "defect.h"
#undef devrt_plugin_manifest_v0

extern DEVRT_PLUGIN_EXPORT devrt_manifest_v0 devrt_plugin_manifest_v0;
devrt_manifest_v0 devrt_plugin_manifest_v0;

__attribute__((constructor)) static void fill(void) {
  const devrt_manifest_v0 late = MANIFEST(0);
  devrt_plugin_manifest_v0 = late;
}

devrt_status devrt_plugin_open_v0(const devrt_host_v0* host,
                                  devrt_backend_v0* backend) {
  return good_open(host, backend);
}
