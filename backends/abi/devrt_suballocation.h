/* SPDX-License-Identifier: Apache-2.0
 *
 * Extension "devrt.suballocation/0": an allocator tells who looks for misuse
 * which parts of its memory are somebody's.
 *
 * Memory from alloc or map that is announced nowhere is one block, as long as
 * it lives.  Once an allocator has carved it, only what was handed out and not
 * taken back may be used: a simulator, a race detector or a layer finds uses of
 * blocks that are free, reuse before the last use (docs/semantics.md 1.14), and
 * reads of memory that its present holder never wrote.
 *
 * Announcements cost a call each.  A backend that has nobody who listens does
 * not offer the extension, and the allocator then announces nothing.
 *
 * Threads: [any], and no lock of the allocator's is held: calls for different
 * blocks may come at once.  Those for one block come in order: it is handed out
 * by the thread that has taken it, before anybody else knows of it, and taken
 * back while nobody else can take it; carve comes before the first block of a
 * range, uncarve behind the last.  They must not wait, and must not call the
 * host but for errors, logs and the call site.
 */
#ifndef DEVRT_BACKENDS_ABI_DEVRT_SUBALLOCATION_H_
#define DEVRT_BACKENDS_ABI_DEVRT_SUBALLOCATION_H_

#include "devrt/backends/abi/devrt_plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DEVRT_SUBALLOCATION_EXTENSION "devrt.suballocation/0"

typedef struct devrt_suballocation_v0 {
  uint32_t struct_size;
  uint32_t reserved0;
  /* [any] [base, base + size) is an allocator's from now on, nothing of it
   * handed out.  What touches a range that was carved before is one with it. */
  devrt_status (*carve)(void* self, uint32_t device, void* base, uint64_t size);
  /* [any] Somebody's: `size` bytes, as asked for, to be used on `stream` first.
   * An error is logged and the block handed out all the same. */
  devrt_status (*hand_out)(void* self, devrt_stream stream, void* ptr,
                           uint64_t size);
  /* [any] Nobody's from here on in the order of `stream`; NULL: the holder's
   * uses are over for every stream. */
  devrt_status (*take_back)(void* self, devrt_stream stream, void* ptr);
  /* [any] The end of carve, before dealloc or unmap; also of a part of what was
   * carved at once. */
  devrt_status (*uncarve)(void* self, uint32_t device, void* base,
                          uint64_t size);
} devrt_suballocation_v0;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* DEVRT_BACKENDS_ABI_DEVRT_SUBALLOCATION_H_ */
