// SPDX-License-Identifier: Apache-2.0
//
// What the allocators count.
//
//   const devrt::MemoryStatistics s = devrt::GetMemoryStatistics(gpu);
//   std::cout << s.allocated_bytes.all.current << " of "
//             << s.reserved_bytes.all.current << "\n";
//   for (const auto& [key, value] : devrt::ToKeys(s)) {  // 122 keys
//     std::cout << key << ": " << value << "\n";
//   }
//
// All figures belong to one moment of the call: a thread that freed a block
// before the call sees its free.  `peak` is the true maximum of `current` over
// all streams and threads since the last reset, not a sum of maxima (decision
// 12).  allocated - freed == current at any time.
//
// Resets: ResetPeak... sets each peak to current.  ResetAccumulated... sets
// freed to 0 and allocated to current, so that the equation holds on, and the
// plain counters to 0.
//
// The memory of an array that another library gives back counts as allocated
// until devrt's next call about arrays: the deleter may run under any lock of
// the other library, so it only leaves a note (arrays/dlpack.h).
//
// Threads: any.  A call stops allocations on the device for about 1 us, and
// 0.05 us more for each stream in use.
// Errors: none.  For a device that is lost or was shut down the figures are
// those that were counted last.  In a forked child all figures are 0, and a
// reset does nothing (C105).

#ifndef DEVRT_MEMORY_API_STATISTICS_H_
#define DEVRT_MEMORY_API_STATISTICS_H_

#include "devrt/memory/memory_statistics.h"
#include "devrt/runtime/backend.h"
#include "devrt/runtime/device.h"
#include "devrt/runtime/export.h"

namespace devrt {

// The statistics of the device's caching allocator.
DEVRT_EXPORT MemoryStatistics GetMemoryStatistics(Device device);
// Sets each peak to the current value.
DEVRT_EXPORT void ResetPeakMemoryStatistics(Device device);
// Sets freed to 0, allocated to current, and the plain counters to 0.
DEVRT_EXPORT void ResetAccumulatedMemoryStatistics(Device device);

// The statistics of the backend's cache of pinned memory.
DEVRT_EXPORT PinnedStatistics GetPinnedStatistics(Backend backend);
// As the functions for devices:
DEVRT_EXPORT void ResetPeakPinnedStatistics(Backend backend);
DEVRT_EXPORT void ResetAccumulatedPinnedStatistics(Backend backend);

}  // namespace devrt

#endif  // DEVRT_MEMORY_API_STATISTICS_H_
