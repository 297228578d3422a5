// SPDX-License-Identifier: Apache-2.0
//
// The snapshot of one allocator: a device's own, or a private one.

#ifndef DEVRT_MEMORY_SNAPSHOT_SNAPSHOT_H_
#define DEVRT_MEMORY_SNAPSHOT_SNAPSHOT_H_

#include "devrt/memory/history.h"
#include "memory/device/device_allocator.h"

namespace devrt::internal {

// Segments, events and figures of one moment; the device is left out.
MemorySnapshot SnapshotOf(DeviceAllocator* allocator);

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_SNAPSHOT_SNAPSHOT_H_
