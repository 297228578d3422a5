// SPDX-License-Identifier: Apache-2.0
//
// The calling thread's current streams, one slot per device of the process,
// and the number of its guards.
//
// Not for programs; public only because guards are inline (runtime/gate.h).

#ifndef DEVRT_STREAMS_SLOTS_H_
#define DEVRT_STREAMS_SLOTS_H_

#include <atomic>
#include <cstdint>

#include "devrt/runtime/export.h"
#include "devrt/runtime/gate.h"

namespace devrt::internal {

struct StreamRecord;

// The first base of StreamRecord.
struct StreamGate {
  DeviceRecord* device = nullptr;   // never changes
  std::atomic<uint64_t> serial{0};  // 0: nobody's
};

// `record` is complete only inside devrt; stream_record.h asserts that its
// base is at its address.
inline StreamGate* GateOf(StreamRecord* record) {
  return reinterpret_cast<StreamGate*>(record);
}

struct StreamSlot {
  StreamRecord* record;  // nullptr: the default stream
  uint64_t serial;
};

// `guards` is the number of the thread's innermost guard, one less than that of
// the guard around it; unique in the process.  0 before the first guard.
struct ThreadStreams {
  StreamSlot* slots;
  uint64_t guards;
  uint32_t size;
};

// In ThreadStreams::guards, inside a host function: none may be made.  Two
// bits, so that one less is negative as well.
inline constexpr uint64_t kGuardsRefused = uint64_t{3} << 62;

// __thread, not thread_local: plain data needs no wrapper that asks whether it
// is initialised.  `slots` is freed at the end of the thread.
extern DEVRT_EXPORT __thread ThreadStreams t_streams
    __attribute__((tls_model("initial-exec")));

// The slot of `device`, made and set to its default stream if need be.
DEVRT_EXPORT StreamSlot* MakeSlot(DeviceRecord* device);

inline StreamSlot* SlotOf(DeviceRecord* device) {
  const uint32_t index = GateOf(device)->index;
  if (__builtin_expect(index < t_streams.size, 1)) {
    StreamSlot* slot = &t_streams.slots[index];
    if (__builtin_expect(slot->record != nullptr, 1)) return slot;
  }
  return MakeSlot(device);
}

}  // namespace devrt::internal

#endif  // DEVRT_STREAMS_SLOTS_H_
