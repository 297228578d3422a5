// SPDX-License-Identifier: Apache-2.0
//
// Adopts streams of other libraries (E16).

#include <cstring>
#include <string>
#include <utility>

#include "python/src/arguments.h"
#include "python/src/errors.h"
#include "python/src/gil.h"
#include "python/src/keep_current.h"
#include "python/src/owner.h"
#include "python/src/stream.h"

namespace devrt::python {
namespace {

PyObject* RaiseMalformed(PyObject* object, const char* what) {
  PyErr_Format(PyExc_TypeError, "%s.__cuda_stream__() %s", TypeName(object),
               what);
  return nullptr;
}

// Reads the handle from the object's protocol.  Returns false with an exception
// set.
bool AskProtocol(PyObject* object, void** handle) {
  const KeepCurrent keep;
  const Ref method(PyObject_GetAttrString(object, "__cuda_stream__"));
  if (!method) {
    if (PyErr_ExceptionMatches(PyExc_AttributeError)) {
      PyErr_Clear();
      PyErr_Format(PyExc_TypeError,
                   "a stream is an int or has __cuda_stream__(), %s has not",
                   TypeName(object));
    }
    return false;
  }
  if (!PyCallable_Check(method.get())) {
    RaiseMalformed(object, "is no method");
    return false;
  }
  const Ref answer(PyObject_CallObject(method.get(), nullptr));
  if (!answer) return false;
  if (!PyTuple_Check(answer.get()) || PyTuple_GET_SIZE(answer.get()) != 2) {
    RaiseMalformed(object, "must return a tuple of two ints");
    return false;
  }
  PyObject* version = PyTuple_GET_ITEM(answer.get(), 0);
  PyObject* value = PyTuple_GET_ITEM(answer.get(), 1);
  if (!PyLong_Check(version) || PyBool_Check(version) || !PyLong_Check(value) ||
      PyBool_Check(value)) {
    RaiseMalformed(object, "must return a tuple of two ints");
    return false;
  }
  if (PyLong_AsLong(version) != 0) {
    PyErr_Clear();
    RaiseMalformed(object, "is of a version other than 0");
    return false;
  }
  return ToAddress(value, "the handle of a stream", handle);
}

// Only cuda's streams have __cuda_stream__.  Returns false with an exception
// set if `device` names another backend, without opening that backend.
bool CheckIsForCuda(PyObject* object, PyObject* device) {
  if (device == nullptr || !(IsDevice(device) || PyUnicode_Check(device))) {
    return true;
  }
  const Ref name(PyObject_Str(device));
  const char* text = name ? ToUtf8(name.get(), "device", nullptr) : nullptr;
  if (text == nullptr) return false;
  const std::string backend(text, std::strcspn(text, ":"));
  if (backend == "cuda") return true;
  PyErr_Format(g_exceptions.invalid_argument,
               "%s.__cuda_stream__() names a stream of cuda, not of '%U': pass "
               "a device of cuda or none, or a native handle of %s",
               TypeName(object), name.get(), backend.c_str());
  return false;
}

// Returns true if the number stands for a default stream, which every device
// has.
bool IsSpecial(const BackendEntry& backend, const void* handle) {
  const auto number = reinterpret_cast<uintptr_t>(handle);
  return number == 0 || (backend.device_type != 19 && number <= 2);
}

PyObject* Special(PyTypeObject* type, DeviceObject* device, void* handle,
                  std::shared_ptr<StreamHandle> kept) {
  const bool per_thread = reinterpret_cast<uintptr_t>(handle) == 2;
  const auto ref = WithoutLock([&]() -> absl::StatusOr<StreamRef> {
    if (per_thread) return PerThreadDefaultStream(device->device);
    return DefaultStream(device->device);
  });
  if (!ref.ok()) return Raise(ref.status());
  return MakeStream(type, *ref, device, std::move(kept));
}

PyObject* Adopt(PyTypeObject* type, DeviceObject* device, Stream stream) {
  auto kept = std::make_shared<StreamHandle>();
  const StreamRef ref = stream.ref();
  kept->stream = std::move(stream);
  return MakeStream(type, ref, device, std::move(kept));
}

// Adopts the stream on the first device that the driver accepts.  The current
// device is tried first.
PyObject* Discover(PyTypeObject* type, BackendEntry* backend, void* handle,
                   const std::shared_ptr<void>& owner) {
  DeviceObject* current = CurrentDeviceOf(backend);
  if (current == nullptr) return nullptr;
  absl::Status why;
  for (size_t i = 0; i <= backend->devices.size(); ++i) {
    DeviceObject* device = i == 0 ? current : backend->devices[i - 1];
    if (i > 0 && device == current) continue;
    auto made = WithoutLock(
        [&] { return Stream::FromNative(device->device, handle, owner); });
    if (made.ok()) return Adopt(type, device, *std::move(made));
    if (why.ok()) why = made.status();
    if (made.status().code() != absl::StatusCode::kInvalidArgument) break;
  }
  return Raise(why);
}

}  // namespace

PyObject* FromExternal(PyObject* type, PyObject* const* args, Py_ssize_t count,
                       PyObject* names) {
  static const Parameters kParameters = {
      "from_external", 1, 2, 2, {"stream", "device"}};
  PyObject* values[2];
  if (!SortArguments(kParameters, args, static_cast<size_t>(count), names,
                     values)) {
    return nullptr;
  }
  auto* made_type = reinterpret_cast<PyTypeObject*>(type);
  PyObject* source = values[0];
  const bool is_object = !PyLong_Check(source) || PyBool_Check(source);
  void* handle = nullptr;
  if (is_object ? !AskProtocol(source, &handle)
                : !ToAddress(source, "stream", &handle)) {
    return nullptr;
  }
  if (is_object && !CheckIsForCuda(source, values[1])) return nullptr;
  BackendEntry* backend = nullptr;
  if (is_object || PyType_IsSubtype(made_type, g_cuda_stream_type)) {
    backend = OpenBackend("cuda");
    if (backend == nullptr) return nullptr;
  }
  const bool has_device = values[1] != nullptr && values[1] != Py_None;
  DeviceObject* device = ParseDevice(values[1], backend);
  if (device == nullptr) return nullptr;
  const std::shared_ptr<void> owner = is_object ? KeepAlive(source) : nullptr;
  if (IsSpecial(*device->backend, handle)) {
    auto kept = std::make_shared<StreamHandle>();
    kept->keep = owner;
    return Special(made_type, device, handle, std::move(kept));
  }
  if (!has_device) return Discover(made_type, device->backend, handle, owner);
  auto made = WithoutLock(
      [&] { return Stream::FromNative(device->device, handle, owner); });
  if (!made.ok()) return Raise(made.status());
  return Adopt(made_type, device, *std::move(made));
}

}  // namespace devrt::python
