// SPDX-License-Identifier: Apache-2.0
//
// The kernels of devrt.probe/0.  Each runs in one thread of one block.  Times
// are in ticks of the clock, which Api::Ticks converts.
#include "backends/gpu/device_code.h"

using devrt::gpu::Clock;

extern "C" __global__ void devrt_spin(uint64_t ticks) {
  const uint64_t begin = Clock();
  while (Clock() - begin < ticks) {
  }
}

// `timeout` 0 waits for ever.
extern "C" __global__ void devrt_wait(const volatile uint32_t* flag,
                                      uint64_t timeout) {
  const uint64_t begin = Clock();
  while (*flag == 0) {
    if (timeout != 0 && Clock() - begin >= timeout) return;
  }
  __threadfence_system();
}

extern "C" __global__ void devrt_set(volatile uint32_t* flag, uint32_t value) {
  __threadfence_system();
  *flag = value;
}

extern "C" __global__ void devrt_fault(uint32_t form, uint64_t address) {
  switch (form) {
    case 0:
      *reinterpret_cast<volatile uint32_t*>(address) = 1;
      break;
    case 1:
      *reinterpret_cast<volatile uint64_t*>(address + 4) = 1;
      break;
    case 2:
      devrt::gpu::FailAssertion();
      break;
    default:
      devrt::gpu::Trap();
  }
}
