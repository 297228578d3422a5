/* SPDX-License-Identifier: Apache-2.0
 *
 * devrt's memory for other libraries, in C.
 *
 *   void* x;
 *   if (devrt_memory_alloc_v0("cuda:0", 4096, stream, &x) != 0)
 *     fail(devrt_memory_last_error_v0());
 *   devrt_memory_record_stream_v0(x, "cuda:0", other);  // `other` uses x, too
 *   devrt_memory_free_v0(x);
 *
 * `stream` is a native handle (cudaStream_t).  NULL is the device's default
 * stream; on cuda, 1 is the default stream too, and 2 is the per-thread default
 * stream of the calling thread.  Name the stream that will use the
 * block: a freed block goes to the next request of its stream without a wait
 * (F25).
 *
 * devrt adopts a handle at its first use, until the stream or devrt ends.  An
 * adopted stream does not make Shutdown fail.  Before you destroy a native
 * stream, call devrt_memory_stream_ends_v0: the driver gives the handle to the
 * next stream, and work of the old one is not ordered before work of the new
 * one (F20).
 *
 * Until that call devrt may query the stream and record events on it;
 * afterwards devrt still finds out when work that was submitted before is over.
 *
 * Captures.  A graph keeps the addresses of the memory that its capture used.
 * So a block belongs to a capture if it was allocated or freed on a stream
 * while that was captured, or was recorded as used by such a stream.
 *
 * A free of such a block is only noted; the memory goes back when no graph of
 * the capture is left.  Until then the block may serve later requests of its
 * stream in the capture, if it was allocated in the capture and no other stream
 * has used it.
 *
 * devrt asks the driver for no memory for a stream that is captured: if the
 * cache has none, the request fails with FAILED_PRECONDITION.  A pool (below)
 * has memory for such streams.
 *
 * Memory that a capture gets from a cache or a pool may still be in use by work
 * that was submitted to its stream before the capture began.  So launch a graph
 * behind that work: on the captured stream, or on one that has waited for it.
 *
 * Return values are DEVRT_* codes of devrt_plugin.h; 0 is success.  No
 * exception leaves these functions.  devrt_memory_last_error_v0 returns the
 * text of the calling thread's last error.
 *
 * Ownership: a block is the caller's until it is freed.  It goes back to the
 * resource that it came from (memory_resource.h), also if another one is set by
 * then.
 * Threads: any, but not inside host functions (FAILED_PRECONDITION).
 */
#ifndef DEVRT_MEMORY_EXTERNAL_DEVRT_MEMORY_H_
#define DEVRT_MEMORY_EXTERNAL_DEVRT_MEMORY_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Marks the functions that libdevrt exports. */
#define DEVRT_MEMORY_EXPORT __attribute__((visibility("default")))

/* What a device's allocator counts, as GetMemoryStatistics in statistics.h
 * does: the sum of both pools, and peaks since the last reset. */
typedef struct devrt_memory_stats_v0 {
  uint32_t struct_size; /* set by the caller; no byte behind is written */
  uint32_t reserved0;
  int64_t allocated_bytes;
  int64_t allocated_bytes_peak;
  int64_t active_bytes;
  int64_t active_bytes_peak;
  int64_t reserved_bytes;
  int64_t reserved_bytes_peak;
  int64_t requested_bytes;
  int64_t allocations;   /* alive */
  int64_t alloc_retries; /* requests that emptied the cache */
  int64_t ooms;          /* requests that failed */
} devrt_memory_stats_v0;

/* Sets *ptr to `size` bytes of memory of `device` ("cuda:0") for `stream`.
 * Zero bytes give NULL and success.  RESOURCE_EXHAUSTED (8): no room. */
DEVRT_MEMORY_EXPORT int32_t devrt_memory_alloc_v0(const char* device,
                                                  uint64_t size, void* stream,
                                                  void** ptr);
