// SPDX-License-Identifier: Apache-2.0
//
// A test on the devices of "cuda": skipped where this machine has none, failed
// where they cannot be used for another reason.

#ifndef DEVRT_TESTS_HARDWARE_CUDA_TEST_H_
#define DEVRT_TESTS_HARDWARE_CUDA_TEST_H_

#include <gtest/gtest.h>

#include <vector>

#include "devrt/devrt.h"
#include "tests/hardware/driver.h"
#include "tests/support/status_matchers.h"

namespace devrt::hardware {

class CudaTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const absl::StatusOr<std::vector<Device>> found = Devices("cuda");
    if (absl::IsUnavailable(found.status())) GTEST_SKIP() << found.status();
    ASSERT_OK(found);
    devices = *found;
    DRIVER_OK(DRIVER_CALL(cuInit)(0));
  }

  std::vector<Device> devices;
};

}  // namespace devrt::hardware

#endif  // DEVRT_TESTS_HARDWARE_CUDA_TEST_H_
