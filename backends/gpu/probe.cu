// SPDX-License-Identifier: Apache-2.0
//
// The kernels of devrt.probe/0.  Each runs in one thread of one block.
#include <cstdint>

namespace {

__device__ uint64_t Now() {
#ifdef __CUDA_ARCH__
  uint64_t now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
#else
  return 0;
#endif
}

}  // namespace

extern "C" __global__ void devrt_spin(uint64_t nanoseconds) {
  const uint64_t begin = Now();
  while (Now() - begin < nanoseconds) {
  }
}

// 0: waits for ever.
extern "C" __global__ void devrt_wait(const volatile uint32_t* flag,
                                      uint64_t timeout) {
  const uint64_t begin = Now();
  while (*flag == 0) {
    if (timeout != 0 && Now() - begin >= timeout) return;
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
      __assert_fail("fault", __FILE__, __LINE__, "devrt_fault");
      break;
    default:
      asm volatile("trap;");
  }
}
