/* SPDX-License-Identifier: Apache-2.0
 *
 * Needs a library that lies beside it: its run path is $ORIGIN, as in a wheel.
 */
#include "defect.h"

extern int acme_answer(void);

const devrt_manifest_v0 devrt_plugin_manifest_v0 = MANIFEST(0);

devrt_status devrt_plugin_open_v0(const devrt_host_v0* host,
                                  devrt_backend_v0* backend) {
  const char text[] = "its library is another one";
  if (acme_answer() != 42) {
    return host->error_create(host->host, DEVRT_INTERNAL, 0, text,
                              sizeof text - 1);
  }
  return good_open(host, backend);
}
