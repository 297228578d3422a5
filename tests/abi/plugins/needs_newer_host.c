/* SPDX-License-Identifier: Apache-2.0
 *
 * Cannot do with this host: FAILED_PRECONDITION, as the contract says.
 */
#include "defect.h"

const devrt_manifest_v0 devrt_plugin_manifest_v0 = MANIFEST(0);

devrt_status devrt_plugin_open_v0(const devrt_host_v0* host,
                                  devrt_backend_v0* backend) {
  static const char kText[] = "needs a devrt with ABI 0.99 or later";
  if (host->abi_minor < 99) {
    return host->error_create(host->host, DEVRT_FAILED_PRECONDITION, 0, kText,
                              sizeof kText - 1);
  }
  return good_open(host, backend);
}
