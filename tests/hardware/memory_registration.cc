// SPDX-License-Identifier: Apache-2.0
//
// Host memory that CUDA's driver itself has registered, so that devrt has not
// seen the registration (docs/reference/semantics.md 3.2).

#include "tests/hardware/driver.h"
#include "tests/hardware/memory_test.h"

namespace devrt::hardware {
namespace {

class MemoryRegistration : public MemoryTest {};

TEST_F(MemoryRegistration, CudartRegister) {
  if (BackendName() != "cuda") GTEST_SKIP() << "asks CUDA's driver";
  alignas(4096) static char memory[4096];
  const Stream s = NewStream();  // a context
  const CUcontext before = CurrentContext();
  CUcontext context = nullptr;
  DRIVER_OK(DRIVER_CALL(cuDevicePrimaryCtxRetain)(&context, 0));
  DRIVER_OK(DRIVER_CALL(cuCtxSetCurrent)(context));
  DRIVER_OK(DRIVER_CALL(cuMemHostRegister)(memory, 80, 0));
  EXPECT_THAT(IsPinned(memory), IsOkAndHolds(true));
  EXPECT_THAT(IsPinned(memory + 40), IsOkAndHolds(true));
  DRIVER_OK(DRIVER_CALL(cuMemHostUnregister)(memory));
  DRIVER_OK(DRIVER_CALL(cuCtxSetCurrent)(before));
  DRIVER_OK(DRIVER_CALL(cuDevicePrimaryCtxRelease)(0));
  EXPECT_THAT(IsPinned(memory), IsOkAndHolds(false));
}

}  // namespace
}  // namespace devrt::hardware
