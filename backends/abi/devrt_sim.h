/* SPDX-License-Identifier: Apache-2.0
 *
 * Extension "devrt.sim/1": functions that only a simulated accelerator has:
 * configuration, virtual clock, replay, fault injection, and a timeline of all
 * operations.  C++ programs use devrt/runtime/simulator.h.
 */
#ifndef DEVRT_BACKENDS_ABI_DEVRT_SIM_H_
#define DEVRT_BACKENDS_ABI_DEVRT_SIM_H_

#include "devrt/backends/abi/devrt_launch.h"
#include "devrt/backends/abi/devrt_plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The name for get_extension. */
#define DEVRT_SIM_EXTENSION "devrt.sim/1"

/* devrt_sim_op_v1.engine */
#define DEVRT_SIM_ENGINE_NONE 0u /* records, waits, allocations, frees */
#define DEVRT_SIM_ENGINE_COMPUTE 1u
#define DEVRT_SIM_ENGINE_H2D 2u
#define DEVRT_SIM_ENGINE_D2H 3u
#define DEVRT_SIM_ENGINE_P2P 4u
#define DEVRT_SIM_ENGINE_HOST 5u       /* host functions */
#define DEVRT_SIM_ENGINE_COLLECTIVE 6u /* has collective_slots */

/* devrt_sim_op_v1.kind */
#define DEVRT_SIM_OP_RECORD 0u
#define DEVRT_SIM_OP_WAIT 1u
#define DEVRT_SIM_OP_KERNEL 2u
#define DEVRT_SIM_OP_COPY 3u
#define DEVRT_SIM_OP_FILL 4u
#define DEVRT_SIM_OP_HOST_FUNC 5u
#define DEVRT_SIM_OP_ALLOC 6u /* from here on alloc_async's block is usable */
#define DEVRT_SIM_OP_FREE 7u  /* from here on dealloc_async's block is free */
#define DEVRT_SIM_OP_COLLECTIVE 8u /* one rank's part of devrt.collectives/0 */

/* devrt_sim_op_v1.state */
#define DEVRT_SIM_PENDING 0u
#define DEVRT_SIM_RUNNING 1u
#define DEVRT_SIM_DONE 2u
#define DEVRT_SIM_FAILED 3u    /* ended with a fault */
#define DEVRT_SIM_DISCARDED 4u /* did not run: its device or origin failed */

/* One operation of the timeline.  Strings are valid during the visit. */
typedef struct devrt_sim_op_v1 {
  uint32_t struct_size;
  uint32_t device;
  uint64_t stream;    /* number of the stream, unique in the machine */
  uint64_t seq;       /* number of the operation in its stream, from 1 */
  uint32_t kind;      /* DEVRT_SIM_OP_* */
  uint32_t engine;    /* DEVRT_SIM_ENGINE_* */
  uint32_t state;     /* DEVRT_SIM_* */
  uint32_t thread;    /* number of the host thread that submitted it */
  uint64_t bytes;     /* of copies, fills, allocations and frees */
  uint64_t submit_ns; /* of now_ns, as the next two */
  uint64_t begin_ns;  /* 0 before the operation begins */
  uint64_t end_ns;    /* 0 before the operation ends */
  int32_t line;
  uint32_t dep_count;         /* of dep_stream and dep_seq */
  const char* name;           /* "copy H2D", "scale" */
  const char* file;           /* or NULL */
  const uint64_t* dep_stream; /* {stream, seq} of operations it waited for */
  const uint64_t* dep_seq;
  const void* native_stream; /* the handle, NULL for the legacy stream */
  /* The host's devrt.stream_number/0 at submission; 0 if unknown. */
  uint64_t host_stream;
  /* The operation is the op_index-th that `thread` has submitted since the
   * restart, from 0.  Kernels, copies, fills, host functions and stream-ordered
   * allocations and frees count, so that {thread, op_index} names one operation
   * in every schedule.  DEVRT_SIM_NO_INDEX for records and waits. */
  uint64_t op_index;
  /* trace_hash's number of steps at submission, begin and end: the order of
   * what happened, also where the times are equal.  0 before. */
  uint64_t submit_step;
  uint64_t begin_step;
  uint64_t end_step;
  uint32_t split;        /* 1: it reads at its begin and writes at its end */
  uint32_t access_count; /* of accesses */
  /* The memory that it uses.  {NULL, UINT64_MAX} stands for any memory. */
  const devrt_access_v0* accesses;
} devrt_sim_op_v1;

/* devrt_sim_op_v1.op_index of operations that have none. */
#define DEVRT_SIM_NO_INDEX UINT64_MAX

