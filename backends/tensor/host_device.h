// SPDX-License-Identifier: Apache-2.0
//
// Functions that run on the host and, where a device's compiler sees them, on
// the device.  DEVRT_NOINLINE: one copy of the code in a kernel, for its size.

#ifndef DEVRT_BACKENDS_TENSOR_HOST_DEVICE_H_
#define DEVRT_BACKENDS_TENSOR_HOST_DEVICE_H_

#include <cstddef>
#include <cstring>

#if defined(__CUDACC__) || defined(__HIPCC__)
#define DEVRT_HOST_DEVICE __host__ __device__
#define DEVRT_NOINLINE __noinline__
#else
#define DEVRT_HOST_DEVICE
#define DEVRT_NOINLINE
#endif

namespace devrt {

// memcpy, which to one device compiler is a function of the host.
DEVRT_HOST_DEVICE inline void CopyBytes(void* to, const void* from,
                                        size_t size) {
#ifdef __HIP_DEVICE_COMPILE__
  __builtin_memcpy(to, from, size);
#else
  std::memcpy(to, from, size);
#endif
}

}  // namespace devrt

#endif  // DEVRT_BACKENDS_TENSOR_HOST_DEVICE_H_
