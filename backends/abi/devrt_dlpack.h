/* SPDX-License-Identifier: Apache-2.0
 *
 * Extension "devrt.dlpack/0": what DLPack calls this backend's memory.
 *
 *   static const devrt_dlpack_v0 dlpack = {
 *       sizeof dlpack, 2, 3, 13};  // kDLCUDA, kDLCUDAHost, kDLCUDAManaged
 *
 * The numbers are those of DLDeviceType.  Without the extension device memory
 * is 12 (kDLExtDev) and pinned memory what every consumer can read, 1 (kDLCPU).
 *
 * It has no functions and is asked once.
 */
#ifndef DEVRT_BACKENDS_ABI_DEVRT_DLPACK_H_
#define DEVRT_BACKENDS_ABI_DEVRT_DLPACK_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DEVRT_DLPACK_EXTENSION "devrt.dlpack/0"

typedef struct devrt_dlpack_v0 {
  uint32_t struct_size;
  /* Device memory; its device_id is the device's ordinal. */
  int32_t device_type;
  /* Page-locked host memory, device_id 0.  1: as plain host memory. */
  int32_t pinned_type;
  /* Managed memory, device_id 0.  0: the backend has none. */
  int32_t managed_type;
} devrt_dlpack_v0;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* DEVRT_BACKENDS_ABI_DEVRT_DLPACK_H_ */
