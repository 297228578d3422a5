// SPDX-License-Identifier: Apache-2.0
//
// The kernels that the fake driver knows, by name.

#ifndef DEVRT_TESTS_FAKES_CUDA_KERNEL_H_
#define DEVRT_TESTS_FAKES_CUDA_KERNEL_H_

#include <cuda.h>

#include "tests/fakes/cuda/driver.h"

namespace devrt::fake {

struct Grid {
  unsigned blocks, threads;
};

struct Kernel {
  const char* name = nullptr;
  // Submits it; `arguments` are read before it returns.
  CUresult (*launch)(const Target& target, const Grid& grid,
                     void** arguments) = nullptr;
};

// Those of devrt.elementwise/0 and devrt.reduce/0; nullptr: none of them.
const Kernel* FindTensorKernel(const char* name);

}  // namespace devrt::fake

#endif  // DEVRT_TESTS_FAKES_CUDA_KERNEL_H_
