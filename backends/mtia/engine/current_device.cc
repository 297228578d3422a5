// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/engine/current_device.h"

#include <cstdio>

#include "backends/mtia/common/error.h"

namespace devrt::mtia {

__thread uint32_t t_device __attribute__((tls_model("initial-exec"))) = 0;
uint32_t g_device_count = 0;

devrt_status BadOrdinal(uint32_t device) {
  char text[96];
  std::snprintf(text, sizeof text,
                "Device index value %d is out of index range [0, %u)",
                static_cast<int32_t>(device), g_device_count);
  return MakeError(DEVRT_INVALID_ARGUMENT, 101, text);
}

devrt_status BadContext() {
  return InvalidArgument(
      "context_exit: the context is not one that context_enter saved");
}

}  // namespace devrt::mtia
