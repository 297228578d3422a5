/* SPDX-License-Identifier: Apache-2.0
 *
 * Extension "devrt.launch/0": kernels that are host functions.
 *
 * A backend whose device is the CPU (mtia) runs a C function of the caller as a
 * kernel: asynchronously, and with the device's own addresses of its memory.
 * Backends whose kernels are native code do not have this extension;
 * devrt::Launch then calls the function at once, and the function enqueues
 * native work on the native stream.
 */
#ifndef DEVRT_BACKENDS_ABI_DEVRT_LAUNCH_H_
#define DEVRT_BACKENDS_ABI_DEVRT_LAUNCH_H_

#include "devrt/backends/abi/devrt_plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The name for get_extension. */
#define DEVRT_LAUNCH_EXTENSION "devrt.launch/0"

/* What a kernel does with a range. */
#define DEVRT_ACCESS_READ 1u
#define DEVRT_ACCESS_WRITE 2u
/* Beside READ | WRITE: the kernel updates the range with atomic operations of
 * one operator.  Such kernels may run at one time. */
#define DEVRT_ACCESS_REDUCE 4u

/* A range that a kernel reads, writes, or both (READ | WRITE). */
typedef struct devrt_access_v0 {
  void* ptr;
  uint64_t size; /* bytes; 0 is ignored */
  uint32_t mode; /* DEVRT_ACCESS_* */
  /* With REDUCE: a number that the program chooses for the operator; updates
   * with different numbers must not run at one time.  Otherwise 0. */
  uint32_t reduction;
} devrt_access_v0;

/* Functions for the body of a kernel; valid while the body runs. */
typedef struct devrt_kernel_context_v0 {
  uint32_t struct_size;
  uint32_t device; /* ordinal */
  void* impl;      /* of the backend */
  /* The address at which the body may access [ptr, ptr + size) for `mode`.
   * NULL if the range is not live memory of this device, memory of a peer that
   * the device may access, or pinned host memory; after the body the device
   * then has a sticky fault (illegal address).  Size 0 checks nothing. */
  void* (*local)(const struct devrt_kernel_context_v0* context, const void* ptr,
                 uint64_t size, uint32_t mode);
  /* A device-side assertion: when the body ends, the device has a sticky fault
   * with `text`. */
  void (*fail)(const struct devrt_kernel_context_v0* context, const char* text,
               uint64_t size);
} devrt_kernel_context_v0;

/* A kernel to launch: `body` runs with `arg`. */
typedef struct devrt_launch_desc_v0 {
  uint32_t struct_size;
  uint32_t access_count;           /* of `accesses` */
  const devrt_access_v0* accesses; /* copied; none: may access all memory */
  const char* name;                /* for reports, or NULL; copied */
  uint64_t duration_ns;            /* simulated; 0: estimated from accesses */
  void (*body)(void* arg, const devrt_kernel_context_v0* context);
  /* Called exactly once, after `body` or in place of it, without any lock and
   * not from a host function; may be NULL. */
  void (*destroy)(void* arg);
  void* arg;
} devrt_launch_desc_v0;

/* The function of the extension. */
typedef struct devrt_launch_v0 {
  uint32_t struct_size;
  uint32_t reserved0;
  /* [any] Enqueues the kernel.  After an error the caller still owns `arg`. */
  devrt_status (*launch)(void* self, devrt_stream stream,
                         const devrt_launch_desc_v0* desc);
} devrt_launch_v0;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* DEVRT_BACKENDS_ABI_DEVRT_LAUNCH_H_ */
