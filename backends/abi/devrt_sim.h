/* SPDX-License-Identifier: Apache-2.0
 *
 * Extension "devrt.sim/1": functions that only a simulated accelerator has:
 * configuration, virtual clock, replay, fault injection, and a timeline of all
 * operations.  C++ programs use devrt/runtime/simulator.h.
 */
#ifndef DEVRT_BACKENDS_ABI_DEVRT_SIM_H_
#define DEVRT_BACKENDS_ABI_DEVRT_SIM_H_

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
#define DEVRT_SIM_ENGINE_HOST 5u /* host functions */

/* devrt_sim_op_v1.kind */
#define DEVRT_SIM_OP_RECORD 0u
#define DEVRT_SIM_OP_WAIT 1u
#define DEVRT_SIM_OP_KERNEL 2u
#define DEVRT_SIM_OP_COPY 3u
#define DEVRT_SIM_OP_FILL 4u
#define DEVRT_SIM_OP_HOST_FUNC 5u
#define DEVRT_SIM_OP_ALLOC 6u /* from here on alloc_async's block is usable */
#define DEVRT_SIM_OP_FREE 7u  /* from here on dealloc_async's block is free */

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
} devrt_sim_op_v1;

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
  /* [any] The replay token "dvs1:..." of the run so far; buffer of `config`. */
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
} devrt_sim_v1;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* DEVRT_BACKENDS_ABI_DEVRT_SIM_H_ */
