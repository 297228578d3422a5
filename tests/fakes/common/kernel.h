// SPDX-License-Identifier: Apache-2.0
//
// The kernels that the fake drivers know, by name.

#ifndef DEVRT_TESTS_FAKES_COMMON_KERNEL_H_
#define DEVRT_TESTS_FAKES_COMMON_KERNEL_H_

#include "tests/fakes/common/work.h"

namespace devrt::fake {

struct Grid {
  unsigned blocks, threads;
};

struct Kernel {
  const char* name = nullptr;
  // Submits it; `arguments` are read before it returns.
  int (*launch)(const Work& work, const Grid& grid, void** arguments) = nullptr;
  bool has_arguments = true;
};

// nullptr: there is none of that name.
const Kernel* FindKernel(const char* name);
// Finds only kernels of devrt.elementwise/0 and devrt.reduce/0.
const Kernel* FindTensorKernel(const char* name);

}  // namespace devrt::fake

#endif  // DEVRT_TESTS_FAKES_COMMON_KERNEL_H_
