/* SPDX-License-Identifier: Apache-2.0
 *
 * A manifest, but nothing to call.
 */
#include "defect.h"

const devrt_manifest_v0 devrt_plugin_manifest_v0 = MANIFEST(0);
