// SPDX-License-Identifier: Apache-2.0

#include "devrt/streams/slots.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "streams/internal/device_streams.h"
#include "streams/internal/stream_record.h"

extern "C" __attribute__((visibility("hidden"))) void* __dso_handle;

namespace devrt::internal {

namespace {

// What a thread must give back when it ends.
struct ThreadEnd {
  std::vector<StreamRef> per_thread;
};

// Plain data, for destructors of the thread's that run after EndThread, and of
// static objects: these begin anew.
__thread ThreadEnd* t_end __attribute__((tls_model("initial-exec"))) = nullptr;

void EndThread(void* arg) {
  const std::unique_ptr<ThreadEnd> end(static_cast<ThreadEnd*>(arg));
  t_end = nullptr;
  std::free(std::exchange(t_state.slots, nullptr));
  t_state.slot_count = 0;
  for (StreamRef s : end->per_thread) {
    if (s.record()->serial.load() != s.serial()) continue;
    DeviceStreams::Of(s.record()->device)->streams.Release(s.record());
  }
}

// Called on slow paths only, as it costs a registration.
ThreadEnd* AtThreadEnd() {
  if (t_end == nullptr) {
    auto end = std::make_unique<ThreadEnd>();
    // What a thread_local's destructor does, but may be done again after it.
    abi::__cxa_thread_atexit(&EndThread, end.get(), &__dso_handle);
    t_end = end.release();
  }
  return t_end;
}

void Grow(uint32_t size) {
  AtThreadEnd();
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

namespace devrt {

absl::StatusOr<StreamRef> PerThreadDefaultStream(Device device) {
  internal::DeviceRecord* record = device.record();
  if (internal::InHostFunction()) {
    return internal::HostFunctionError("PerThreadDefaultStream");
  }
  if (!internal::IsOpen(record)) return internal::ClosedError(record);
  std::vector<StreamRef>& own = internal::AtThreadEnd()->per_thread;
  for (auto it = own.begin(); it != own.end();) {
    if (it->record()->serial.load() != it->serial()) {
      it = own.erase(it);  // the backend was reset
    } else if (it->record()->device == record) {
      return *it;
    } else {
      ++it;
    }
  }
  auto made = internal::DeviceStreams::Of(record)->streams.MakePerThread();
  if (made.ok()) own.push_back(*made);
  return made;
}

StreamRef CurrentStream(Device device) {
  const internal::StreamSlot* slot = internal::SlotOf(device.gate());
  return StreamRef(slot->gate, slot->serial);
}

absl::Status SetCurrentStream(StreamRef stream) {
  absl::Status status = internal::CheckStream(stream, "SetCurrentStream");
  if (!status.ok()) return status;
  if (internal::InHostFunction()) {
    return internal::HostFunctionError("SetCurrentStream");
  }
  *internal::SlotOf(stream.gate()->device_gate) = {stream.gate(),
                                                   stream.serial()};
  return absl::OkStatus();
}

}  // namespace devrt
