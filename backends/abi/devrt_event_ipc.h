/* SPDX-License-Identifier: Apache-2.0
 *
 * Extension "devrt.event_ipc/0": interprocess events, for backends with
 * DEVRT_CAP_EVENT_IPC.
 *
 * A process exports an event that was created with DEVRT_EVENT_IPC; other
 * processes on this machine open it as an event of this device.  Each process
 * may record the event, wait for it and query it, and sees the records of all
 * others.  A process destroys an opened event like any other event, before the
 * exporter destroys its own (CUDA driver API, section "Interprocess events").
 */
#ifndef DEVRT_BACKENDS_ABI_DEVRT_EVENT_IPC_H_
#define DEVRT_BACKENDS_ABI_DEVRT_EVENT_IPC_H_

#include "devrt/backends/abi/devrt_plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The name for get_extension. */
#define DEVRT_EVENT_IPC_EXTENSION "devrt.event_ipc/0"

/* Plain bytes; the program sends them to another process. */
typedef struct devrt_event_handle_v0 {
  uint8_t bytes[64];
} devrt_event_handle_v0;

/* The functions of the extension. */
typedef struct devrt_event_ipc_v0 {
  uint32_t struct_size;
  uint32_t reserved0;
  /* [any] Fills `handle`.  INVALID_ARGUMENT unless the event was created with
   * DEVRT_EVENT_IPC.  The event may be recorded or not, and stays unchanged. */
  devrt_status (*event_export)(void* self, devrt_event event,
                               devrt_event_handle_v0* handle);
  /* [any] Opens an event of another process; `device` is the event's device. */
  devrt_status (*event_open)(void* self, uint32_t device,
                             const devrt_event_handle_v0* handle,
                             devrt_event* event);
} devrt_event_ipc_v0;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* DEVRT_BACKENDS_ABI_DEVRT_EVENT_IPC_H_ */
