// SPDX-License-Identifier: Apache-2.0
//
// The calling thread's current streams, one slot per device of the process,
// and the depth of its guards.

#ifndef DEVRT_STREAMS_INTERNAL_THREAD_STREAMS_H_
#define DEVRT_STREAMS_INTERNAL_THREAD_STREAMS_H_

#include <cstdint>

#include "devrt/runtime/internal/records.h"
#include "devrt/streams/internal/stream_record.h"
#include "devrt/streams/stream.h"

namespace devrt::internal {

struct StreamSlot {
  StreamRecord* record;  // nullptr: the default stream
  uint64_t serial;
};

struct ThreadStreams {
  StreamSlot* slots;
  uint32_t size;
  uint32_t guard_depth;
};

// Plain data, so that reading it needs no initialisation; `slots` is freed at
// the end of the thread.
extern thread_local ThreadStreams t_streams
    __attribute__((tls_model("initial-exec")));

// The slot of `device`, made and set to its default stream if need be.
StreamSlot* MakeSlot(DeviceRecord* device);

inline StreamSlot* SlotOf(DeviceRecord* device) {
  if (ABSL_PREDICT_TRUE(device->index < t_streams.size &&
                        t_streams.slots[device->index].record != nullptr)) {
    return &t_streams.slots[device->index];
  }
  return MakeSlot(device);
}

}  // namespace devrt::internal

#endif  // DEVRT_STREAMS_INTERNAL_THREAD_STREAMS_H_
