// SPDX-License-Identifier: Apache-2.0
#include "python/src/keep_current.h"

#include "absl/base/optimization.h"
#include "devrt/streams/gate.h"
#include "python/src/gil.h"
#include "python/src/stream.h"

namespace devrt::python {
namespace {

constexpr internal::StreamSlot kDefault{nullptr, 0};

bool IsSame(const internal::StreamSlot& a, const internal::StreamSlot& b) {
  return a.gate == b.gate && a.serial == b.serial;
}

// Returns the current slot of a device without creating anything.
internal::StreamSlot CurrentSlotAt(uint32_t index) {
  const internal::ThreadState& state = internal::t_state;
  return index < state.slot_count ? state.slots[index] : kDefault;
}

// Returns true if the stream can be current again.  A default stream always
// can.
bool IsAlive(const CurrentSlot& kept) {
  if (kept.stream != nullptr || kept.slot.gate == nullptr) return true;
  return internal::IsAlive(StreamRef(kept.slot.gate, kept.slot.serial));
}

const DeviceObject* DeviceAt(uint32_t index) {
  for (const BackendEntry* backend : OpenedBackends()) {
    for (const DeviceObject* device : backend->devices) {
      if (device->index == index) return device;
    }
  }
  return nullptr;
}

void RestoreStream(const DeviceObject& device, const CurrentSlot& kept) {
  const internal::StreamSlot slot = IsAlive(kept) ? kept.slot : kDefault;
  *internal::SlotOf(device.device.gate()) = slot;
  ThreadState* const thread = KnownThread();
  if (thread == nullptr) return;
  CurrentSlot* const current = SlotOfThread(thread, device.index);
  Py_XINCREF(kept.stream);
  PyObject* const former = current->stream;
  *current = {slot, kept.stream};
  if (former != nullptr) DropReference(former);
}

}  // namespace

// Reads only state of this thread, so the GIL stays.
KeepCurrent::KeepCurrent() {
  if (!IsSeen(PyThreadState_Get())) FollowContext();
  for (const BackendEntry* backend : OpenedBackends()) {
    if (backend->devices.empty()) continue;
    const auto device = CurrentDevice(backend->backend);
    if (device.ok()) devices_.push_back(*device);
  }
  const ThreadState* const thread = KnownThread();
  const size_t known = thread != nullptr ? thread->current.size() : 0;
  for (uint32_t i = 0; i < internal::t_state.slot_count; ++i) {
    CurrentSlot kept{internal::t_state.slots[i], nullptr};
    if (i < known && IsSame(thread->current[i].slot, kept.slot)) {
      kept.stream = thread->current[i].stream;
      Py_XINCREF(kept.stream);
    }
    streams_.push_back(kept);
  }
  if (thread != nullptr) active_ = thread->active;
}

KeepCurrent::~KeepCurrent() {
  Restore();
  for (const CurrentSlot& kept : streams_) {
    if (kept.stream != nullptr) DropReference(kept.stream);
  }
}

void KeepCurrent::RestoreStreams() {
  const CurrentSlot none{kDefault, nullptr};
  for (uint32_t i = 0; i < internal::t_state.slot_count; ++i) {
    const CurrentSlot& kept = i < streams_.size() ? streams_[i] : none;
    if (ABSL_PREDICT_TRUE(IsSame(CurrentSlotAt(i), kept.slot))) continue;
    const DeviceObject* const device = DeviceAt(i);
    if (device != nullptr) RestoreStream(*device, kept);
  }
}

void KeepCurrent::Restore() {
  for (const Device device : devices_) {
    const auto now = CurrentDevice(device.backend());
    if (!now.ok() || *now == device) continue;
    // A lost device cannot be current.  Its next calls report the loss.
    WithoutLock([&] {
      SetCurrentDevice(device).IgnoreError();
      return 0;
    });
  }
  RestoreStreams();
  if (ThreadState* const thread = KnownThread()) thread->active = active_;
}

}  // namespace devrt::python
