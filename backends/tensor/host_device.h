// SPDX-License-Identifier: Apache-2.0
//
// Marks for functions that run on the host and, with a device compiler, also on
// the device.  DEVRT_NOINLINE keeps one copy of a function in a kernel, which
// keeps the kernel small.

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

// memcpy; in HIP's device code the name is a host function.
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
