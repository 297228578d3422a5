// SPDX-License-Identifier: Apache-2.0
//
// HotSettings: a copy of the settings (settings.h) that allocations read
// without a lock.  PublishSettings updates the copy.

#ifndef DEVRT_MEMORY_COMMON_HOT_SETTINGS_H_
#define DEVRT_MEMORY_COMMON_HOT_SETTINGS_H_

#include <atomic>
#include <cstdint>

#include "devrt/memory/settings.h"
#include "memory/common/rounding.h"

namespace devrt::internal {

struct HotSettings {
  // UINT64_MAX while segments are expandable: their free blocks grow and
  // shrink.
  std::atomic<uint64_t> max_split_size{UINT64_MAX};
  std::atomic<bool> cross_stream_reuse{true};
  std::atomic<bool> expandable_segments{false};
  std::atomic<bool> has_divisions{false};
  std::atomic<double> garbage_collection_threshold{0};
  // One for each power of two from 1 MiB to 64 GiB.
  static constexpr size_t kPowers = 17;
  std::atomic<uint32_t> divisions[kPowers] = {};

  // The size of a block for a request of `bytes`.
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
