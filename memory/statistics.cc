// SPDX-License-Identifier: Apache-2.0

#include "devrt/memory/statistics.h"

namespace devrt {

MemoryStatistics GetMemoryStatistics(Device) { return {}; }
void ResetPeakMemoryStatistics(Device) {}
void ResetAccumulatedMemoryStatistics(Device) {}

PinnedStatistics GetPinnedStatistics(Backend) { return {}; }
void ResetPeakPinnedStatistics(Backend) {}
void ResetAccumulatedPinnedStatistics(Backend) {}

}  // namespace devrt
