/* SPDX-License-Identifier: Apache-2.0
 *
 * Extension "devrt.virtual_memory/0": addresses apart from the memory behind
 * them.  The caching allocator grows a segment in place with it ("expandable
 * segments"): it reserves addresses once, as many as the device could ever
 * need, and puts memory behind them piece by piece.
 *
 *   vm->info(self, 0, &info);                          once
 *   vm->reserve(self, 0, 64 * info.granularity, 0, &base);
 *   vm->create(self, 0, info.granularity, &chunk);     memory, no address
 *   vm->map(self, base, info.granularity, chunk);      may now be used
 *   ... vm->unmap(self, base, info.granularity);
 *   vm->destroy(self, chunk);  vm->release(self, base, 64 * info.granularity);
 *
 * A backend without it has no expandable segments; a setting that asks for them
 * is then ignored with one warning.  The presence of the extension is the
 * capability: there is no bit.
 *
 * Rules
 *   1. Sizes and addresses are multiples of the granularity, greater than 0.
 *   2. A chunk is mapped whole, at one place at a time, in a reservation of its
 *      device; what it holds when it is mapped anew is undefined.  Neighbouring
 *      mappings are one range for operations.
 *   3. Memory that is mapped is as memory from alloc: pointer_info names the
 *      device, `base` and `size` those of the reservation's part that this
 *      chunk backs; copies, fills, kernels and peers (peer_enable, present and
 *      future mappings) reach it.  Fresh memory is undefined (C61).
 *   4. mem_info counts chunks, mapped or not; reservations count nothing.
 *   5. create fails with RESOURCE_EXHAUSTED and changes nothing when there is
 *      no room; that is not sticky (C62).
 *   6. None of these waits for the device, unmap excepted where raw_free_syncs:
 *      the caller has ordered all uses before (C64).
 */
#ifndef DEVRT_BACKENDS_ABI_DEVRT_VIRTUAL_MEMORY_H_
#define DEVRT_BACKENDS_ABI_DEVRT_VIRTUAL_MEMORY_H_

#include "devrt/backends/abi/devrt_plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DEVRT_VIRTUAL_MEMORY_EXTENSION "devrt.virtual_memory/0"

/* Memory of a device without an address; never NULL when valid. */
typedef struct devrt_chunk_impl* devrt_chunk;

typedef struct devrt_virtual_memory_info_v0 {
  uint32_t struct_size;
  uint32_t reserved0;
  uint64_t granularity;   /* bytes; a power of two */
  uint64_t address_space; /* bytes that can be reserved in all; 0: unknown */
} devrt_virtual_memory_info_v0;

typedef struct devrt_virtual_memory_v0 {
  uint32_t struct_size;
  uint32_t reserved0;
  /* [any] Fills what fits in info->struct_size bytes; creates no context. */
  devrt_status (*info)(void* self, uint32_t device,
                       devrt_virtual_memory_info_v0* info);
  /* [any] Addresses for `device`; `alignment` as in alloc. */
  devrt_status (*reserve)(void* self, uint32_t device, uint64_t size,
                          uint64_t alignment, void** base);
  /* [any] All of a reservation, nothing of it mapped: INVALID_ARGUMENT
   * otherwise. */
  devrt_status (*release)(void* self, void* base, uint64_t size);
  /* [any] */
  devrt_status (*create)(void* self, uint32_t device, uint64_t size,
                         devrt_chunk* chunk);
  /* [any] One that is not mapped. */
  devrt_status (*destroy)(void* self, devrt_chunk chunk);
  /* [any] `size` is the chunk's.  Readable and writable by the device, and by
   * the peers that have access, when the call returns.  ALREADY_EXISTS where
   * something is mapped. */
  devrt_status (*map)(void* self, void* address, uint64_t size,
                      devrt_chunk chunk);
  /* [any, blocking where raw_free_syncs] Whole chunks. */
  devrt_status (*unmap)(void* self, void* address, uint64_t size);
} devrt_virtual_memory_v0;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* DEVRT_BACKENDS_ABI_DEVRT_VIRTUAL_MEMORY_H_ */
