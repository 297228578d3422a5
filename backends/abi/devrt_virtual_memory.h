/* SPDX-License-Identifier: Apache-2.0
 *
 * Extension "devrt.virtual_memory/0": addresses and memory as separate objects.
 * The caching allocator uses it to grow a segment in place ("expandable
 * segments"): it reserves addresses once, as many as the device could ever
 * need, and maps memory to them piece by piece.
 *
 *   void* base;
 *   vm->info(self, 0, &info);                          // once
 *   vm->reserve(self, 0, 64 * info.granularity, 0, &base);
 *   vm->create(self, 0, info.granularity, &chunk);     // memory, no address
 *   vm->map(self, base, info.granularity, chunk);      // may now be used
 *   ... work on the memory ...
 *   vm->unmap(self, base, info.granularity);
 *   vm->destroy(self, chunk);
 *   vm->release(self, base, 64 * info.granularity);
 *
 * A backend without the extension has no expandable segments; devrt ignores a
 * setting that asks for them and logs one warning.  There is no capability bit:
 * the extension itself is the capability.
 *
 * Rules
 *   1. Sizes and addresses are multiples of the granularity, greater than 0.
 *   2. A chunk is mapped as a whole, at one address at a time, in a reservation
 *      of its device; after a new mapping its contents are undefined.
 *      Operations may span neighbouring mappings.
 *   3. Mapped memory behaves like memory from alloc: pointer_info names the
 *      device, and `base` and `size` of the part of the reservation that the
 *      chunk backs.  Copies, fills, kernels and peers may use it; peer_enable
 *      covers present and later mappings.  New memory is undefined (C61).
 *   4. mem_info counts chunks, mapped or not, and does not count reservations.
 *   5. create fails with RESOURCE_EXHAUSTED and changes nothing if there is not
 *      enough memory; that error is not sticky (C62).
 *   6. No function waits for the device, except unmap if raw_free_syncs; the
 *      caller unmaps memory after all its uses (C64).
 */
#ifndef DEVRT_BACKENDS_ABI_DEVRT_VIRTUAL_MEMORY_H_
#define DEVRT_BACKENDS_ABI_DEVRT_VIRTUAL_MEMORY_H_

#include "devrt/backends/abi/devrt_plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The name for get_extension. */
#define DEVRT_VIRTUAL_MEMORY_EXTENSION "devrt.virtual_memory/0"

/* Memory of a device without an address; never NULL when valid. */
typedef struct devrt_chunk_impl* devrt_chunk;

/* What a device allows. */
typedef struct devrt_virtual_memory_info_v0 {
  uint32_t struct_size;
  uint32_t reserved0;
  uint64_t granularity;   /* bytes; a power of two */
  uint64_t address_space; /* bytes that can be reserved in all; 0: unknown */
} devrt_virtual_memory_info_v0;

/* The functions of the extension. */
typedef struct devrt_virtual_memory_v0 {
  uint32_t struct_size;
  uint32_t reserved0;
  /* [any] Fills at most info->struct_size bytes; creates no context. */
  devrt_status (*info)(void* self, uint32_t device,
                       devrt_virtual_memory_info_v0* info);
  /* [any] Reserves addresses for `device`; alignment as for alloc. */
  devrt_status (*reserve)(void* self, uint32_t device, uint64_t size,
                          uint64_t alignment, void** base);
  /* [any] Releases a whole reservation; INVALID_ARGUMENT if memory is mapped
   * there. */
  devrt_status (*release)(void* self, void* base, uint64_t size);
  /* [any] Allocates memory of `device` without an address. */
  devrt_status (*create)(void* self, uint32_t device, uint64_t size,
                         devrt_chunk* chunk);
  /* [any] Frees a chunk that is not mapped. */
  devrt_status (*destroy)(void* self, devrt_chunk chunk);
  /* [any] Maps the whole chunk of `size` bytes.  On return the device, and the
   * peers that have access, can read and write it.  ALREADY_EXISTS if memory is
   * mapped there. */
  devrt_status (*map)(void* self, void* address, uint64_t size,
                      devrt_chunk chunk);
  /* [any, blocking if raw_free_syncs] Unmaps whole chunks. */
  devrt_status (*unmap)(void* self, void* address, uint64_t size);
} devrt_virtual_memory_v0;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* DEVRT_BACKENDS_ABI_DEVRT_VIRTUAL_MEMORY_H_ */
