/* SPDX-License-Identifier: Apache-2.0
 *
 * devrt_layer.h: the C ABI between devrt and a layer.
 *
 * A layer is called in front of backends: it traces calls, checks them, counts
 * them, or makes them fail.  For each backend the layer adds one {self, table}
 * pair.  Calls of a slot that the layer leaves NULL go straight to the next
 * pair: the next layer or the backend.
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
 * manifest, which is read without running code, and the open function.
 * Programs choose layers with DEVRT_LAYERS or devrt/runtime/layer.h.  The rules
 * for plugin files hold for layers too.
 *
 * Threads, errors, sizes: devrt_plugin.h.  Rules for a layer: it passes a call
 * on at most once, with unchanged arguments; it returns an error from the next
 * pair, or destroys it with host->error_destroy; it only passes handles on,
 * because they belong to the backend.
 */
#ifndef DEVRT_BACKENDS_ABI_DEVRT_LAYER_H_
#define DEVRT_BACKENDS_ABI_DEVRT_LAYER_H_

#include "devrt/backends/abi/devrt_plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The next pair behind a layer, for one backend.  Valid until the process
 * ends. */
typedef struct devrt_next_v0 {
  uint32_t struct_size;
  uint32_t reserved0;
  const devrt_manifest_v0* manifest; /* of the backend */
  void* self;                        /* first argument of `ops` */
  const devrt_ops_v0* ops;           /* no slot is NULL; only the host may call
                              `shutdown` and `get_extension` */
  uint64_t capabilities;             /* DEVRT_CAP_* */
  /* [any] Finds an extension of the next pair by name: returns its table, whose
   * functions take *self, or NULL. */
  const void* (*extension)(const struct devrt_next_v0* next, const char* name,
                           void** self);
} devrt_next_v0;

/* devrt_layer_open_v0 fills this struct; the host sets `struct_size`. */
typedef struct devrt_layer_v0 {
  uint32_t struct_size;
  uint32_t reserved0;
  void* layer; /* first argument of attach */
  /* [load] Called once for each backend when it is opened.  Sets front->self
   * and front->ops.  front->capabilities holds the bits of `next`; a layer may
   * clear some.  front->ops->shutdown may be NULL; the host calls it before the
   * shutdown of the next pair.  front->ops->get_extension is not used.  If
   * attach returns an error, opening the backend fails with that error. */
  devrt_status (*attach)(void* layer, const devrt_next_v0* next,
                         devrt_backend_v0* front);
  /* [any] May be NULL.  Called once for each extension that a program asks for
   * and that the next pair has.  Returns a table to call in place of `table`,
   * and sets *self_out for its functions; NULL leaves the extension alone.
   * `self` is front->self of attach, `table_self` the self of `table`. */
  const void* (*attach_extension)(void* self, const char* name,
                                  void* table_self, const void* table,
                                  void** self_out);
  /* [any] May be NULL.  Called once for each extension that a program asks for
   * and that the next pair lacks, with `self` as in attach_extension.  Returns
   * a table of the layer's own, and sets *self_out for its functions; NULL adds
   * nothing.  A layer thus hears what only a tool wants to know, such as the
   * blocks of an allocator (devrt_suballocation.h). */
  const void* (*add_extension)(void* self, const char* name, void** self_out);
} devrt_layer_v0;

/* A layer's manifest is a devrt_manifest_v0 with this magic and the layer's
 * name as `backend`; priority and capabilities are 0. */
#define DEVRT_LAYER_MANIFEST_MAGIC "DEVRTLY"
/* The names of the two symbols. */
#define DEVRT_LAYER_MANIFEST_SYMBOL "devrt_layer_manifest_v0"
#define DEVRT_LAYER_OPEN_SYMBOL "devrt_layer_open_v0"

/* The type of devrt_layer_open_v0. */
typedef devrt_status (*devrt_layer_open_fn_v0)(const devrt_host_v0* host,
                                               devrt_layer_v0* layer);

/* The two symbols.  open is [load], with the rules for plugins. */
extern DEVRT_PLUGIN_EXPORT const devrt_manifest_v0 devrt_layer_manifest_v0;
/* Fills `layer`; an error leaves it unchanged. */
DEVRT_PLUGIN_EXPORT devrt_status devrt_layer_open_v0(const devrt_host_v0* host,
                                                     devrt_layer_v0* layer);

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* DEVRT_BACKENDS_ABI_DEVRT_LAYER_H_ */
