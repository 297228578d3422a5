// SPDX-License-Identifier: Apache-2.0

#include "devrt/streams/slots.h"

#include <algorithm>
#include <cstdlib>
#include <new>
#include <vector>

#include "devrt/streams/internal/device_streams.h"
#include "devrt/streams/internal/stream_record.h"

namespace devrt::internal {

__thread ThreadStreams t_streams
    __attribute__((tls_model("initial-exec"))) = {nullptr, 0, 0};

namespace {

// What a thread must give back when it ends.  Touched only on slow paths, as
// its constructor and destructor cost a registration.
struct ThreadEnd {
  std::vector<StreamRef> per_thread;
  ~ThreadEnd() {
    StreamSlot* slots = t_streams.slots;
    t_streams = {nullptr, 0, 0};
    std::free(slots);
    for (StreamRef s : per_thread) {
      if (s.record()->serial.load() != s.serial()) continue;
      DeviceStreams::Of(s.record()->device)->streams.Release(s.record());
    }
  }
};
thread_local ThreadEnd t_end;

void Grow(uint32_t size) {
  (void)&t_end;
  size = std::max(size, t_streams.size * 2);
  void* memory = std::realloc(t_streams.slots, size * sizeof(StreamSlot));
  if (memory == nullptr) throw std::bad_alloc();
  StreamSlot* slots = static_cast<StreamSlot*>(memory);
  std::fill(slots + t_streams.size, slots + size, StreamSlot{nullptr, 0});
  t_streams.slots = slots;
  t_streams.size = size;
}

}  // namespace

StreamSlot* MakeSlot(DeviceRecord* device) {
  if (device->index >= t_streams.size) Grow(device->index + 1);
  StreamSlot* slot = &t_streams.slots[device->index];
  if (slot->record == nullptr) {
    *slot = {&DeviceStreams::Of(device)->legacy, kDefaultSerial};
  }
  return slot;
}

}  // namespace devrt::internal

namespace devrt {

absl::StatusOr<StreamRef> PerThreadDefaultStream(Device device) {
  internal::DeviceRecord* record = device.record();
  std::vector<StreamRef>& own = internal::t_end.per_thread;
  for (auto it = own.begin(); it != own.end();) {
    if (it->record()->serial.load() != it->serial()) {
      it = own.erase(it);  // the backend was reset
    } else if (it->record()->device == record) {
      return *it;
    } else {
      ++it;
    }
  }
  if (internal::InHostFunction()) {
    return internal::HostFunctionError("PerThreadDefaultStream");
  }
  if (!internal::IsOpen(record)) return internal::ClosedError(record);
  auto made = internal::DeviceStreams::Of(record)->streams.MakePerThread();
  if (made.ok()) own.push_back(*made);
  return made;
}

StreamRef CurrentStream(Device device) {
  const internal::StreamSlot* slot = internal::SlotOf(device.record());
  return StreamRef(slot->record, slot->serial);
}

absl::Status SetCurrentStream(StreamRef stream) {
  absl::Status status = internal::CheckStream(stream, "SetCurrentStream");
  if (!status.ok()) return status;
  *internal::SlotOf(stream.record()->device) = {stream.record(),
                                                stream.serial()};
  return absl::OkStatus();
}

}  // namespace devrt
