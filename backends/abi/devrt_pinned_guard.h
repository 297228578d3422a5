/* SPDX-License-Identifier: Apache-2.0
 *
 * Extension "devrt.pinned_guard/0" of a simulated accelerator: a race detector
 * closes pages of pinned memory to the host while work uses them, and learns
 * which pages the host touched nevertheless.
 *
 * A touch of a closed page is noted and opens the page, so that the program
 * goes on.  The backend's own work, and code of the program that the backend
 * runs, such as host functions, never count as touches.  A system call that
 * gets the address of a closed page fails with EFAULT.
 *
 * Threads: all functions are [any].  They neither wait nor call the host.
 */
#ifndef DEVRT_BACKENDS_ABI_DEVRT_PINNED_GUARD_H_
#define DEVRT_BACKENDS_ABI_DEVRT_PINNED_GUARD_H_

#include "devrt/backends/abi/devrt_launch.h"
#include "devrt/backends/abi/devrt_plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The name for get_extension. */
#define DEVRT_PINNED_GUARD_EXTENSION "devrt.pinned_guard/0"

/* A touch of a closed page. */
typedef struct devrt_host_touch_v0 {
  const void* address;
  const void* instruction; /* NULL if the processor does not say */
  uint32_t mode;           /* DEVRT_ACCESS_*; 0: unknown */
  uint32_t reserved0;
} devrt_host_touch_v0;

/* The functions of the extension. */
typedef struct devrt_pinned_guard_v0 {
  uint32_t struct_size;
  uint32_t reserved0;
  /* [any] Prepares the guard, at the latest when the backend is opened: the
   * operations then reach pinned memory by addresses of their own.
   * FAILED_PRECONDITION if memory was allocated before. */
  devrt_status (*enable)(void* self);
  /* [any] From now on the host may do `access`, bits of DEVRT_ACCESS_*, to the
   * pages of [ptr, ptr + size), which begins and ends at page boundaries and is
   * pinned memory; 0: nothing. */
  devrt_status (*protect)(void* self, void* ptr, uint64_t size,
                          uint32_t access);
  /* [any] Takes at most `capacity` touches out of the list, in no order; *taken
   * is their number.  The list has room for few: later touches are not noted
   * until it is emptied. */
  devrt_status (*take_touches)(void* self, devrt_host_touch_v0* touches,
                               uint32_t capacity, uint32_t* taken);
} devrt_pinned_guard_v0;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* DEVRT_BACKENDS_ABI_DEVRT_PINNED_GUARD_H_ */
