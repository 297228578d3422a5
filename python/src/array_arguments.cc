// SPDX-License-Identifier: Apache-2.0
//
// Arguments of functions about arrays, and waits ahead of library calls.

#include <string>

#include "arrays/copy/copy_steps.h"
#include "devrt/arrays/exchange.h"
#include "devrt/runtime/capture_error.h"
#include "devrt/runtime/status.h"
#include "python/src/arguments.h"
#include "python/src/array.h"
#include "python/src/call_site.h"
#include "python/src/device.h"
#include "python/src/error_text.h"
#include "python/src/stream.h"
#include "python/src/wait.h"
#include "streams/captures/relaxed_wait.h"

namespace devrt::python {
namespace {

bool IsOnDevice(const Place& place) {
  return place.kind() == MemoryKind::kDevice ||
         place.kind() == MemoryKind::kManaged;
}

bool Extent(PyObject* object, const char* what, int64_t* value) {
  if (__builtin_expect(PyLong_CheckExact(object), 1)) {
    return ToInt64(object, what, value);
  }
  if (!PyIndex_Check(object) || PyBool_Check(object) || IsForeignBool(object)) {
    PyErr_Format(PyExc_TypeError, "%s must be ints, not %s", what,
                 TypeName(object));
    return false;
  }
  const Ref index(PyNumber_Index(object));
  return index && ToInt64(index.get(), what, value);
}

}  // namespace

bool ParseShape(PyObject* object, const char* what, Dims* shape) {
  shape->clear();
  int64_t extent = 0;
  if (PyTuple_CheckExact(object)) {
    const Py_ssize_t count = PyTuple_GET_SIZE(object);
    for (Py_ssize_t i = 0; i < count; ++i) {
      if (!Extent(PyTuple_GET_ITEM(object, i), what, &extent)) return false;
      shape->push_back(extent);
    }
    return true;
  }
  const bool is_array = IsArray(object);
  if (PyIndex_Check(object)) {
    if (Extent(object, what, &extent)) {
      shape->push_back(extent);
      return true;
    }
    // NumPy's arrays without axes convert to int, others do not.
    if (is_array || !PySequence_Check(object) ||
        !PyErr_ExceptionMatches(PyExc_TypeError)) {
      return false;
    }
    PyErr_Clear();
  }
  if (PyUnicode_Check(object) || PyBytes_Check(object) || is_array ||
      !PySequence_Check(object)) {
    PyErr_Format(PyExc_TypeError,
                 "%s must be an int or a sequence of ints, "
                 "not %s",
                 what, TypeName(object));
    return false;
  }
  // A copy: the sequence's own code could change a list while it is read.
  const Ref items(PySequence_Tuple(object));
  return items && ParseShape(items.get(), what, shape);
}

bool ToAxes(const Dims& numbers, int ndim, std::vector<int>* axes) {
  for (const int64_t number : numbers) {
    if (number >= -ndim && number < ndim) {
      axes->push_back(static_cast<int>(number));
      continue;
    }
    const long long axis = number;
    if (ndim == 0) {
      PyErr_Format(g_exceptions.axis,
                   "axis %lld does not exist: an array of shape () has none",
                   axis);
    } else {
      PyErr_Format(g_exceptions.axis,
                   "axis %lld does not exist: there are %d (%d to %d)", axis,
                   ndim, -ndim, ndim - 1);
    }
    return false;
  }
  return true;
}

PyObject* DimsToTuple(DimSpan dims) {
  PyObject* tuple = PyTuple_New(static_cast<Py_ssize_t>(dims.size()));
  if (tuple == nullptr) return nullptr;
  for (size_t i = 0; i < dims.size(); ++i) {
    PyObject* item = PyLong_FromLongLong(dims[i]);
    if (item == nullptr) {
      Py_DECREF(tuple);
      return nullptr;
    }
    PyTuple_SET_ITEM(tuple, static_cast<Py_ssize_t>(i), item);
  }
  return tuple;
}

std::optional<Place> ParsePlace(PyObject* device, bool pinned) {
  if (IsHostDevice(device)) {
    if (!pinned) return Place::Host();
    device = nullptr;
  }
  DeviceObject* object = ParseDevice(device);
  if (object == nullptr) return std::nullopt;
  if (pinned) return Place::Pinned(object->device);
  return Place(object->device);
}

PyObject* RaiseAs(PyObject* type, const absl::Status& status) {
  const std::string message = ErrorText(status);
  const Ref text(PyUnicode_DecodeUTF8(
      message.data(), static_cast<Py_ssize_t>(message.size()), "replace"));
  if (text) PyErr_SetObject(type, text.get());
  return nullptr;
}

PyObject* RaiseExchange(const absl::Status& status) {
  PyObject* type = nullptr;
  switch (GetExchangeError(status)) {
    case ExchangeError::kBuffer:
      type = PyExc_BufferError;
      break;
    case ExchangeError::kCopyRequired:
      type = g_exceptions.copy_required;
      break;
    case ExchangeError::kNotOffered:
      type = PyExc_AttributeError;
      break;
    case ExchangeError::kNone:
      return Raise(status);
  }
  return RaiseAs(type, status);
}

PyObject* RaiseExport(const absl::Status& status) {
  return IsCaptureError(status) ? RaiseAs(PyExc_BufferError, status)
                                : RaiseExchange(status);
}

bool WaitUntilReady(const Array& array) {
  const std::optional<Device> device = array.place().device();
  if (!device.has_value()) return true;
  const SiteHere here;
  const CallSite site = here;  // for the waiting thread too
  const auto ready = WithoutLock([&] { return array.IsReady(site); });
  if (!ready.ok()) {
    Raise(ready.status());
    return false;
  }
  if (*ready) return true;
  DeviceObject* object = WrapDevice(*device);
  if (object == nullptr) return false;
  const Ref done(WaitFor(
      *object->backend, [=] { return array.IsReady(site); },
      [=] { return array.Ready(site); }));
  return static_cast<bool>(done);
}

namespace {

// Clears an error of devrt, which the library call that follows will report.
// Returns false for any other exception.
bool ClearDevrtError() {
  if (!PyErr_ExceptionMatches(g_exceptions.error)) return false;
  PyErr_Clear();
  return true;
}

}  // namespace

bool WaitForCurrentStream(const Place& place) {
  if (!IsOnDevice(place)) return true;
  const Device device = *place.device();
  const SiteHere here;
  const CallSite site = here;  // for the waiting thread too
  const auto done = WithoutLock([&]() -> absl::StatusOr<bool> {
    const StreamRef stream = CurrentStream(device);
    // A query would invalidate the capture of a stream that captures.
    DEVRT_RETURN_IF_ERROR(internal::CheckMayWait(stream));
    return internal::QueryRelaxed(stream, site);
  });
  if (!done.ok() || *done) return true;
  DeviceObject* object = WrapDevice(device);
  if (object == nullptr) return false;
  const Ref stream(CurrentStreamObject(object));
  if (!stream) return false;
  const StreamRef ref = AsStream(stream.get())->ref;
  const std::shared_ptr<StreamHandle> handle = AsStream(stream.get())->handle;
  const Ref waited(WaitFor(
      *object->backend, [=] { return internal::QueryRelaxed(ref, site); },
      [=, handle = handle] {
        return internal::SynchronizeRelaxed(ref, site);
      }));
  return waited || ClearDevrtError();
}

bool WaitBefore(const Array& array) {
  return (WaitUntilReady(array) || ClearDevrtError()) &&
         WaitForCurrentStream(array.place());
}

bool WaitBeforeFill(const Array& array) {
  return IsOnDevice(array.place()) || WaitBefore(array);
}

bool WaitBefore(const Array& a, const Array& b, bool pinned_too) {
  bool waits = false;
  for (const Array* array : {&a, &b}) {
    const MemoryKind kind = array->place().kind();
    waits = waits || kind == MemoryKind::kHost ||
            (pinned_too && kind == MemoryKind::kPinned);
  }
  return !waits || (WaitBefore(a) && WaitBefore(b));
}

PyObject* NumpyHelper(const char* name) {
  const Ref module(PyImport_ImportModule("devrt._numpy"));
  return module ? PyObject_GetAttrString(module.get(), name) : nullptr;
}

}  // namespace devrt::python