/* devrt_sim_decision_v1.kind */
#define DEVRT_SIM_DECISION_SCHEDULE 0u /* what moves next */
#define DEVRT_SIM_DECISION_PAGEABLE 1u /* how a pageable copy behaves */
#define DEVRT_SIM_DECISION_FAULT 2u    /* 1: a rule of the key faults hits */

/* One decision of virtual mode.  Strings are valid during the visit. */
typedef struct devrt_sim_decision_v1 {
  uint32_t struct_size;
  uint32_t kind;   /* DEVRT_SIM_DECISION_* */
  uint32_t count;  /* of the candidates; UINT32_MAX: they were not counted */
  uint32_t choice; /* less than count; 0 is the default */
  /* SCHEDULE: the operation that moves, as in the timeline; 0, 0 if a host
   * thread moves. */
  uint64_t stream;
  uint64_t seq;
  uint32_t thread;  /* that moves, or that submitted the operation */
  int32_t line;     /* of the call of that thread, as far as known */
  const char* file; /* or NULL */
} devrt_sim_decision_v1;

/* devrt_sim_fault_v1.kind */
#define DEVRT_SIM_FAULT_API 0u    /* one call returns an error */
#define DEVRT_SIM_FAULT_KERNEL 1u /* an operation faults at its end */
#define DEVRT_SIM_FAULT_LOST 2u   /* the device is lost at once */

/* A fault to inject. */
typedef struct devrt_sim_fault_v1 {
  uint32_t struct_size;
  uint32_t kind;       /* DEVRT_SIM_FAULT_* */
  uint32_t device;     /* ordinal */
  uint32_t nth;        /* 1: the next matching call or operation */
  int32_t native_code; /* CUDA's number: 2, 46, 214, 700, 710, 719 ... */
  uint32_t reserved0;
  const char* slot; /* API: name of the table slot, "alloc"; NULL: any.
                       KERNEL: name of the operation; NULL: any */
} devrt_sim_fault_v1;

/* devrt_sim_v1.take_part: the part that a thread has in the schedule */
#define DEVRT_SIM_PART_NONE 0u    /* not scheduled, see take_part */
#define DEVRT_SIM_PART_TAKES 1u   /* takes part */
#define DEVRT_SIM_PART_NOT_YET 2u /* may wait for its first turn */

#define DEVRT_SIM_LOCK_FREE 0u    /* was given back, see note_lock */
#define DEVRT_SIM_LOCK_HELD 1u    /* the caller has it from now on */
#define DEVRT_SIM_LOCK_AWAITED 2u /* the caller waits for it from now on */

/* Counters of the simulated machine. */
typedef struct devrt_sim_stats_v1 {
  uint32_t struct_size;
  uint32_t threads;      /* host threads that joined the machine */
  uint64_t live_streams; /* created and not destroyed; no default streams */
  uint64_t live_events;
  uint64_t live_blocks; /* device allocations */
  uint64_t live_pinned;
  uint64_t live_registered;
  uint64_t pending_ops;
  uint64_t completed_ops;
  uint64_t created_streams; /* since the last reset */
  uint64_t created_events;
  uint64_t host_funcs_run;
  uint64_t kernels_run;
  /* How often real time decided what moved next, because a host thread slept
   * or computed for long outside of devrt, or a host function did not return.
   * If it is not 0, a replay may differ from the run. */
  uint64_t uncontrolled;
  uint64_t faults_fired; /* by rules of the key faults, since the last reset */
  /* What a replayed token and the run do not have in common.  Choices, other
   * than 0, that the run has not come to yet: */
  uint64_t replay_left;
  /* The number, from 1, of the first decision at which the run lacked the
   * choice of the token, and took 0; that choice, and how many the run had.
   * 0: there was none. */
  uint64_t replay_misfit;
  uint32_t replay_choice;
  uint32_t replay_ways;
} devrt_sim_stats_v1;

