/* SPDX-License-Identifier: Apache-2.0
 *
 * devrt_layer.h: the C ABI between devrt and a layer.
 *
 * A layer stands in front of backends and sees their calls: it traces, checks,
 * counts, or makes them fail.  For each backend it is one more {self, table}
 * pair; a slot that it leaves NULL is not its business, and calls of it go on
 * to what is behind.
 *
 *   static devrt_status count_alloc(void* self, uint32_t device, uint64_t size,
 *                                   uint64_t alignment, void** ptr) {
 *     struct counter* c = self;
 *     c->allocs++;
 *     return c->next->ops->alloc(c->next->self, device, size, alignment, ptr);
 *   }
 *   static devrt_status attach(void* layer, const devrt_next_v0* next,
 *                              devrt_backend_v0* front) {
 *     static devrt_ops_v0 ops = {.struct_size = sizeof ops,
 *                                .alloc = count_alloc};
 *     struct counter* c = calloc(1, sizeof *c);
 *     c->next = next;
 *     front->self = c;
 *     front->ops = &ops;
 *     return NULL;
 *   }
 *
 * In C++, devrt_layer_helper.h makes a whole table from one function template.
 *
 * A shared library with a layer exports two symbols, like a plugin: the
 * manifest, read without running code, and the open function.  Programs choose
 * layers with DEVRT_LAYERS or devrt/runtime/layer.h; the file rules are those
 * of plugins.
 *
 * Threads, errors, sizes: devrt_plugin.h.  What a layer must keep to: a call
 * goes on at most once, with its arguments as they were; an error that comes
 * back is returned, or ended with host->error_destroy; handles are the
 * backend's, and only passed on.
 */
#ifndef DEVRT_BACKENDS_ABI_DEVRT_LAYER_H_
#define DEVRT_BACKENDS_ABI_DEVRT_LAYER_H_

#include "devrt/backends/abi/devrt_plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What is behind a layer, for one backend.  Valid to the end of the process. */
typedef struct devrt_next_v0 {
  uint32_t struct_size;
  uint32_t reserved0;
  const devrt_manifest_v0* manifest; /* of the backend */
  void* self;
  const devrt_ops_v0* ops; /* no slot is NULL; `shutdown` and `get_extension`
                              are the host's to call */
  uint64_t capabilities;
  /* [any] An extension of what is behind, by name: its table, whose functions
   * take *self; NULL if there is none. */
  const void* (*extension)(const struct devrt_next_v0* next, const char* name,
                           void** self);
} devrt_next_v0;

/* Filled by devrt_layer_open_v0; `struct_size` is set by the host. */
typedef struct devrt_layer_v0 {
  uint32_t struct_size;
  uint32_t reserved0;
  void* layer; /* first argument of attach */
  /* [load] Once for each backend, when it is opened.  Sets front->self and
   * front->ops; front->capabilities holds those of `next`, of which a layer may
   * take some away.  front->ops->shutdown, which may be NULL, is called before
   * that of what is behind; its get_extension is not used.  An error is what
   * the opening of the backend answers. */
  devrt_status (*attach)(void* layer, const devrt_next_v0* next,
                         devrt_backend_v0* front);
  /* [any] May be NULL.  Once for each extension that somebody asks for and that
   * is behind: returns the table that stands in front of `table`, whose
   * functions take *self_out; NULL to stay out of it.  `self` is what attach
   * gave. */
  const void* (*attach_extension)(void* self, const char* name,
                                  void* table_self, const void* table,
                                  void** self_out);
} devrt_layer_v0;

/* A layer's manifest is a devrt_manifest_v0 with this magic and the layer's
 * name as `backend`; priority and capabilities are 0. */
#define DEVRT_LAYER_MANIFEST_MAGIC "DEVRTLY"
#define DEVRT_LAYER_MANIFEST_SYMBOL "devrt_layer_manifest_v0"
#define DEVRT_LAYER_OPEN_SYMBOL "devrt_layer_open_v0"

typedef devrt_status (*devrt_layer_open_fn_v0)(const devrt_host_v0* host,
                                               devrt_layer_v0* layer);

/* The two symbols.  open [load]: as for plugins. */
extern DEVRT_PLUGIN_EXPORT const devrt_manifest_v0 devrt_layer_manifest_v0;
DEVRT_PLUGIN_EXPORT devrt_status devrt_layer_open_v0(const devrt_host_v0* host,
                                                     devrt_layer_v0* layer);

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* DEVRT_BACKENDS_ABI_DEVRT_LAYER_H_ */
