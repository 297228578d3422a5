/* SPDX-License-Identifier: Apache-2.0
 *
 * Legal: a plugin from minor version 7.  Manifest and table are longer, and it
 * promises something that this host has never heard of.
 */
#include "defect.h"

#define NEWER_MINOR 7u
#define NEWER_CAPABILITY (UINT64_C(1) << 40)

/* The manifest of minor version 7, under the name that version 0 declares. */
struct manifest {
  devrt_manifest_v0 known;
  char homepage[64];
  uint64_t more_capabilities;
};
extern DEVRT_PLUGIN_EXPORT const struct manifest newer_manifest __asm__(
    DEVRT_PLUGIN_MANIFEST_SYMBOL);
const struct manifest newer_manifest = {
    {
        DEVRT_MANIFEST_MAGIC,
        sizeof(struct manifest),
        DEVRT_ABI_MAJOR,
        NEWER_MINOR,
        500,
        NEWER_CAPABILITY,
        PLUGIN,
        "devrt tests",
        "7.0",
    },
    "https://example.com",
    ~UINT64_C(0),
};

/* The table of minor version 7. */
struct ops {
  devrt_ops_v0 known;
  devrt_status (*later[3])(void* self, uint64_t argument);
};

static devrt_status later(void* self, uint64_t argument) {
  (void)argument;
  return fail(self, DEVRT_INTERNAL, "this host cannot know this slot");
}

devrt_status devrt_plugin_open_v0(const devrt_host_v0* host,
                                  devrt_backend_v0* backend) {
  static struct ops ops;
  devrt_status status = good_open(host, backend);
  if (status != NULL) return status;
  ops.known = good_ops;
  ops.known.struct_size = sizeof ops;
  ops.known.abi_minor = NEWER_MINOR;
  ops.later[0] = ops.later[1] = ops.later[2] = later;
  backend->ops = &ops.known;
  backend->capabilities = NEWER_CAPABILITY;
  return NULL;
}
