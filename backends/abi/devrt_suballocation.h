/* SPDX-License-Identifier: Apache-2.0
 *
 * Extension "devrt.suballocation/0": an allocator announces which parts of its
 * memory are in use, so that tools can detect misuse.
 *
 * Memory from alloc or map is one block for tools, as long as it lives.  Once
 * an allocator has carved it, only blocks that were handed out and not taken
 * back may be used.  A simulator, a race detector or a layer then finds uses of
 * free blocks, reuse before the last use (docs/reference/semantics.md 1.14),
 * and reads of memory that the present holder never wrote.
 *
 * Each announcement costs a call.  A backend without such a tool does not offer
 * the extension, and the allocator then announces nothing.
 *
 * Threads: [any].  The allocator holds no lock, so calls for different blocks
 * may overlap.  The calls for one block come in order: the allocating thread
 * calls hand_out before any other thread knows the block, and take_back is
 * called before any other thread can get it.  carve comes before the first
 * block of a range, uncarve after the last.  The functions must not wait, and
 * may call the host only for errors, logs and the call site.
 */
#ifndef DEVRT_BACKENDS_ABI_DEVRT_SUBALLOCATION_H_
#define DEVRT_BACKENDS_ABI_DEVRT_SUBALLOCATION_H_

#include "devrt/backends/abi/devrt_plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The name for get_extension. */
#define DEVRT_SUBALLOCATION_EXTENSION "devrt.suballocation/0"

/* The functions of the extension. */
typedef struct devrt_suballocation_v0 {
  uint32_t struct_size;
  uint32_t reserved0;
  /* [any] [base, base + size) belongs to an allocator from now on; all of it is
   * free.  It merges with adjacent ranges that were carved before. */
  devrt_status (*carve)(void* self, uint32_t device, void* base, uint64_t size);
  /* [any] The block of `size` bytes (as requested) is in use, first on
   * `stream`.  After an error, which is logged, the block is in use too. */
  devrt_status (*hand_out)(void* self, devrt_stream stream, void* ptr,
                           uint64_t size);
  /* [any] The block is free after the present work of `stream`; NULL: all uses
   * are complete, on every stream. */
  devrt_status (*take_back)(void* self, devrt_stream stream, void* ptr);
  /* [any] Ends carve, before dealloc or unmap.  The range may be a part of a
   * carved range. */
  devrt_status (*uncarve)(void* self, uint32_t device, void* base,
                          uint64_t size);
} devrt_suballocation_v0;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* DEVRT_BACKENDS_ABI_DEVRT_SUBALLOCATION_H_ */
