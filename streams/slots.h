// SPDX-License-Identifier: Apache-2.0
//
// The calling thread's current streams, one slot per device of the process.
//
// Not for programs; public only because guards are inline (runtime/gate.h).

#ifndef DEVRT_STREAMS_SLOTS_H_
#define DEVRT_STREAMS_SLOTS_H_

#include <cstdint>

#include "devrt/runtime/export.h"
#include "devrt/runtime/gate.h"
#include "devrt/runtime/thread_state.h"

namespace devrt::internal {

struct StreamGate;

// A StreamRef; `gate` is nullptr in a slot that was never asked for, which
// stands for the device's default stream.
struct StreamSlot {
  StreamGate* gate;
  uint64_t serial;
};

// The slot of `device`, made and set to its default stream if need be.
DEVRT_EXPORT StreamSlot* MakeSlot(DeviceGate* device);

// ThreadState::slots, which MakeSlot allocates, is freed when the thread ends.
inline StreamSlot* SlotOf(DeviceGate* device) {
  const uint32_t index = device->index;
  if (__builtin_expect(index < t_state.slot_count, 1)) {
    StreamSlot* slot = &t_state.slots[index];
    if (__builtin_expect(slot->gate != nullptr, 1)) return slot;
  }
  return MakeSlot(device);
}

}  // namespace devrt::internal

#endif  // DEVRT_STREAMS_SLOTS_H_
