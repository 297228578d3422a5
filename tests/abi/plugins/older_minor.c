/* SPDX-License-Identifier: Apache-2.0
 *
 * Legal: a plugin from an older minor version.  Its table ends before the last
 * slots, and the memory after it cannot be read: a host that copies more than
 * struct_size bytes crashes.
 */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include <sys/mman.h>
#include <unistd.h>

#include "defect.h"

const devrt_manifest_v0 devrt_plugin_manifest_v0 = MANIFEST(0);

devrt_status devrt_plugin_open_v0(const devrt_host_v0* host,
                                  devrt_backend_v0* backend) {
  const size_t size = offsetof(devrt_ops_v0, get_extension);
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  devrt_ops_v0 ops = good_ops;
  char* memory;
  devrt_status status = good_open(host, backend);
  if (status != NULL) return status;
  memory = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory + page, page, PROT_NONE) != 0) {
    status = fail(backend->self, DEVRT_RESOURCE_EXHAUSTED, "no pages");
    good_shutdown(backend->self);
    return status;
  }
  ops.struct_size = (uint32_t)size;
  memcpy(memory + page - size, &ops, size);
  backend->ops = (const devrt_ops_v0*)(void*)(memory + page - size);
  return NULL;
}
