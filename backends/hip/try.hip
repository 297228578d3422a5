// SPDX-License-Identifier: Apache-2.0
//
// Compiles where the compiler knows a target and has its device libraries.
#include <hip/hip_runtime.h>

extern "C" __global__ void devrt_try(uint32_t* word) {
  *word = threadIdx.x;
}
