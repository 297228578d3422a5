// SPDX-License-Identifier: Apache-2.0
//
// The settings that every allocation reads, apart from the rest (settings.h):
// who changes them says so with PublishSettings.

#ifndef DEVRT_MEMORY_COMMON_HOT_SETTINGS_H_
#define DEVRT_MEMORY_COMMON_HOT_SETTINGS_H_

#include <atomic>
#include <cstdint>

#include "devrt/memory/settings.h"
#include "memory/device/rounding.h"

namespace devrt::internal {

struct HotSettings {
  // None while segments expand: what is free then has no size of its own.
  std::atomic<uint64_t> max_split_size{UINT64_MAX};
  std::atomic<bool> cross_stream_reuse{true};
  std::atomic<bool> expandable_segments{false};
  std::atomic<bool> has_divisions{false};
  std::atomic<double> garbage_collection_threshold{0};
  // Of each power of two from 1 MiB to 64 GiB.
  static constexpr size_t kPowers = 17;
  std::atomic<uint32_t> divisions[kPowers] = {};

  // A BlockSize for a request.
  uint64_t SizeOf(uint64_t bytes) const {
    return has_divisions.load(std::memory_order_relaxed) ? Divided(bytes)
                                                         : BlockSize(bytes);
  }
  uint64_t Divided(uint64_t bytes) const;
};

extern HotSettings hot_settings;
void PublishSettings(const AllocatorSettings& settings);

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_COMMON_HOT_SETTINGS_H_
