/* SPDX-License-Identifier: Apache-2.0
 *
 * devrt's memory for other libraries, in C.
 *
 *   void* x;
 *   if (devrt_memory_alloc_v0("cuda:0", 4096, stream, &x) != 0)
 *     fail(devrt_memory_last_error_v0());
 *   devrt_memory_record_stream_v0(x, "cuda:0", other);  // used there as well
 *   devrt_memory_free_v0(x);
 *
 * `stream` is a native handle (cudaStream_t); NULL is the device's default
 * stream, 1 the same and 2 the calling thread's on cuda.  It must be given: a
 * block is handed to the next request of its stream without a wait (F25).
 *
 * A handle that is new to devrt is adopted at its first use and stays so, up to
 * its end or devrt's: an adopted stream does not stand in the way of Shutdown.
 * Whoever destroys a native stream says so first, with
 * devrt_memory_stream_ends_v0: the driver gives the handle to the next stream,
 * and what was freed on the old one is not ordered before the new (F20).  Until
 * then devrt may ask the stream and record events on it; what was submitted up
 * to then is known to be over when it is.
 *
 * Captures.  A graph keeps the addresses of what its capture has used.  So a
 * block that was allocated or freed on a stream while that was captured, or was
 * recorded as used by such a stream, belongs to the capture: its free only
 * notes it, and the memory goes back when no graph of the capture is left.
 * Until then a request of that stream in that capture gets it again, if it was
 * allocated in that capture and no other stream has used it.  Nothing is asked
 * of the driver for a stream that is captured: what its cache does not have is
 * refused (FAILED_PRECONDITION).  A pool has memory for it, see below.
 *
 * What a capture gets from a cache, or from a pool, may still be in use by work
 * that its stream was given before the capture began.  So launch a graph behind
 * that work: on the stream that was captured, or on one that has waited for it.
 *
 * Return values are DEVRT_* codes of devrt_plugin.h, 0 is success.  No
 * exception leaves these functions.  What failed is said by
 * devrt_memory_last_error_v0, for the calling thread.
 *
 * Ownership: blocks are the caller's until freed, and go back to the resource
 * that they came from (memory_resource.h), whatever is set by then.
 * Threads: any, but not inside host functions (FAILED_PRECONDITION).
 */
#ifndef DEVRT_MEMORY_EXTERNAL_DEVRT_MEMORY_H_
#define DEVRT_MEMORY_EXTERNAL_DEVRT_MEMORY_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DEVRT_MEMORY_EXPORT __attribute__((visibility("default")))

typedef struct devrt_memory_stats_v0 {
  uint32_t struct_size; /* set by the caller; filled as far as it goes */
  uint32_t reserved0;
  int64_t allocated_bytes;
  int64_t allocated_bytes_peak;
  int64_t active_bytes;
  int64_t active_bytes_peak;
  int64_t reserved_bytes;
  int64_t reserved_bytes_peak;
  int64_t requested_bytes;
  int64_t allocations; /* alive */
  int64_t alloc_retries;
  int64_t ooms;
} devrt_memory_stats_v0;

/* Zero bytes: NULL and success.  RESOURCE_EXHAUSTED (8) without room. */
DEVRT_MEMORY_EXPORT int32_t devrt_memory_alloc_v0(const char* device,
                                                  uint64_t size, void* stream,
                                                  void** ptr);
/* NULL is allowed.  In the order of the stream of alloc. */
DEVRT_MEMORY_EXPORT int32_t devrt_memory_free_v0(void* ptr);
/* In the order of `stream`, of the block's device. */
DEVRT_MEMORY_EXPORT int32_t devrt_memory_free_on_v0(void* ptr, void* stream);
/* Any pointer into the block; `stream` is of `device`.  Where `device` is NULL
 * the block's is meant, and for a handle that is no stream of that device the
 * device that has it. */
DEVRT_MEMORY_EXPORT int32_t devrt_memory_record_stream_v0(const void* ptr,
                                                          const char* device,
                                                          void* stream);
/* Before the owner destroys a native stream. */
DEVRT_MEMORY_EXPORT int32_t devrt_memory_stream_ends_v0(const char* device,
                                                        void* stream);
DEVRT_MEMORY_EXPORT int32_t devrt_memory_empty_cache_v0(const char* device);
/* The part of the device's memory that this process may take, 0 to 1. */
DEVRT_MEMORY_EXPORT int32_t devrt_memory_set_fraction_v0(const char* device,
                                                         double fraction);
/* The driver's allocation that contains the live block around `ptr`; other
 * blocks may lie in it.  INVALID_ARGUMENT: devrt has no such block. */
DEVRT_MEMORY_EXPORT int32_t devrt_memory_base_v0(const void* ptr, void** base,
                                                 uint64_t* size);

/* A pool: memory for graphs of another library, apart from the device's cache.
 *
 *   devrt_memory_pool_v0* pool;
 *   devrt_memory_pool_create_v0("cuda:0", &pool);
 *   ... in a capture ...
 *   devrt_memory_pool_alloc_v0(pool, 4096, stream, &x);
 *   devrt_memory_free_v0(x);              // the pool has it again
 *   ... behind the capture ...
 *   devrt_memory_pool_release_v0(pool);   // graphs of the capture keep the memory
 *
 * A pool takes memory from the driver while `stream` is captured, too.  Its
 * blocks are freed and recorded as all others.  One that was freed serves the
 * next request of the pool on that stream, in this capture or the next one.  If
 * captures share a pool, launch their graphs in the order of the captures, and
 * never two of them concurrently.  A capture holds a pool only if it has asked
 * the pool for memory.  The pool's memory serves
 * others when the pool is released and no graph of a capture is left that asked
 * it for memory; until then devrt_memory_empty_cache_v0 leaves it alone, and
 * Shutdown is refused.  Blocks that are alive then stay so up to their free.
 *
 * For a capture that does not hold the pool a block of the pool is like any
 * other: record its stream as a user, or free the block in it, and the block is
 * kept up to the end of that capture's graphs. */
typedef struct devrt_memory_pool_v0 devrt_memory_pool_v0;
DEVRT_MEMORY_EXPORT int32_t
devrt_memory_pool_create_v0(const char* device, devrt_memory_pool_v0** pool);
/* As devrt_memory_alloc_v0. */
DEVRT_MEMORY_EXPORT int32_t devrt_memory_pool_alloc_v0(
    devrt_memory_pool_v0* pool, uint64_t size, void* stream, void** ptr);
/* Call it once: `pool` is invalid afterwards.  NULL is allowed. */
DEVRT_MEMORY_EXPORT int32_t
devrt_memory_pool_release_v0(devrt_memory_pool_v0* pool);

DEVRT_MEMORY_EXPORT int32_t
devrt_memory_stats_read_v0(const char* device, devrt_memory_stats_v0* stats);
/* Text of the calling thread's last failure; "" if there was none.  Valid
 * until its next failure. */
DEVRT_MEMORY_EXPORT const char* devrt_memory_last_error_v0(void);

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* DEVRT_MEMORY_EXTERNAL_DEVRT_MEMORY_H_ */
