// SPDX-License-Identifier: Apache-2.0
#include "python/src/stream.h"

#include <algorithm>
#include <new>
#include <unordered_map>
#include <utility>
#include <vector>

#include "devrt/streams/current_streams.h"
#include "python/src/arguments.h"
#include "python/src/errors.h"
#include "python/src/gil.h"
#include "python/src/thread_state.h"

namespace devrt::python {
namespace {

// The objects for a stream's id, oldest first, borrowed.  Each of them keeps
// the stream alive, so any may be returned.
std::unordered_map<uint64_t, std::vector<PyObject*>>* g_streams =
    new std::unordered_map<uint64_t, std::vector<PyObject*>>;

}  // namespace

PyObject* MakeStream(PyTypeObject* type, StreamRef ref, DeviceObject* device,
                     std::shared_ptr<StreamHandle> handle) {
  if (type == nullptr || type == g_stream_type) {
    type =
        device->backend->has_cuda_streams ? g_cuda_stream_type : g_stream_type;
  }
  PyObject* object = type->tp_alloc(type, 0);
  if (object == nullptr) {
    WithoutLock([&] {
      handle.reset();
      return 0;
    });
    return nullptr;
  }
  StreamObject* stream = AsStream(object);
  new (&stream->ref) StreamRef(ref);
  new (&stream->handle) std::shared_ptr<StreamHandle>(std::move(handle));
  stream->device = device;
  stream->protocol = nullptr;
  if (ref.id() != 0) (*g_streams)[ref.id()].push_back(object);
  return object;
}

void ForgetStream(PyObject* object) {
  const auto found = g_streams->find(AsStream(object)->ref.id());
  if (found == g_streams->end()) return;
  std::vector<PyObject*>& objects = found->second;
  objects.erase(std::remove(objects.begin(), objects.end(), object),
                objects.end());
  if (objects.empty()) g_streams->erase(found);
}

PyObject* FindStream(uint64_t id) {
  const auto found = g_streams->find(id);
  return found != g_streams->end() ? found->second.front() : nullptr;
}

PyObject* DefaultStreamObject(DeviceObject* device) {
  if (device->default_stream == nullptr) {
    const StreamRef ref =
        WithoutLock([&] { return DefaultStream(device->device); });
    PyObject* made = MakeStream(nullptr, ref, device, nullptr);
    if (made == nullptr) return nullptr;
    if (device->default_stream == nullptr) {
      device->default_stream = made;
    } else {
      Py_DECREF(made);  // another thread was faster
    }
  }
  return NewRef(device->default_stream);
}

PyObject* WrapStream(StreamRef ref) {
  DeviceObject* device = WrapDevice(ref.device());
  if (device == nullptr) return nullptr;
  if (ref.kind() == StreamKind::kDefault) return DefaultStreamObject(device);
  PyObject* known = FindStream(ref.id());
  if (known != nullptr && AsStream(known)->ref == ref) return NewRef(known);
  return MakeStream(nullptr, ref, device, nullptr);
}

PyObject* CurrentStreamObject(DeviceObject* device) {
  ThreadState* thread = Thread();
  if (__builtin_expect(thread == nullptr, 0)) return nullptr;
  CurrentSlot* known = SlotOfThread(thread, device->index);
  const internal::ThreadState& state = internal::t_state;
  if (__builtin_expect(device->index < state.slot_count, 1)) {
    const internal::StreamSlot& slot = state.slots[device->index];
    if (__builtin_expect(slot.gate == known->slot.gate &&
                             slot.serial == known->slot.serial &&
                             known->stream != nullptr,
                         1)) {
      return NewRef(known->stream);
    }
  }
  const StreamRef ref =
      WithoutLock([&] { return CurrentStream(device->device); });
  PyObject* stream = WrapStream(ref);
  if (stream == nullptr) return nullptr;
  known = SlotOfThread(thread, device->index);
  PyObject* former = known->stream;
  *known = {{ref.gate(), ref.serial()}, NewRef(stream)};
  Py_XDECREF(former);
  return stream;
}

PyObject* ParseStream(PyObject* object) {
  if (object == nullptr || object == Py_None) {
    DeviceObject* device = CurrentDeviceObject();
    return device != nullptr ? CurrentStreamObject(device) : nullptr;
  }
  if (IsStream(object)) return NewRef(object);
  PyErr_Format(PyExc_TypeError, "stream must be a devrt.Stream or None, not %s",
               TypeName(object));
  return nullptr;
}

StreamRef StreamOf(PyObject* object) {
  const Ref stream(ParseStream(object));
  if (!stream) ThrowPythonError();
  return AsStream(stream.get())->ref;
}

}  // namespace devrt::python
