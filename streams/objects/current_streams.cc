// SPDX-License-Identifier: Apache-2.0

#include "devrt/streams/current_streams.h"

#include <algorithm>
#include <cstdlib>
#include <new>

#include "streams/objects/device_streams.h"
#include "streams/objects/stream_record.h"
#include "streams/objects/thread_streams.h"

namespace devrt::internal {

namespace {

void Grow(uint32_t size) {
  ThreadStreams::OfThisThread();  // frees the slots when the thread ends
  size = std::max(size, t_state.slot_count * 2);
  void* memory = std::realloc(t_state.slots, size * sizeof(StreamSlot));
  if (memory == nullptr) throw std::bad_alloc();
  StreamSlot* slots = static_cast<StreamSlot*>(memory);
  std::fill(slots + t_state.slot_count, slots + size, StreamSlot{nullptr, 0});
  t_state.slots = slots;
  t_state.slot_count = size;
}

}  // namespace

StreamSlot* MakeSlot(DeviceGate* device) {
  if (device->index >= t_state.slot_count) Grow(device->index + 1);
  StreamSlot* slot = &t_state.slots[device->index];
  if (slot->gate == nullptr) {
    *slot = {&DeviceStreams::Of(RecordOf(device))->legacy, kDefaultSerial};
  }
  return slot;
}

}  // namespace devrt::internal
