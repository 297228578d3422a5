/* SPDX-License-Identifier: Apache-2.0
 *
 * Exports what compilers and linkers add where no version script hides it:
 * coverage, profiles, sanitizers, the bounds of a section.
 */
#include "defect.h"

extern int __gcov_master, __llvm_profile_filename, __start___sancov_cntrs,
    __stop___sancov_cntrs, __odr_asan_gen_acme, __sanitizer_acme;

const devrt_manifest_v0 devrt_plugin_manifest_v0 = MANIFEST(0);

DEVRT_PLUGIN_EXPORT int __gcov_master = 1;
DEVRT_PLUGIN_EXPORT int __llvm_profile_filename = 1;
DEVRT_PLUGIN_EXPORT int __start___sancov_cntrs = 1;
DEVRT_PLUGIN_EXPORT int __stop___sancov_cntrs = 1;
DEVRT_PLUGIN_EXPORT int __odr_asan_gen_acme = 1;
DEVRT_PLUGIN_EXPORT int __sanitizer_acme = 1;

devrt_status devrt_plugin_open_v0(const devrt_host_v0* host,
                                  devrt_backend_v0* backend) {
  return good_open(host, backend);
}
