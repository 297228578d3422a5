/* SPDX-License-Identifier: Apache-2.0
 *
 * No manifest: any shared library with a function of that name.
 */
#include "defect.h"

devrt_status devrt_plugin_open_v0(const devrt_host_v0* host,
                                  devrt_backend_v0* backend) {
  return good_open(host, backend);
}
