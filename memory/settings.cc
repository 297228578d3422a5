// SPDX-License-Identifier: Apache-2.0

#include "devrt/memory/settings.h"

#include "devrt/memory/internal/unimplemented.h"

namespace devrt {

AllocatorSettings GetAllocatorSettings() { return {}; }

absl::Status SetAllocatorSettings(std::string_view) {
  return internal::NotBuilt("SetAllocatorSettings");
}

absl::StatusOr<AllocatorSettings> ParseAllocatorSettings(
    std::string_view, const AllocatorSettings&) {
  return internal::NotBuilt("ParseAllocatorSettings");
}

std::string ToString(const AllocatorSettings&) { return std::string(); }

}  // namespace devrt
