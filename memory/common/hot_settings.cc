// SPDX-License-Identifier: Apache-2.0

#include "memory/common/hot_settings.h"

#include <algorithm>

namespace devrt::internal {

HotSettings hot_settings;

// Rounds up to one of the equal steps between a power of two and the next.
uint64_t HotSettings::Divided(uint64_t bytes) const {
  const uint64_t size = BlockSize(bytes);
  const int power = 63 - __builtin_clzll(size);
  constexpr int kFirst = 20;
  const int index =
      std::clamp(power - kFirst, 0, static_cast<int>(kPowers) - 1);
  const uint64_t parts = divisions[index].load(std::memory_order_relaxed);
  if (parts < 2 || (size & (size - 1)) == 0) return size;
  const uint64_t step = (uint64_t{1} << power) / parts;
  return step < kGranule ? size : RoundUp(size, step);
}

void PublishSettings(const AllocatorSettings& settings) {
  const auto relaxed = std::memory_order_relaxed;
  HotSettings& hot = hot_settings;
  hot.expandable_segments.store(settings.expandable_segments, relaxed);
  hot.max_split_size.store(
      settings.expandable_segments ? UINT64_MAX : settings.max_split_size,
      relaxed);
  hot.cross_stream_reuse.store(settings.cross_stream_reuse, relaxed);
  hot.garbage_collection_threshold.store(settings.garbage_collection_threshold,
                                         relaxed);
  const auto& divisions = settings.roundup_power2_divisions;
  for (size_t i = 0; i < HotSettings::kPowers; ++i) {
    hot.divisions[i].store(i < divisions.size() ? divisions[i] : 1, relaxed);
  }
  hot.has_divisions.store(!divisions.empty(), relaxed);
}

}  // namespace devrt::internal
