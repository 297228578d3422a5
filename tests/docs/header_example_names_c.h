/* SPDX-License-Identifier: Apache-2.0
 *
 * Names that the C examples of public headers use and do not declare.
 */

#ifndef DEVRT_TESTS_DOCS_HEADER_EXAMPLE_NAMES_C_H_
#define DEVRT_TESTS_DOCS_HEADER_EXAMPLE_NAMES_C_H_

#include <stdio.h>
#include <stdlib.h>

#include "devrt/arrays/devrt_exchange.h"
#include "devrt/backends/abi/devrt_collectives.h"
#include "devrt/backends/abi/devrt_layer.h"
#include "devrt/backends/abi/devrt_plugin.h"
#include "devrt/backends/abi/devrt_virtual_memory.h"
#include "devrt/memory/devrt_memory.h"

/* Memory and arrays. */
extern void *x, *stream, *other;
extern struct DLManagedTensorVersioned* tensor;
void fail(const char* text);

/* Parts of a plugin and of a layer. */
struct counter {
  const devrt_next_v0* next;
  unsigned allocs;
};
extern void* self;
extern struct { int unused; } my_state;
void my_shutdown(void* self);
devrt_status my_device_count(void* self, uint32_t* count);

/* The extension devrt.virtual_memory/0. */
extern const devrt_virtual_memory_v0* vm;
extern devrt_virtual_memory_info_v0 info;
extern devrt_chunk chunk;

/* The extension devrt.collectives/0. */
extern const devrt_collectives_v0* c;
extern unsigned char id[DEVRT_COLLECTIVES_MAX_ID];
extern uint32_t device, rank, state;
extern devrt_comm comm;
extern devrt_comm_options_v0 options;
extern devrt_submission_v0 submission;

#endif /* DEVRT_TESTS_DOCS_HEADER_EXAMPLE_NAMES_C_H_ */
