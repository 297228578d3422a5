// SPDX-License-Identifier: Apache-2.0
//
// What device code calls, for a block whose threads are threads of the host.
// The build includes this file before all others and defines
// __HIP_DEVICE_COMPILE__, so that the kernels' headers have their device code.

#ifndef DEVRT_TESTS_GPU_DEVICE_THREADS_H_
#define DEVRT_TESTS_GPU_DEVICE_THREADS_H_

#include <cstdint>

#define __device__

namespace devrt::gpu {

struct ThreadIndex {
  uint32_t x;
};
inline thread_local ThreadIndex threadIdx;

// Each waits until all threads of the block, or of the warp, have called it.
void __syncthreads();
uint32_t ExchangeInWarp(uint32_t word, uint32_t lane);

inline uint32_t __shfl_down_sync(uint32_t, uint32_t word, uint32_t distance) {
  const uint32_t lane = threadIdx.x % 32;
  return ExchangeInWarp(word, lane + distance < 32 ? lane + distance : lane);
}
inline uint32_t __shfl_xor_sync(uint32_t, uint32_t word, int mask) {
  return ExchangeInWarp(word, threadIdx.x % 32 ^ static_cast<uint32_t>(mask));
}

inline uint32_t atomicAdd(uint32_t* word, uint32_t value) {
  return __atomic_fetch_add(word, value, __ATOMIC_SEQ_CST);
}
inline uint32_t atomicExch(uint32_t* word, uint32_t value) {
  return __atomic_exchange_n(word, value, __ATOMIC_SEQ_CST);
}
inline uint32_t atomicCAS(uint32_t* word, uint32_t expected, uint32_t value) {
  (void)__atomic_compare_exchange_n(word, &expected, value, false,
                                    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  return expected;
}
inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }

}  // namespace devrt::gpu

#endif  // DEVRT_TESTS_GPU_DEVICE_THREADS_H_
