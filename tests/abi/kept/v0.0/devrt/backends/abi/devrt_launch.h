/* SPDX-License-Identifier: Apache-2.0
 *
 * Extension "devrt.launch/0": kernels that are host functions.
 *
 * A backend whose device is the CPU (mtia) runs a body given by the caller as
 * a kernel: asynchronously, on the device's own view of its memory.  Backends
 * whose kernels are native code do not have this extension; devrt::Launch
 * then calls the body at once and lets it enqueue on the native stream.
 */
#ifndef DEVRT_BACKENDS_ABI_DEVRT_LAUNCH_H_
#define DEVRT_BACKENDS_ABI_DEVRT_LAUNCH_H_

#include "devrt/backends/abi/devrt_plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DEVRT_LAUNCH_EXTENSION "devrt.launch/0"

#define DEVRT_ACCESS_READ 1u
#define DEVRT_ACCESS_WRITE 2u

/* A range that a kernel reads, writes or both (READ | WRITE). */
typedef struct devrt_access_v0 {
  void* ptr;
  uint64_t size; /* bytes; 0 is ignored */
  uint32_t mode; /* DEVRT_ACCESS_* */
  uint32_t reserved0;
} devrt_access_v0;

/* What a running body may ask.  Valid during the body only. */
typedef struct devrt_kernel_context_v0 {
  uint32_t struct_size;
  uint32_t device;
  void* impl;
  /* The address at which the body may touch [ptr, ptr + size) for `mode`.
   * NULL, and a sticky fault after the body (illegal address), when the range
   * is not live memory of this device, of a peer that it may access, or
   * pinned host memory; size 0 checks nothing. */
  void* (*local)(const struct devrt_kernel_context_v0* context, const void* ptr,
                 uint64_t size, uint32_t mode);
  /* A device-side assertion: a sticky fault with `text` when the body ends. */
  void (*fail)(const struct devrt_kernel_context_v0* context, const char* text,
               uint64_t size);
} devrt_kernel_context_v0;

typedef struct devrt_launch_desc_v0 {
  uint32_t struct_size;
  uint32_t access_count;
  const devrt_access_v0* accesses; /* copied; none: all memory is possible */
  const char* name;                /* for reports, or NULL; copied */
  uint64_t duration_ns;            /* simulated; 0: estimated from accesses */
  void (*body)(void* arg, const devrt_kernel_context_v0* context);
  /* Called exactly once, outside every lock and not from a host function,
   * after `body` or instead of it; may be NULL. */
  void (*destroy)(void* arg);
  void* arg;
} devrt_launch_desc_v0;

typedef struct devrt_launch_v0 {
  uint32_t struct_size;
  uint32_t reserved0;
  /* [any] On an error `arg` stays the caller's. */
  devrt_status (*launch)(void* self, devrt_stream stream,
                         const devrt_launch_desc_v0* desc);
} devrt_launch_v0;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* DEVRT_BACKENDS_ABI_DEVRT_LAUNCH_H_ */
