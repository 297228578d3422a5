/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies and fills, which are work of a stream.  Here they are done at once.
 */
#include <string.h>

#include "backend.h"

/* `kind` tells which of the two lies on the device: DEVRT_COPY_*. */
devrt_status mybackend_copy_async(void* self, devrt_stream stream, void* dst,
                                  const void* src, uint64_t size,
                                  uint32_t kind) {
  (void)self;
  (void)stream;
  (void)kind;
  memcpy(dst, src, size);
  return NULL;
}

devrt_status mybackend_fill_async(void* self, devrt_stream stream, void* dst,
                                  uint32_t value, uint64_t size) {
  (void)self;
  (void)stream;
  memset(dst, (int)(value & 0xff), size);
  return NULL;
}
