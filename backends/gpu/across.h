// SPDX-License-Identifier: Apache-2.0
//
// Words that begin anywhere: they lie in two aligned ones.

#ifndef DEVRT_BACKENDS_GPU_ACROSS_H_
#define DEVRT_BACKENDS_GPU_ACROSS_H_

#include <cstdint>

#include "backends/gpu/device_code.h"

namespace devrt::gpu {

// Returns the word that begins `bytes` behind the beginning of `low`.
DEVRT_HOST_DEVICE inline uint32_t WordAcross(uint32_t low, uint32_t high,
                                             uint32_t bytes) {
#if defined(__CUDA_ARCH__)
  return __funnelshift_r(low, high, bytes * 8);
#else
  return static_cast<uint32_t>((uint64_t{high} << 32 | low) >> (8 * bytes));
#endif
}

// Of 2 * kWords words makes the kWords words that begin `bytes` behind, which
// is less than their size.  kWords is a power of two.
template <int kWords>
DEVRT_HOST_DEVICE void MoveAcross(uint32_t* words, uint32_t bytes) {
  int count = 2 * kWords;
  DEVRT_UNROLLED
  for (int step = kWords / 2; step > 0; step /= 2) {
    count -= step;
    DEVRT_UNROLLED
    for (int i = 0; i < count; ++i) {
      const bool moves = (bytes & static_cast<uint32_t>(4 * step)) != 0;
      words[i] = moves ? words[i + step] : words[i];
    }
  }
  DEVRT_UNROLLED
  for (int i = 0; i < kWords; ++i) {
    words[i] = WordAcross(words[i], words[i + 1], bytes % 4);
  }
}

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_ACROSS_H_
