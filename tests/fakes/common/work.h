// SPDX-License-Identifier: Apache-2.0
//
// The stream of the simulator that an operation on a vendor's stream goes to.

#ifndef DEVRT_TESTS_FAKES_COMMON_WORK_H_
#define DEVRT_TESTS_FAKES_COMMON_WORK_H_

#include <cstddef>
#include <cstdint>

#include "devrt/backends/abi/devrt_plugin.h"

namespace devrt::fake {

struct Work {
  uint32_t sim_device = 0;
  devrt_stream sim = nullptr;
  const void* modules = nullptr;  // whose device variables a kernel sees
};

}  // namespace devrt::fake

#endif  // DEVRT_TESTS_FAKES_COMMON_WORK_H_
