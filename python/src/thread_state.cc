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

// Makes the device current and remembers what was.  False with an exception.
bool EnterContext(DeviceObject* object, devrt_context* previous) {
  internal::DeviceRecord* device = object->device.record();
  if (__builtin_expect(IsRefused(), 0)) {
    Raise(DeviceGuard(object->device).status());
    return false;
  }
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
  if (__builtin_expect(!entered, 0)) {
    Raise(internal::EnterError(device, *previous));
    internal::DropGuardError(previous);
  }
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
  bool context_passed = !entry.has_context;
  bool stream_passed = !entry.has_stream;
  for (size_t i = index; i < thread->entries.size(); ++i) {
    ContextEntry& above = thread->entries[i];
    if (!context_passed && above.has_context &&
        above.device->backend == entry.device->backend) {
      above.context = entry.context;
      context_passed = true;
    }
    if (!stream_passed && above.has_stream && above.device == entry.device) {
      std::swap(above.stream, entry.stream);
      stream_passed = true;
    }
  }
  if (!context_passed) LeaveContext(entry);
  if (stream_passed) {
    Py_XDECREF(entry.stream.stream);  // of `above`, which was this entry's
  } else {
    RestoreStream(thread, entry);
  }
  Py_DECREF(entry.owner);
}

void LeaveEntry(ThreadState* thread, size_t index) {
  if (__builtin_expect(index + 1 < thread->entries.size(), 0)) {
    LeaveBelow(thread, index);
    return;
  }
  const ContextEntry entry = thread->entries.back();
  thread->entries.pop_back();
  thread->active = entry.active;
  if (entry.has_stream) RestoreStream(thread, entry);
  if (entry.has_context) LeaveContext(entry);
  Py_DECREF(entry.owner);
}

// Whether it is still the stream that the object was made for.
bool IsAlive(const StreamObject* stream) {
  return internal::GateOf(stream->ref.record())
             ->serial.load(std::memory_order_acquire) == stream->ref.serial();
}

// Makes it the current stream of its device.  Returns what was; `stale`: a
// reference to drop.
CurrentSlot ExchangeStream(ThreadState* thread, PyObject* self,
                           PyObject** stale) {
  StreamObject* stream = AsStream(self);
  internal::StreamSlot* slot =
      internal::SlotOf(stream->device->device.record());
  CurrentSlot* current = SlotOfThread(thread, stream->device->index);
  CurrentSlot before{*slot, nullptr};
  if (current->slot.record == slot->record &&
      current->slot.serial == slot->serial) {
    before.stream = current->stream;
  } else {
    *stale = current->stream;  // the library has another current stream by now
  }
  *slot = {stream->ref.record(), stream->ref.serial()};
  *current = {*slot, NewRef(self)};
  return before;
}

ContextEntry NewEntry(const ThreadState* thread, PyObject* owner,
                      DeviceObject* device) {
  ContextEntry entry;
  entry.owner = NewRef(owner);
  entry.device = device;
  entry.active = thread->active;
  return entry;
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
  if (__builtin_expect(!EnterContext(device, &previous), 0)) return nullptr;
  ContextEntry entry = NewEntry(thread, self, device);
  entry.context = previous;
  entry.has_context = true;
  thread->entries.push_back(entry);
  thread->active = device->backend;
  return NewRef(self);
}

PyObject* EnterStreamObject(PyObject* self) {
  ThreadState* thread = Thread();
  if (__builtin_expect(thread == nullptr, 0)) return nullptr;
  StreamObject* stream = AsStream(self);
  DeviceObject* device = stream->device;
  devrt_context previous;
  if (__builtin_expect(!IsAlive(stream), 0)) {
    return Raise(
        WithoutLock([&] { return StreamGuard(stream->ref).status(); }));
  }
  if (__builtin_expect(!EnterContext(device, &previous), 0)) return nullptr;
  PyObject* stale = nullptr;
  ContextEntry entry = NewEntry(thread, self, device);
  entry.context = previous;
  entry.has_context = true;
  entry.stream = ExchangeStream(thread, self, &stale);
  entry.has_stream = true;
  thread->entries.push_back(entry);
  thread->active = device->backend;
  Py_XDECREF(stale);
  return NewRef(self);
}

bool EnterAll(PyObject* self, const std::vector<PyObject*>& streams,
              const std::vector<Device>& devices) {
  ThreadState* thread = Thread();
  if (thread == nullptr || IsRefused()) return false;
  bool entered = true;
  bool first = true;
  const auto push = [&](ContextEntry entry) {
    entry.first = std::exchange(first, false);
    thread->entries.push_back(entry);
  };
  for (PyObject* stream : streams) {
    entered = IsAlive(AsStream(stream));
    if (!entered) break;
    PyObject* stale = nullptr;
    ContextEntry entry = NewEntry(thread, self, AsStream(stream)->device);
    entry.stream = ExchangeStream(thread, stream, &stale);
    entry.has_stream = true;
    push(entry);
    Py_XDECREF(stale);
  }
  for (size_t i = 0; entered && i < devices.size(); ++i) {
    DeviceObject* device = WrapDevice(devices[i]);
    devrt_context previous;
    entered = device != nullptr && EnterContext(device, &previous);
    if (!entered) break;
    ContextEntry entry = NewEntry(thread, self, device);
    entry.context = previous;
    entry.has_context = true;
    push(entry);
  }
  if (!entered && !first) {
    const KeepException keep;
    Py_DECREF(LeaveObject(self));
  }
  return entered;
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
  bool first = false;
  while (!first) {
    first = thread->entries[--index].first;
    LeaveEntry(thread, index);
  }
  return NewRef(Py_None);
}

}  // namespace devrt::python
