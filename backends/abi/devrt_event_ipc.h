/* SPDX-License-Identifier: Apache-2.0
 *
 * Extension "devrt.event_ipc/0": interprocess events, for backends with
 * DEVRT_CAP_EVENT_IPC.
 *
 * An event that was created with DEVRT_EVENT_IPC is exported by its process and
 * opened by others of the same machine, as an event of the same device.  Each
 * of them may record it, wait for it and ask it; what one records is what the
 * others see.  An opened event is destroyed as every other one, before the
 * exporter destroys its own (CUDA driver API, section "Interprocess events").
 */
#ifndef DEVRT_BACKENDS_ABI_DEVRT_EVENT_IPC_H_
#define DEVRT_BACKENDS_ABI_DEVRT_EVENT_IPC_H_

#include "devrt/backends/abi/devrt_plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DEVRT_EVENT_IPC_EXTENSION "devrt.event_ipc/0"

/* Plain bytes, to be carried to another process by any means. */
typedef struct devrt_event_handle_v0 {
  uint8_t bytes[64];
} devrt_event_handle_v0;

typedef struct devrt_event_ipc_v0 {
  uint32_t struct_size;
  uint32_t reserved0;
  /* [any] INVALID_ARGUMENT unless created with DEVRT_EVENT_IPC.  Recorded or
   * not; the event stays as it is. */
  devrt_status (*event_export)(void* self, devrt_event event,
                               devrt_event_handle_v0* handle);
  /* [any] In another process than the exporter's; names the device. */
  devrt_status (*event_open)(void* self, uint32_t device,
                             const devrt_event_handle_v0* handle,
                             devrt_event* event);
} devrt_event_ipc_v0;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* DEVRT_BACKENDS_ABI_DEVRT_EVENT_IPC_H_ */
