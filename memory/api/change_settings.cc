// SPDX-License-Identifier: Apache-2.0
//
// SetAllocatorSettings of devrt/memory/settings.h, which tells the allocators.

#include <optional>

#include "devrt/memory/settings.h"
#include "devrt/runtime/status.h"
#include "memory/common/settings_state.h"
#include "memory/device/device_allocator.h"
#include "runtime/registry/process_state.h"
#include "runtime/registry/records.h"

namespace devrt {

absl::Status SetAllocatorSettings(std::string_view text) {
  if (internal::IsForkedChild()) return internal::ProcessClosedError();
  DEVRT_ASSIGN_OR_RETURN(const std::optional<double> fraction,
                         internal::ChangeSettings(text));
  if (!fraction.has_value()) return absl::OkStatus();
  for (internal::BackendRecord* backend : internal::OpenedBackends()) {
    for (internal::DeviceRecord* device : backend->devices) {
      internal::DeviceAllocator* allocator =
          device->allocator.load(std::memory_order_acquire);
      if (allocator == nullptr) continue;
      DEVRT_RETURN_IF_ERROR(
          allocator->family().budget()->SetFraction(*fraction));
    }
  }
  return absl::OkStatus();
}

}  // namespace devrt
