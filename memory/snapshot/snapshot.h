// SPDX-License-Identifier: Apache-2.0
//
// The snapshot of one allocator: the device's, or one of a private resource.

#ifndef DEVRT_MEMORY_SNAPSHOT_SNAPSHOT_H_
#define DEVRT_MEMORY_SNAPSHOT_SNAPSHOT_H_

#include "devrt/memory/memory_snapshot.h"
#include "memory/device/device_allocator.h"

namespace devrt::internal {

// Segments, events and statistics of one moment.  The name and the memory of
// the device are left out.
MemorySnapshot SnapshotOf(DeviceAllocator* allocator);

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_SNAPSHOT_SNAPSHOT_H_
