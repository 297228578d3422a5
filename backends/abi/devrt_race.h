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

/* A mistake that the detector found.  Strings are valid during the visit. */
typedef struct devrt_finding_v0 {
  uint32_t struct_size;
  uint32_t reserved0;
  const char* id;   /* "race-7f3a21c4": one for all runs of a program */
  const char* kind; /* "read-after-write" */
  const char* text; /* the report: several lines */
  const char* json; /* the report as one JSON object */
} devrt_finding_v0;

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
} devrt_race_v0;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* DEVRT_BACKENDS_ABI_DEVRT_RACE_H_ */
