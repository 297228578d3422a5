/* SPDX-License-Identifier: Apache-2.0
 *
 * Extension "devrt.race/0" of a race detector: what the program does that no
 * call of the plugin table shows, and what the detector has found.  The layer
 * "validate" offers it on every backend.  C++ programs use
 * devrt/streams/validate.h.
 *
 * A detector judges declared accesses when they are declared.  So the program
 * declares an access just before it starts the access.
 *
 * Threads: all functions are [any].  They do not wait, and call the host only
 * for errors, logs and the call site.
 */
#ifndef DEVRT_BACKENDS_ABI_DEVRT_RACE_H_
#define DEVRT_BACKENDS_ABI_DEVRT_RACE_H_

#include "devrt/backends/abi/devrt_launch.h"
#include "devrt/backends/abi/devrt_plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The name for get_extension. */
#define DEVRT_RACE_EXTENSION "devrt.race/0"

/* The `kind` of object_made. */
#define DEVRT_RACE_STREAM 0u
#define DEVRT_RACE_EVENT 1u

/* A mistake that the detector found.  Strings are valid during the visit. */
typedef struct devrt_finding_v0 {
  uint32_t struct_size;
  uint32_t reserved0;
  const char* id;   /* "race-7f3a21c4": one for all runs of a program */
  const char* kind; /* "read-after-write" */
  const char* text; /* the report: several lines */
  const char* json; /* the report as one JSON object */
  /* The two operations as the keys `hold` and `until` of a simulator take them,
   * "0.17"; NULL: unknown.  Only after witness_enable. */
  const char* hold;
  const char* until;
} devrt_finding_v0;

/* Which calls of host threads come after which: all calls, as they are made; or
 * those alone that sync_acquire orders. */
#define DEVRT_HOST_ORDER_OBSERVED 0u
#define DEVRT_HOST_ORDER_EXACT 1u

/* The functions of the extension. */
typedef struct devrt_race_v0 {
  uint32_t struct_size;
  uint32_t reserved0;
  /* Work that the program or another library enqueues on `stream` past the
   * plugin table, with what it uses; NULL names it after the call site.  An
   * error means that the work conflicts with other work and must not start. */
  devrt_status (*stream_access)(void* self, devrt_stream stream,
                                const char* name,
                                const devrt_access_v0* accesses,
                                uint32_t access_count);
  /* Later work of `later` comes after the present work of `earlier`, by means
   * that the detector does not see. */
  devrt_status (*stream_order)(void* self, devrt_stream earlier,
                               devrt_stream later);
  /* The calling thread uses memory now. */
  devrt_status (*host_access)(void* self, const char* name,
                              const devrt_access_v0* accesses,
                              uint32_t access_count);
  /* Visits the findings that were made, or made again, after the first `after`
   * findings of the process, each once.  *total is the number so far, repeated
   * ones included.  `visit` may be NULL, and must not call devrt. */
  devrt_status (*findings)(void* self, uint64_t after,
                           void (*visit)(void* arg,
                                         const devrt_finding_v0* finding),
                           void* arg, uint64_t* total);
  /* From now on findings name the operations of a simulator, and the
   * simulator's outcome covers what the host reads.  Before work is enqueued;
   * NOT_FOUND if no backend of the process is a simulator. */
  devrt_status (*witness_enable)(void* self);
  /* The host function that the calling thread enqueues next, by the slot
   * host_func and without another call in between, uses this memory.  The
   * accesses are copied.  If they conflict with other work, that call fails. */
  void (*host_func_access)(void* self, const devrt_access_v0* accesses,
                           uint32_t access_count);
  /* Later work of `later`, or of the calling thread if that is NULL, comes
   * after all work that the host's own queries (devrt_own_query.h) have found
   * complete: the host orders it by them.  With exact order of host threads, it
   * also comes after all work that any thread has waited for. */
  void (*known_order)(void* self, devrt_stream later);
  /* The block of `size` bytes at `ptr`, pinned memory of an allocator of the
   * host, is in use.  All work on its last use is complete. */
  void (*pinned_hand_out)(void* self, uint32_t device, void* ptr,
                          uint64_t size);
  /* The program has given the block back.  The host keeps it until the uses
   * that it knows are complete. */
  void (*pinned_take_back)(void* self, void* ptr);
  /* The program has freed the block at `ptr`, of devrt_suballocation.h.  The
   * host waits for the present work of `stream` and of the `users` before it
   * uses the block again.  Its take_back comes once they are complete. */
  void (*block_freed)(void* self, devrt_stream stream, void* ptr,
                      const devrt_stream* users, uint32_t user_count);
  /* The program has made a stream or an event, DEVRT_RACE_*.  `object` tells it
   * from all others that live. */
  void (*object_made)(void* self, uint32_t device, uint32_t kind,
                      const void* object);
  /* The program has destroyed it. */
  void (*object_ended)(void* self, const void* object);
  /* The host is asked to shut down, and the program's objects that are alive
   * now keep it from that: they are findings. */
  void (*report_leaks)(void* self);
  /* The functions of the prefix sync_ do nothing unless the order of host
   * threads is exact.
   *
   * Later acquisitions of `object`, an address or any number, come after what
   * the calling thread has done: an unlock, the start of a thread, the end of a
   * thread. */
  void (*sync_release)(void* self, const void* object);
  /* The calling thread comes after the releases of `object` so far: a lock, the
   * first action of a thread, a join.  A new thread calls this before other
   * calls, or counts as one that comes after nothing. */
  void (*sync_acquire)(void* self, const void* object);
  /* The object is gone. */
  void (*sync_forget)(void* self, const void* object);
  /* The host itself records `event` and waits for it, under its own locks.  A
   * wait for another event covers only records that come before the wait by the
   * order of host threads. */
  void (*own_event)(void* self, devrt_event event);
  /* Returns one of DEVRT_HOST_ORDER_*. */
  uint32_t (*host_order)(void* self);
  /* Calls before the change count as ordered as they were made. */
  devrt_status (*set_host_order)(void* self, uint32_t order);
  /* wanted 1: from now on reports have the call stacks of operations, unless
   * the user has turned them off.  wanted 0: operations of later calls have
   * none.  Returns what was wanted before. */
  uint32_t (*set_stacks)(void* self, uint32_t wanted);
} devrt_race_v0;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* DEVRT_BACKENDS_ABI_DEVRT_RACE_H_ */
