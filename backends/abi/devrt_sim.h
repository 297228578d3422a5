/* SPDX-License-Identifier: Apache-2.0
 *
 * Extension "devrt.sim/1": what only a simulated accelerator can do.
 * Configuration, the virtual clock, replay, fault injection and the record of
 * what ran when.  C++ programs use devrt/runtime/simulator.h.
 */
#ifndef DEVRT_BACKENDS_ABI_DEVRT_SIM_H_
#define DEVRT_BACKENDS_ABI_DEVRT_SIM_H_

#include "devrt/backends/abi/devrt_plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

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
#define DEVRT_SIM_OP_ALLOC 6u /* the block of alloc_async may be used */
#define DEVRT_SIM_OP_FREE 7u  /* that of dealloc_async is gone */

/* devrt_sim_op_v1.state */
#define DEVRT_SIM_PENDING 0u
#define DEVRT_SIM_RUNNING 1u
#define DEVRT_SIM_DONE 2u
#define DEVRT_SIM_FAILED 3u    /* faulted */
#define DEVRT_SIM_DISCARDED 4u /* did not run: its device or origin failed */

/* One operation of the timeline.  Strings live until the visit returns. */
typedef struct devrt_sim_op_v1 {
  uint32_t struct_size;
  uint32_t device;
  uint64_t stream; /* number of the stream, unique in the machine */
  uint64_t seq;    /* number of the operation in its stream, from 1 */
  uint32_t kind;   /* DEVRT_SIM_OP_* */
  uint32_t engine; /* DEVRT_SIM_ENGINE_* */
  uint32_t state;  /* DEVRT_SIM_* */
  uint32_t thread; /* number of the host thread that submitted it */
  uint64_t bytes;  /* of copies, fills, allocations and frees */
  uint64_t submit_ns;
  uint64_t begin_ns; /* 0 while not begun */
  uint64_t end_ns;   /* 0 while not ended */
  int32_t line;
  uint32_t dep_count;
  const char* name;           /* "copy H2D", "scale" */
  const char* file;           /* or NULL */
  const uint64_t* dep_stream; /* what it waited for: {stream, seq} pairs */
  const uint64_t* dep_seq;
  const void* native_stream; /* the handle, NULL for the legacy stream */
  /* What devrt.stream_number/0 of the host said when it was submitted. */
  uint64_t host_stream;
} devrt_sim_op_v1;

/* devrt_sim_fault_v1.kind */
#define DEVRT_SIM_FAULT_API 0u    /* a call returns an error, nothing else */
#define DEVRT_SIM_FAULT_KERNEL 1u /* an operation faults at its end */
#define DEVRT_SIM_FAULT_LOST 2u   /* the device is gone, at once */

typedef struct devrt_sim_fault_v1 {
  uint32_t struct_size;
  uint32_t kind;
  uint32_t device;
  uint32_t nth;        /* 1: the next matching call or operation */
  int32_t native_code; /* CUDA's number: 2, 46, 214, 700, 710, 719 ... */
  uint32_t reserved0;
  const char* slot; /* API: name of the table slot, "alloc"; NULL: any.
                       KERNEL: name of the operation; NULL: any */
} devrt_sim_fault_v1;

typedef struct devrt_sim_stats_v1 {
  uint32_t struct_size;
  uint32_t threads;      /* host threads that joined the machine */
  uint64_t live_streams; /* created and not destroyed; default streams not */
  uint64_t live_events;
  uint64_t live_blocks; /* device allocations */
  uint64_t live_pinned;
  uint64_t live_registered;
  uint64_t pending_ops;
  uint64_t completed_ops;
  uint64_t created_streams; /* ever */
  uint64_t created_events;
  uint64_t host_funcs_run;
  uint64_t kernels_run;
} devrt_sim_stats_v1;

typedef struct devrt_sim_v1 {
  uint32_t struct_size;
  uint32_t reserved0;
  /* [load] Starts afresh with `config` (the syntax of DEVRT_MTIA, on top of
   * the defaults, not of the present state).  All handles and memory of
   * before are gone: stale handles are errors.  The number of devices cannot
   * change: FAILED_PRECONDITION. */
  devrt_status (*reset)(void* self, const char* config, uint64_t size);
  /* [any, callback] The whole effective configuration, "key=value,..." into
   * buffer[0, capacity); `size` is what is needed, without a NUL. */
  devrt_status (*config)(void* self, char* buffer, uint64_t capacity,
                         uint64_t* size);
  /* [any, callback] The machine's clock: virtual or steady, from reset on. */
  devrt_status (*now_ns)(void* self, uint64_t* now);
  /* [any] Lets other host threads and the device run (one decision). */
  devrt_status (*yield)(void* self);
  /* [any] Hash of everything that happened, and the number of steps. */
  devrt_status (*trace_hash)(void* self, uint64_t* hash, uint64_t* steps);
  /* [any] Replay token "dvs1:..." of the run so far; as for config. */
  devrt_status (*token)(void* self, char* buffer, uint64_t capacity,
                        uint64_t* size);
  /* [load] reset to the token's configuration, then follow its decisions. */
  devrt_status (*replay)(void* self, const char* token, uint64_t size);
  /* [any] Arms a fault; any number at a time. */
  devrt_status (*inject)(void* self, const devrt_sim_fault_v1* fault);
  /* [any] Whether operations are kept for `timeline`; off at first. */
  devrt_status (*timeline_enable)(void* self, uint32_t on);
  /* [any] Visits the kept operations in order of submission.  `visit` must
   * not call devrt. */
  devrt_status (*timeline)(void* self,
                           void (*visit)(void* arg, const devrt_sim_op_v1* op),
                           void* arg);
  /* [any, callback] */
  devrt_status (*stats)(void* self, devrt_sim_stats_v1* stats);
  /* [any] The last deadlock report's text, empty if none; as for config. */
  devrt_status (*deadlock_report)(void* self, char* buffer, uint64_t capacity,
                                  uint64_t* size);
  /* [any] Copies bytes out of or into device memory at once, without any
   * order or checking of pending work: for tests' final comparisons. */
  devrt_status (*peek)(void* self, const void* device_ptr, void* host,
                       uint64_t size);
  devrt_status (*poke)(void* self, void* device_ptr, const void* host,
                       uint64_t size);
  /* [any] For a tracer, beside timeline and independent of timeline_enable:
   * visits the operations that have ended and were not visited before.  The
   * first call begins; operations that ended before it are not seen. */
  devrt_status (*timeline_take)(void* self,
                                void (*visit)(void* arg,
                                              const devrt_sim_op_v1* op),
                                void* arg);
} devrt_sim_v1;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* DEVRT_BACKENDS_ABI_DEVRT_SIM_H_ */
