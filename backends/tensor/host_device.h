// SPDX-License-Identifier: Apache-2.0
//
// Functions that run on the host and, where a device's compiler sees them, on
// the device.  DEVRT_NOINLINE: one copy of the code in a kernel, for its size.

#ifndef DEVRT_BACKENDS_TENSOR_HOST_DEVICE_H_
#define DEVRT_BACKENDS_TENSOR_HOST_DEVICE_H_

#if defined(__CUDACC__) || defined(__HIPCC__)
#define DEVRT_HOST_DEVICE __host__ __device__
#define DEVRT_NOINLINE __noinline__
#else
#define DEVRT_HOST_DEVICE
#define DEVRT_NOINLINE
#endif

#endif  // DEVRT_BACKENDS_TENSOR_HOST_DEVICE_H_
