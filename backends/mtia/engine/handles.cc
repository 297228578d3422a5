// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/engine/handles.h"

#include <cinttypes>
#include <cstdio>

#include "backends/mtia/common/error.h"

namespace devrt::mtia {

devrt_status BadHandle(const char* kind, uint64_t handle, bool was_ours) {
  char text[160];
  if (handle == 0) {
    std::snprintf(text, sizeof text, "the %s is NULL", kind);
  } else if (was_ours) {
    std::snprintf(text, sizeof text,
                  "%s 0x%" PRIx64
                  " was destroyed or belongs to a machine before sim reset",
                  kind, handle);
  } else {
    std::snprintf(text, sizeof text, "0x%" PRIx64 " is no %s of this backend",
                  handle, kind);
  }
  return MakeError(DEVRT_INVALID_ARGUMENT, 400, text);
}

}  // namespace devrt::mtia
