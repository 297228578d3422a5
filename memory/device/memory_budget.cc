// SPDX-License-Identifier: Apache-2.0

#include "memory/device/memory_budget.h"

#include <cmath>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "devrt/runtime/device.h"
#include "runtime/common/text.h"
#include "runtime/raw_memory/blocks.h"

namespace devrt::internal {

uint64_t MemoryBudget::Total() {
  uint64_t total = total_.load(std::memory_order_relaxed);
  if (total != 0) return total;
  const absl::StatusOr<DeviceProperties> properties =
      Device(device_).Properties();
  total = properties.ok() && properties->total_memory != 0
              ? properties->total_memory
              : UINT64_MAX;
  total_.store(total, std::memory_order_relaxed);
  return total;
}

uint64_t MemoryBudget::Allowed() {
  const double fraction = this->fraction();
  const uint64_t total = Total();
  if (fraction >= 1.0) return total;
  return static_cast<uint64_t>(
      std::floor(fraction * static_cast<double>(total)));
}

absl::Status MemoryBudget::SetFraction(double fraction) {
  if (!(fraction >= 0.0 && fraction <= 1.0)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "Invalid fraction value: ", fraction, ". A part of the memory of ",
        DeviceName(device_), " is meant, from 0.0 to 1.0"));
  }
  fraction_.store(fraction, std::memory_order_relaxed);
  return absl::OkStatus();
}

}  // namespace devrt::internal
