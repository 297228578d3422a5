// SPDX-License-Identifier: Apache-2.0
#include "python/src/keep_current.h"

#include <utility>

#include "python/src/gil.h"
#include "python/src/stream.h"

namespace devrt::python {
namespace {

constexpr internal::StreamSlot kDefault{nullptr, 0};

// As it is: a slot that was never needed is not made.
internal::StreamSlot CurrentSlotOf(const DeviceObject* device) {
  const internal::ThreadStreams& streams = internal::t_streams;
  return device->index < streams.size ? streams.slots[device->index] : kDefault;
}

bool IsSame(const internal::StreamSlot& a, const internal::StreamSlot& b) {
  return a.record == b.record && a.serial == b.serial;
}

// The object for what is current there, if the thread has it; borrowed.
PyObject* KnownStream(const DeviceObject* device,
                      const internal::StreamSlot& slot) {
  if (t_thread == nullptr || device->index >= t_thread->current.size()) {
    return nullptr;
  }
  const CurrentSlot& known = t_thread->current[device->index];
  return IsSame(known.slot, slot) ? known.stream : nullptr;
}

// Whether it can be current again; a default stream always can.
bool IsAlive(const CurrentSlot& kept) {
  if (kept.stream != nullptr || kept.slot.record == nullptr) return true;
  return internal::GateOf(kept.slot.record)
             ->serial.load(std::memory_order_acquire) == kept.slot.serial;
}

}  // namespace

// Reads of the thread's own state: the GIL stays.
KeepCurrent::KeepCurrent() {
  for (const BackendEntry* backend : OpenedBackends()) {
    if (backend->devices.empty()) continue;
    const auto device = CurrentDevice(backend->backend);
    if (device.ok()) devices_.push_back(*device);
    for (DeviceObject* const object : backend->devices) {
      const internal::StreamSlot slot = CurrentSlotOf(object);
      PyObject* const stream = KnownStream(object, slot);
      Py_XINCREF(stream);
      streams_.push_back({object, {slot, stream}});
    }
  }
  if (t_thread != nullptr) active_ = t_thread->active;
}

KeepCurrent::~KeepCurrent() {
  Restore();
  for (const KeptStream& kept : streams_) {
    if (kept.was.stream != nullptr) DropReference(kept.was.stream);
  }
}

void KeepCurrent::RestoreStreams() {
  for (const KeptStream& kept : streams_) {
    if (IsSame(CurrentSlotOf(kept.device), kept.was.slot)) continue;
    const internal::StreamSlot slot =
        IsAlive(kept.was) ? kept.was.slot : kDefault;
    *internal::SlotOf(kept.device->device.record()) = slot;
    if (t_thread == nullptr) continue;
    CurrentSlot* const current = SlotOfThread(t_thread, kept.device->index);
    Py_XINCREF(kept.was.stream);
    PyObject* const former = current->stream;
    *current = {slot, kept.was.stream};
    if (former != nullptr) DropReference(former);
  }
}

void KeepCurrent::Restore() {
  for (const Device device : devices_) {
    const auto now = CurrentDevice(device.backend());
    if (!now.ok() || *now == device) continue;
    // A device that was lost meanwhile cannot be current; its calls say so.
    WithoutLock([&] {
      SetCurrentDevice(device).IgnoreError();
      return 0;
    });
  }
  RestoreStreams();
  if (t_thread != nullptr) t_thread->active = active_;
}

}  // namespace devrt::python
