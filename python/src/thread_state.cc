// SPDX-License-Identifier: Apache-2.0
#include "python/src/thread_state.h"

#include <utility>

#include "devrt/guards/device_guard.h"
#include "devrt/guards/enter.h"
#include "devrt/guards/stream_guard.h"
#include "python/src/errors.h"
#include "python/src/gil.h"
#include "python/src/stream.h"

namespace devrt::python {

__thread ThreadState* t_thread = nullptr;

namespace {

constexpr char kCapsuleName[] = "devrt.thread_state";

// Ends with the native thread; the interpreter's side holds it as well.
thread_local std::shared_ptr<ThreadState> t_owner;

// Drops what a thread holds of Python.  Its last context is not left: nothing
// can run in the thread any more.
void Detach(ThreadState* thread) {
  thread->attached = false;
  std::vector<CurrentSlot> current = std::move(thread->current);
  std::vector<ContextEntry> entries = std::move(thread->entries);
  thread->current.clear();
  thread->entries.clear();
  thread->active = nullptr;
  for (const ContextEntry& entry : entries) {
    Py_XDECREF(entry.stream.stream);
    Py_XDECREF(entry.owner);
  }
  for (const CurrentSlot& slot : current) Py_XDECREF(slot.stream);
}

void DestroyCapsule(PyObject* capsule) {
  auto* held = static_cast<std::shared_ptr<ThreadState>*>(
      PyCapsule_GetPointer(capsule, kCapsuleName));
  Detach(held->get());
  delete held;
}

// Whether the thread is inside a host function, where nothing can be made
// current (C42).
bool IsRefused() {
  return static_cast<int64_t>(internal::t_streams.guards) < 0;
}

// Why a device could not be entered: asked of the public guard.
PyObject* RaiseEnterError(Device device) {
  absl::Status status = WithoutLock([&] {
    const DeviceGuard guard(device);
    return guard.status();
  });
  if (status.ok()) status = absl::UnavailableError("the device was busy");
  return Raise(status);
}

// Makes the device current and remembers what was.
bool EnterContext(DeviceObject* object, devrt_context* previous) {
  internal::DeviceRecord* device = object->device.record();
  if (__builtin_expect(IsRefused(), 0)) return false;
  bool entered;
  if (__builtin_expect(object->entered, 1)) {
    // A write of the thread's own state: the GIL stays.
    entered = internal::EnterDevice(device, previous, "with");
  } else {
    // The first time may make the device's context, which takes a while.
    entered = WithoutLock(
        [&] { return internal::EnterDevice(device, previous, "with"); });
    object->entered = entered;
  }
  if (__builtin_expect(!entered, 0)) internal::DropGuardError(previous);
  return entered;
}

void LeaveContext(const ContextEntry& entry) {
  internal::LeaveDevice(entry.device->device.record(), &entry.context, "with");
}

// Makes what an entry found the current stream of its device again.
void RestoreStream(ThreadState* thread, const ContextEntry& entry) {
  *internal::SlotOf(entry.device->device.record()) = entry.stream.slot;
  CurrentSlot* slot = SlotOfThread(thread, entry.device->index);
  PyObject* former = slot->stream;
  *slot = entry.stream;
  Py_XDECREF(former);
}

// Leaves an entry that has others above it: the next one above that would
// overwrite the same thing restores what this one found.
void LeaveBelow(ThreadState* thread, size_t index) {
  ContextEntry entry = thread->entries[index];
  thread->entries.erase(thread->entries.begin() +
                        static_cast<std::ptrdiff_t>(index));
  std::swap(thread->entries[index].active, entry.active);
  if (entry.kind == ContextEntry::Kind::kThreadContext) {
    delete entry.scope;
    Py_DECREF(entry.owner);
    return;
  }
  bool context_passed = false, stream_passed = false;
  for (size_t i = index; i < thread->entries.size(); ++i) {
    ContextEntry& above = thread->entries[i];
    if (above.device == nullptr) continue;
    if (!context_passed && above.device->backend == entry.device->backend) {
      above.context = entry.context;
      context_passed = true;
    }
    if (!stream_passed && above.kind == ContextEntry::Kind::kStream &&
        above.device == entry.device) {
      std::swap(above.stream, entry.stream);
      stream_passed = true;
    }
  }
  if (entry.kind == ContextEntry::Kind::kStream) {
    if (stream_passed) {
      Py_XDECREF(entry.stream.stream);  // of `above`, which was this entry's
    } else {
      RestoreStream(thread, entry);
    }
  }
  if (!context_passed) LeaveContext(entry);
  Py_DECREF(entry.owner);
}

}  // namespace

ThreadState* MakeThread() {
  PyObject* dictionary = PyThreadState_GetDict();
  if (dictionary == nullptr) {
    PyErr_SetString(PyExc_RuntimeError, "this thread has no interpreter");
    return nullptr;
  }
  if (t_owner == nullptr) t_owner = std::make_shared<ThreadState>();
  auto* held = new std::shared_ptr<ThreadState>(t_owner);
  const Ref capsule(PyCapsule_New(held, kCapsuleName, DestroyCapsule));
  if (!capsule) {
    delete held;
    return nullptr;
  }
  if (PyDict_SetItemString(dictionary, kCapsuleName, capsule.get()) != 0) {
    return nullptr;
  }
  t_thread = t_owner.get();
  t_thread->attached = true;
  return t_thread;
}

PyObject* EnterDeviceObject(PyObject* self) {
  ThreadState* thread = Thread();
  if (__builtin_expect(thread == nullptr, 0)) return nullptr;
  auto* device = reinterpret_cast<DeviceObject*>(self);
  devrt_context previous;
  if (__builtin_expect(!EnterContext(device, &previous), 0)) {
    return RaiseEnterError(device->device);
  }
  thread->entries.push_back({ContextEntry::Kind::kDevice, NewRef(self), device,
                             thread->active, previous, CurrentSlot{}, nullptr});
  thread->active = device->backend;
  return NewRef(self);
}

PyObject* EnterStreamObject(PyObject* self) {
  ThreadState* thread = Thread();
  if (__builtin_expect(thread == nullptr, 0)) return nullptr;
  StreamObject* stream = AsStream(self);
  DeviceObject* device = stream->device;
  internal::StreamRecord* record = stream->ref.record();
  const bool alive = internal::GateOf(record)->serial.load(
                         std::memory_order_acquire) == stream->ref.serial();
  devrt_context previous;
  if (__builtin_expect(!alive || !EnterContext(device, &previous), 0)) {
    const absl::Status status = WithoutLock([&] {
      const StreamGuard guard(stream->ref);
      return guard.status();
    });
    return status.ok() ? RaiseEnterError(device->device) : Raise(status);
  }
  internal::StreamSlot* slot = internal::SlotOf(device->device.record());
  CurrentSlot* current = SlotOfThread(thread, device->index);
  CurrentSlot before{*slot, nullptr};
  PyObject* stale = nullptr;
  if (current->slot.record == slot->record &&
      current->slot.serial == slot->serial) {
    before.stream = current->stream;
  } else {
    stale = current->stream;  // the library has another current stream by now
  }
  *slot = {record, stream->ref.serial()};
  *current = {*slot, NewRef(self)};
  thread->entries.push_back({ContextEntry::Kind::kStream, NewRef(self), device,
                             thread->active, previous, before, nullptr});
  thread->active = device->backend;
  Py_XDECREF(stale);
  return NewRef(self);
}

PyObject* LeaveObject(PyObject* self) {
  ThreadState* thread = Thread();
  if (__builtin_expect(thread == nullptr, 0)) return nullptr;
  size_t index = thread->entries.size();
  while (index > 0 && thread->entries[index - 1].owner != self) --index;
  if (__builtin_expect(index == 0, 0)) {
    return Raise(absl::FailedPreconditionError(
        "__exit__: this thread is not inside this context; a context is left "
        "on the thread that entered it, as often as it was entered"));
  }
  if (__builtin_expect(index < thread->entries.size(), 0)) {
    LeaveBelow(thread, index - 1);
    return NewRef(Py_None);
  }
  const ContextEntry entry = thread->entries.back();
  thread->entries.pop_back();
  thread->active = entry.active;
  if (entry.kind == ContextEntry::Kind::kThreadContext) {
    delete entry.scope;
  } else {
    if (entry.kind == ContextEntry::Kind::kStream) RestoreStream(thread, entry);
    LeaveContext(entry);
  }
  Py_DECREF(entry.owner);
  return NewRef(Py_None);
}

}  // namespace devrt::python
