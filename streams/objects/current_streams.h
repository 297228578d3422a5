// SPDX-License-Identifier: Apache-2.0
//
// The calling thread's current streams, one slot for each device of the
// process.
//
// Not for programs: the header is public because guards are inline
// (runtime/registry/gate.h).

#ifndef DEVRT_STREAMS_OBJECTS_CURRENT_STREAMS_H_
#define DEVRT_STREAMS_OBJECTS_CURRENT_STREAMS_H_

#include <cstdint>

#include "devrt/runtime/export.h"
#include "devrt/runtime/gate.h"
#include "devrt/runtime/thread_state.h"

namespace devrt::internal {

struct StreamGate;

// The current stream of one device, as a StreamRef has it.  A slot that was
// never used has the gate nullptr and stands for the device's default stream.
struct StreamSlot {
  StreamGate* gate;
  uint64_t serial;
};

// The slot of `device`.  Makes the slot, and sets it to the default stream, if
// it was never used.
DEVRT_EXPORT StreamSlot* MakeSlot(DeviceGate* device);

// The slot of `device`.  The end of the thread frees ThreadState::slots, which
// MakeSlot allocates.
inline StreamSlot* SlotOf(DeviceGate* device) {
  const uint32_t index = device->index;
  if (__builtin_expect(index < t_state.slot_count, 1)) {
    StreamSlot* slot = &t_state.slots[index];
    if (__builtin_expect(slot->gate != nullptr, 1)) return slot;
  }
  return MakeSlot(device);
}

}  // namespace devrt::internal

#endif  // DEVRT_STREAMS_OBJECTS_CURRENT_STREAMS_H_