/* Frees in the order of the stream of the allocation.  NULL is allowed. */
DEVRT_MEMORY_EXPORT int32_t devrt_memory_free_v0(void* ptr);
/* Frees in the order of `stream`, which belongs to the block's device. */
DEVRT_MEMORY_EXPORT int32_t devrt_memory_free_on_v0(void* ptr, void* stream);
/* Notes that `stream` of `device` uses the block that `ptr` lies in.  If
 * `device` is NULL, the stream is looked for on the block's device first, and
 * then on the other devices of its backend. */
DEVRT_MEMORY_EXPORT int32_t devrt_memory_record_stream_v0(const void* ptr,
                                                          const char* device,
                                                          void* stream);
/* Says that the program is about to destroy a native stream of `device`. */
DEVRT_MEMORY_EXPORT int32_t devrt_memory_stream_ends_v0(const char* device,
                                                        void* stream);
/* Gives the device's cached memory without a live block back to the driver. */
DEVRT_MEMORY_EXPORT int32_t devrt_memory_empty_cache_v0(const char* device);
/* Sets the part of the device's memory that this process may take, 0 to 1. */
DEVRT_MEMORY_EXPORT int32_t devrt_memory_set_fraction_v0(const char* device,
                                                         double fraction);
/* Finds the driver's allocation that contains the live block around `ptr`.
 * Other blocks may lie in it.  INVALID_ARGUMENT: devrt has no such block. */
DEVRT_MEMORY_EXPORT int32_t devrt_memory_base_v0(const void* ptr, void** base,
                                                 uint64_t* size);

/* A pool: memory for graphs of another library, apart from the device's cache.
 *
 *   devrt_memory_pool_v0* pool;
 *   devrt_memory_pool_create_v0("cuda:0", &pool);
 *   ... in a capture ...
 *   devrt_memory_pool_alloc_v0(pool, 4096, stream, &x);
 *   devrt_memory_free_v0(x);              // x is free in the pool
 *   ... behind the capture ...
 *   devrt_memory_pool_release_v0(pool);   // graphs keep the memory
 *
 * A pool takes memory from the driver also while `stream` is captured.  Its
 * blocks are freed and recorded like all others.  A freed block serves the next
 * request of the pool on its stream, in this capture or in the next one.  If
 * captures share a pool, launch their graphs in the order of the captures, one
 * at a time.
 *
 * A capture keeps a pool if it has asked the pool for memory.  The pool's
 * memory serves others when the pool is released and no graph of a capture that
 * keeps it is left.  Until then devrt_memory_empty_cache_v0 leaves that memory
 * alone, and Shutdown fails.  Blocks that are live then stay live until their
 * free.
 *
 * For a capture that does not keep the pool, a block of the pool is like any
 * other block: if a stream of the capture is recorded as a user, or frees the
 * block, the block is kept until the last graph of the capture ends. */
typedef struct devrt_memory_pool_v0 devrt_memory_pool_v0;
/* Makes a pool for `device` ("cuda:0"), which the caller releases. */
DEVRT_MEMORY_EXPORT int32_t
devrt_memory_pool_create_v0(const char* device, devrt_memory_pool_v0** pool);
/* Allocates from the pool; see devrt_memory_alloc_v0. */
DEVRT_MEMORY_EXPORT int32_t devrt_memory_pool_alloc_v0(
    devrt_memory_pool_v0* pool, uint64_t size, void* stream, void** ptr);
/* Ends the use of a pool; `pool` is invalid afterwards.  NULL is allowed. */
DEVRT_MEMORY_EXPORT int32_t
devrt_memory_pool_release_v0(devrt_memory_pool_v0* pool);

/* Fills at most stats->struct_size bytes, which the caller has set. */
DEVRT_MEMORY_EXPORT int32_t
devrt_memory_stats_read_v0(const char* device, devrt_memory_stats_v0* stats);
/* Returns the text of the calling thread's last error; "" if there was none.
 * The text is valid until the thread's next error. */
DEVRT_MEMORY_EXPORT const char* devrt_memory_last_error_v0(void);

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* DEVRT_MEMORY_EXTERNAL_DEVRT_MEMORY_H_ */
