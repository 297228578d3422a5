// SPDX-License-Identifier: Apache-2.0
//
// Device functions that the kernels use.  The host has functions of these
// names, so that tests and the fake drivers run the kernels' own code.

#ifndef DEVRT_BACKENDS_GPU_DEVICE_CODE_H_
#define DEVRT_BACKENDS_GPU_DEVICE_CODE_H_

#ifdef __HIP__
#include <hip/hip_runtime.h>
// HIP's compiler puts parameters into constant memory by itself.
#define __grid_constant__
#endif

#include <cstddef>
#include <cstdint>

#include "backends/gpu/tensor_args.h"

#if defined(__CUDA_ARCH__) || defined(__HIP_DEVICE_COMPILE__)
#define DEVRT_ON_DEVICE 1
#else
#define DEVRT_ON_DEVICE 0
#endif

// Before a loop: that the device's compiler unrolls it, or does not.
#if DEVRT_ON_DEVICE
#define DEVRT_UNROLLED _Pragma("unroll")
#define DEVRT_NOT_UNROLLED _Pragma("unroll 1")
#else
#define DEVRT_UNROLLED
#define DEVRT_NOT_UNROLLED
#endif

namespace devrt::gpu {

// The block of threads that runs the code.
struct Block {
  uint32_t index;  // in the grid
  uint32_t count;

  // Calls f(thread) in each thread.
  template <typename F>
  DEVRT_HOST_DEVICE void ForEachThread(const F& f) const {
#if DEVRT_ON_DEVICE
    f(static_cast<uint32_t>(threadIdx.x));
#else
    for (uint32_t thread = 0; thread < kThreads; ++thread) f(thread);
#endif
  }

  // Calls f, waits until all threads have called it, and makes their writes
  // visible to all.  All threads must reach it.  On the host one call stands
  // for all threads.
  template <typename F>
  DEVRT_HOST_DEVICE void Together(const F& f) const {
    ForEachThread(f);
#if DEVRT_ON_DEVICE
    __syncthreads();
#endif
  }
};

// A value of each thread of a block, in a register.
template <typename T>
struct PerThread {
#if DEVRT_ON_DEVICE
  T value;
  __device__ T& operator[](uint32_t) { return value; }
#else
  T values[kThreads];
  T& operator[](uint32_t thread) { return values[thread]; }
#endif
};

// Returns the former value.
DEVRT_HOST_DEVICE inline uint32_t AtomicAdd(uint32_t* word, uint32_t value) {
#if DEVRT_ON_DEVICE
  return atomicAdd(word, value);
#else
  return __atomic_fetch_add(word, value, __ATOMIC_SEQ_CST);
#endif
}

DEVRT_HOST_DEVICE inline uint32_t AtomicExchange(uint32_t* word,
                                                 uint32_t value) {
#if DEVRT_ON_DEVICE
  return atomicExch(word, value);
#else
  return __atomic_exchange_n(word, value, __ATOMIC_SEQ_CST);
#endif
}

// Sets *word to `value` if it is `expected`.
DEVRT_HOST_DEVICE inline void AtomicReplace(uint32_t* word, uint32_t expected,
                                            uint32_t value) {
#if DEVRT_ON_DEVICE
  (void)atomicCAS(word, expected, value);
#else
  (void)__atomic_compare_exchange_n(word, &expected, value, false,
                                    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
#endif
}

// Makes the thread's earlier writes visible to the device before its later
// ones.
DEVRT_HOST_DEVICE inline void Fence() {
#if DEVRT_ON_DEVICE
  __threadfence();
#else
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}

#if defined(__CUDACC__) || defined(__HIP__)
// Reads a device-wide clock, in nanoseconds or in ticks of a rate that the host
// knows.
__device__ inline uint64_t Clock() {
#if defined(__CUDA_ARCH__)
  uint64_t now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
#elif defined(__HIP_DEVICE_COMPILE__)
  return __builtin_amdgcn_s_memrealtime();
#else
  return 0;
#endif
}

// Ends of a kernel that must not go on: an assertion, and an instruction that
// traps.
__device__ inline void FailAssertion() {
#ifdef __HIP__
  // Printing the assertion would need the host's help, so this traps as well.
  __builtin_trap();
#else
  __assert_fail("fault", __FILE__, __LINE__, "devrt_fault");
#endif
}
__device__ inline void Trap() {
#ifdef __HIP__
  __builtin_trap();
#else
  asm volatile("trap;");
#endif
}
#endif

#if DEVRT_ON_DEVICE
// Returns `value` with each of its words replaced by exchange(word).
template <typename T, typename F>
__device__ T ExchangeWords(T value, const F& exchange) {
  static_assert(sizeof(T) % sizeof(uint32_t) == 0);
  uint32_t words[sizeof(T) / sizeof(uint32_t)];
  CopyBytes(words, &value, sizeof value);
  for (uint32_t& word : words) word = exchange(word);
  CopyBytes(&value, words, sizeof value);
  return value;
}

// Returns the value of the thread that is `distance` further in a warp of 32.
template <typename T>
__device__ T ShuffleDown(T value, uint32_t distance) {
  return ExchangeWords(value, [&](uint32_t word) {
#ifdef __HIP__
    return __shfl_down(word, distance, 32);
#else
    return __shfl_down_sync(0xffffffffu, word, distance);
#endif
  });
}

// Returns the value of the thread whose number in a warp of 32 differs in the
// bits of `mask`.
template <typename T>
__device__ T ShuffleXor(T value, uint32_t mask) {
  return ExchangeWords(value, [&](uint32_t word) {
#ifdef __HIP__
    return __shfl_xor(word, static_cast<int>(mask), 32);
#else
    return __shfl_xor_sync(0xffffffffu, word, static_cast<int>(mask));
#endif
  });
}
#endif

// Reads memory past the caches, so that writes of other blocks are seen.
template <typename T>
DEVRT_HOST_DEVICE T LoadFresh(const T* from) {
  static_assert(sizeof(T) % sizeof(uint32_t) == 0);
  uint32_t words[sizeof(T) / sizeof(uint32_t)];
  const volatile auto* const source =
      reinterpret_cast<const volatile uint32_t*>(from);
  for (size_t i = 0; i < sizeof words / sizeof words[0]; ++i) {
#if DEVRT_ON_DEVICE
    words[i] = source[i];
#else
    words[i] = __atomic_load_n(source + i, __ATOMIC_SEQ_CST);
#endif
  }
  T value;
  CopyBytes(&value, words, sizeof value);
  return value;
}

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_DEVICE_CODE_H_
