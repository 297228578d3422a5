/* SPDX-License-Identifier: Apache-2.0
 *
 * Extension "devrt.probe/0": kernels that keep a stream busy, or fault, for
 * tests of what waits and what does not.  A backend that offers it has every
 * function but `fault`.
 */
#ifndef DEVRT_BACKENDS_ABI_DEVRT_PROBE_H_
#define DEVRT_BACKENDS_ABI_DEVRT_PROBE_H_

#include "devrt/backends/abi/devrt_plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The name for get_extension. */
#define DEVRT_PROBE_EXTENSION "devrt.probe/0"

/* The `form` of devrt_probe_v0.fault. */
#define DEVRT_FAULT_NULL_WRITE 0u /* illegal address: kernel writes NULL */
#define DEVRT_FAULT_MISALIGNED 1u /* misaligned address */
#define DEVRT_FAULT_ASSERT 2u     /* device-side assertion */
#define DEVRT_FAULT_TRAP 3u       /* launch failure */

/* A flag that kernels wait for; starts cleared. */
typedef struct devrt_probe_flag* devrt_flag;

/* The functions of the extension. */
typedef struct devrt_probe_v0 {
  uint32_t struct_size;
  uint32_t reserved0;
  /* [any] Enqueues a kernel that runs for `nanoseconds` of device time. */
  devrt_status (*spin)(void* self, devrt_stream stream, uint64_t nanoseconds);
  /* [any] Does not wait. */
  devrt_status (*flag_create)(void* self, uint32_t device, devrt_flag* flag);
  /* [any] All kernels that use the flag are complete. */
  devrt_status (*flag_destroy)(void* self, devrt_flag flag);
  /* [any] Enqueues a kernel that ends when the flag is set, or after
   * `timeout_ns` of device time; 0 waits without a limit. */
  devrt_status (*flag_wait)(void* self, devrt_stream stream, devrt_flag flag,
                            uint64_t timeout_ns);
  /* [any, callback] Sets or clears the flag from the host at once. */
  devrt_status (*flag_set)(void* self, devrt_flag flag, uint32_t value);
  /* [any] Sets or clears the flag in stream order. */
  devrt_status (*flag_set_async)(void* self, devrt_stream stream,
                                 devrt_flag flag, uint32_t value);
  /* [any] Enqueues a kernel that causes the fault DEVRT_FAULT_*.  NULL: the
   * backend cannot cause faults. */
  devrt_status (*fault)(void* self, devrt_stream stream, uint32_t form);
} devrt_probe_v0;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* DEVRT_BACKENDS_ABI_DEVRT_PROBE_H_ */
