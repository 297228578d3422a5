/* SPDX-License-Identifier: Apache-2.0
 *
 * Extension "devrt.faults/0": the layer `faults` (layers/faults) makes calls of
 * a backend fail by rules.  The layer adds the extension to each backend, and
 * no backend has it.  C++ programs use devrt/sim/faults.h.
 */
#ifndef DEVRT_BACKENDS_ABI_DEVRT_FAULTS_H_
#define DEVRT_BACKENDS_ABI_DEVRT_FAULTS_H_

#include "devrt/backends/abi/devrt_plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The name for get_extension. */
#define DEVRT_FAULTS_EXTENSION "devrt.faults/0"

/* devrt_fault_point_v0.forms: how the call can fail. */
#define DEVRT_FAULT_EARLY 1u /* it returns an error and has no effect */
#define DEVRT_FAULT_LATE 2u  /* it has its effect, and returns an error */
#define DEVRT_FAULT_OOM 4u   /* it finds no memory */
/* The call ends an object.  An early error leaves the object alive, and its
 * owner may have no way to try again. */
#define DEVRT_FAULT_ENDS 8u

/* A call that a rule can hit.  Strings are valid during the visit. */
typedef struct devrt_fault_point_v0 {
  uint32_t struct_size;
  uint32_t forms;   /* DEVRT_FAULT_* */
  const char* call; /* the entry point: "alloc", "probe.spin" */
  uint64_t index;   /* its place among the calls of that name, from 1 */
  int32_t device;   /* -1: the call names none */
  int32_t line;     /* of the program */
  const char* file; /* or NULL */
  uint64_t bytes;   /* that the call asks for or moves; 0: none */
} devrt_fault_point_v0;

/* How many objects of a backend are alive, by the calls that the layer saw. */
typedef struct devrt_fault_live_v0 {
  uint32_t struct_size;
  uint32_t reserved0;
  uint64_t streams; /* without default streams */
  uint64_t events;
  uint64_t blocks; /* device memory, stream-ordered too */
  uint64_t pinned;
  uint64_t registered;
  uint64_t flags;
  uint64_t virtual_memory; /* ranges, chunks and mappings */
} devrt_fault_live_v0;

/* The functions of the extension.  They concern one backend. */
typedef struct devrt_faults_v0 {
  uint32_t struct_size;
  uint32_t reserved0;
  /* [any] Replaces the rules; the text is that of DEVRT_FAULTS, or empty for no
   * rule.  Rules count from this call on.  INVALID_ARGUMENT, with the rules
   * unchanged, for a mistake. */
  devrt_status (*set)(void* self, const char* rules, uint64_t size);
  /* [any] Turns the record for `points` on or off; off at first.  Turning it on
   * empties the record. */
  devrt_status (*record)(void* self, uint32_t on);
  /* [any] Visits the recorded calls in their order.  `visit` must not call
   * devrt. */
  devrt_status (*points)(void* self,
                         void (*visit)(void* arg,
                                       const devrt_fault_point_v0* point),
                         void* arg);
  /* [any] How often rules have made a call fail since `set`.  `*last` is the
   * last of these calls, with strings that are valid until the next call; it is
   * left alone if `*count` is 0. */
  devrt_status (*fired)(void* self, uint64_t* count,
                        devrt_fault_point_v0* last);
  /* [any] Fills at most live->struct_size bytes. */
  devrt_status (*live)(void* self, devrt_fault_live_v0* live);
  /* [any] Writes the rules that concern the backend, in the grammar that `set`
   * reads, into buffer[0, capacity).  `size` is the needed size, without a NUL;
   * 0: there is no rule. */
  devrt_status (*rules)(void* self, char* buffer, uint64_t capacity,
                        uint64_t* size);
} devrt_faults_v0;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* DEVRT_BACKENDS_ABI_DEVRT_FAULTS_H_ */