/* The functions of the extension. */
typedef struct devrt_sim_v1 {
  uint32_t struct_size;
  uint32_t reserved0;
  /* [load] Restarts the machine with `config`, in the syntax of DEVRT_MTIA;
   * keys that it omits get their default, not their present value.  All handles
   * and all memory become invalid; using an old handle is an error.
   * FAILED_PRECONDITION if `config` changes the number of devices. */
  devrt_status (*reset)(void* self, const char* config, uint64_t size);
  /* [any, callback] Writes the effective configuration, "key=value,...", into
   * buffer[0, capacity).  `size` is the needed size, without a NUL. */
  devrt_status (*config)(void* self, char* buffer, uint64_t capacity,
                         uint64_t* size);
  /* [any, callback] Nanoseconds since the last reset, of the virtual or the
   * steady clock. */
  devrt_status (*now_ns)(void* self, uint64_t* now);
  /* [any] Lets other host threads and the device run: one decision. */
  devrt_status (*yield)(void* self);
  /* [any] A hash of all steps so far, and their number. */
  devrt_status (*trace_hash)(void* self, uint64_t* hash, uint64_t* steps);
  /* [any] The replay token "dvs1:..." of the run so far; buffer of `config`.
   * Logs a warning if stats.uncontrolled is not 0. */
  devrt_status (*token)(void* self, char* buffer, uint64_t capacity,
                        uint64_t* size);
  /* [load] Resets to the token's configuration, then repeats its decisions. */
  devrt_status (*replay)(void* self, const char* token, uint64_t size);
  /* [any] Injects a fault; several may be pending. */
  devrt_status (*inject)(void* self, const devrt_sim_fault_v1* fault);
  /* [any] Turns the recording for `timeline` on or off; off at first. */
  devrt_status (*timeline_enable)(void* self, uint32_t on);
  /* [any] Visits the recorded operations in order of submission.  `visit` must
   * not call devrt. */
  devrt_status (*timeline)(void* self,
                           void (*visit)(void* arg, const devrt_sim_op_v1* op),
                           void* arg);
  /* [any, callback] Fills at most stats->struct_size bytes. */
  devrt_status (*stats)(void* self, devrt_sim_stats_v1* stats);
  /* [any] The last deadlock report, empty if none; buffer of `config`. */
  devrt_status (*deadlock_report)(void* self, char* buffer, uint64_t capacity,
                                  uint64_t* size);
  /* [any] Copies bytes from device memory at once, without stream order and
   * without regard to pending work.  For final comparisons in tests. */
  devrt_status (*peek)(void* self, const void* device_ptr, void* host,
                       uint64_t size);
  /* [any] Copies bytes to device memory as peek does. */
  devrt_status (*poke)(void* self, void* device_ptr, const void* host,
                       uint64_t size);
  /* [any] For a tracer; independent of timeline and timeline_enable.  Visits
   * the operations that ended since the last call.  The first call only begins
   * the recording: it does not visit operations that ended before it. */
  devrt_status (*timeline_take)(void* self,
                                void (*visit)(void* arg,
                                              const devrt_sim_op_v1* op),
                                void* arg);
  /* [any] The number of the calling thread and the op_index that its next
   * operation will get.  Changes no schedule. */
  devrt_status (*next_op)(void* self, uint32_t* thread, uint64_t* index);
  /* [any] A hash of what the run has made that a program can see, independent
   * of addresses and of the order of operations: what operations wrote to host
   * memory, the contents of each block of device memory at its free or, if it
   * is alive, now, and the codes of faults.  Two runs of a program without
   * races have one hash, if all work is complete.  Blocks that an allocator has
   * carved into smaller ones are left out.  Changes no schedule.
   * FAILED_PRECONDITION without `outcome=on` in the configuration. */
  devrt_status (*outcome)(void* self, uint64_t* hash);
  /* [any] Turns the record for `decisions` on or off; off at first.  A reset
   * and a replay empty the record and leave it on. */
  devrt_status (*decisions_enable)(void* self, uint32_t on);
  /* [any] Visits the recorded decisions in their order.  `visit` must not call
   * devrt. */
  devrt_status (*decisions)(void* self,
                            void (*visit)(void* arg,
                                          const devrt_sim_decision_v1* made),
                            void* arg);
  /* [any, callback] `part` becomes one of DEVRT_SIM_PART_*.  With `waits` not 0
   * the calling thread takes part in the schedule of host threads from here on,
   * if the simulator schedules it: the call returns when it is its turn.  It
   * does not in a host function or a kernel body, with mode=threaded, and with
   * baton=off. */
  devrt_status (*take_part)(void* self, uint32_t waits, uint32_t* part);
  /* [any] Lets other host threads and the device move, or goes on at once: one
   * decision. */
  devrt_status (*pause)(void* self);
  /* [any] Others move until `*word` is not `value`.  The word is changed by a
   * thread that takes part, or by a host function.  FAILED_PRECONDITION with
   * the report of a deadlock if nothing can change it any more. */
  devrt_status (*await_change)(void* self, const uint32_t* word,
                               uint32_t value);
  /* [any, callback] For reports of deadlocks: what the calling thread, or the
   * host function that it runs, does with the lock of the program that has the
   * word.  `state` is one of DEVRT_SIM_LOCK_*; a wait by await_change needs no
   * AWAITED.  Changes no schedule, and takes no turn. */
  devrt_status (*note_lock)(void* self, const uint32_t* word, uint32_t state);
} devrt_sim_v1;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* DEVRT_BACKENDS_ABI_DEVRT_SIM_H_ */
