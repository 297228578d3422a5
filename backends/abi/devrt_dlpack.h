/* SPDX-License-Identifier: Apache-2.0
 *
 * Extension "devrt.dlpack/0": the DLPack device types of a backend's memory.
 *
 *   static const devrt_dlpack_v0 dlpack = {
 *       sizeof dlpack, 2, 3, 13};  // kDLCUDA, kDLCUDAHost, kDLCUDAManaged
 *
 * The numbers are those of DLDeviceType.  For a backend without the extension,
 * device memory has type 12 (kDLExtDev), and pinned memory has type 1 (kDLCPU),
 * which every consumer can read.
 *
 * The extension has no functions; devrt reads it once.
 */
#ifndef DEVRT_BACKENDS_ABI_DEVRT_DLPACK_H_
#define DEVRT_BACKENDS_ABI_DEVRT_DLPACK_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The name for get_extension. */
#define DEVRT_DLPACK_EXTENSION "devrt.dlpack/0"

/* Device types of DLPack, one for each kind of memory. */
typedef struct devrt_dlpack_v0 {
  uint32_t struct_size;
  /* Device memory; device_id is the device's ordinal. */
  int32_t device_type;
  /* Page-locked host memory, with device_id 0; 1 if it has no own type. */
  int32_t pinned_type;
  /* Managed memory, with device_id 0; 0 if the backend does not have it. */
  int32_t managed_type;
} devrt_dlpack_v0;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* DEVRT_BACKENDS_ABI_DEVRT_DLPACK_H_ */
