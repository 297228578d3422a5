// SPDX-License-Identifier: Apache-2.0
#include "python/src/errors.h"

#include <nanobind/nanobind.h>

#include <optional>
#include <string>

#include "devrt/runtime/capture_error.h"
#include "devrt/runtime/status.h"
#include "python/src/error_text.h"

namespace devrt::python {

Exceptions g_exceptions;

namespace {

struct ClassEntry {
  PyObject* Exceptions::*member;
  const char* name;  // with the package
  PyObject* Exceptions::*base;
  PyObject** builtin;  // a second base; null: none
  const char* doc;
  // For exceptions that are raised without a status.  Null: the base's.
  const char* code = nullptr;
};

const ClassEntry kClasses[] = {
    {&Exceptions::error, "devrt.Error", nullptr, &PyExc_RuntimeError,
     "Base class of errors that devrt reports.\n\n"
     "Attributes:\n"
     "code: the status code as text, for example 'INVALID_ARGUMENT'.\n"
     "native_code, name: the driver's number and name of the error, or None.\n"
     "device: the name of the device at fault, or None.\n"
     "sticky: True if that device is lost for the rest of the process."},
    {&Exceptions::invalid_argument, "devrt.InvalidArgumentError",
     &Exceptions::error, &PyExc_ValueError,
     "An argument has a value that is not possible.", "INVALID_ARGUMENT"},
    {&Exceptions::axis, "devrt.AxisError", &Exceptions::invalid_argument,
     &PyExc_IndexError, "An array has no such axis."},
    {&Exceptions::out_of_memory, "devrt.OutOfMemoryError", &Exceptions::error,
     &PyExc_MemoryError,
     "Memory ran out.  The request changed nothing, and a smaller one may\n"
     "succeed.",
     "RESOURCE_EXHAUSTED"},
    {&Exceptions::unsupported, "devrt.UnsupportedError", &Exceptions::error,
     &PyExc_NotImplementedError, "The backend cannot do this.",
     "UNIMPLEMENTED"},
    {&Exceptions::device_error, "devrt.DeviceError", &Exceptions::error,
     nullptr,
     "A call of the driver failed.  The text has the driver's name of the\n"
     "error."},
    {&Exceptions::cuda_error, "devrt.CudaError", &Exceptions::device_error,
     nullptr, "A call of CUDA's driver, or of HIP's, failed."},
    {&Exceptions::device_fault, "devrt.DeviceFaultError",
     &Exceptions::device_error, nullptr,
     "The device is lost for the rest of the process."},
    {&Exceptions::stream_capture, "devrt.StreamCaptureError",
     &Exceptions::device_error, nullptr,
     "The call is not allowed while a stream captures.  Either the driver\n"
     "refused it, and native_code is the driver's number, or devrt did before\n"
     "it asked."},
    {&Exceptions::copy_required, "devrt.CopyRequiredError", nullptr,
     &PyExc_BufferError,
     "A copy would be needed, and copy is False.\n\n"
     "Not a devrt.Error, because callers that ask for no copy expect a\n"
     "BufferError or a ValueError.  Has the attributes of devrt.Error.",
     "FAILED_PRECONDITION"},
    {&Exceptions::interop_warning, "devrt.InteropWarning", nullptr,
     &PyExc_UserWarning,
     "devrt repaired something in the exchange with another library."},
};

PyObject* MakeClass(const ClassEntry& entry) {
  Ref bases(PyTuple_New(0));
  PyObject* first = entry.base != nullptr ? g_exceptions.*entry.base : nullptr;
  PyObject* second = entry.builtin != nullptr ? *entry.builtin : nullptr;
  if (entry.member == &Exceptions::copy_required) {
    bases = Ref(PyTuple_Pack(2, second, PyExc_ValueError));
  } else if (first != nullptr && second != nullptr) {
    bases = Ref(PyTuple_Pack(2, first, second));
  } else {
    bases = Ref(PyTuple_Pack(1, first != nullptr ? first : second));
  }
  if (!bases) return nullptr;
  Ref attributes(PyDict_New());
  if (!attributes) return nullptr;
  if (entry.member == &Exceptions::error ||
      entry.member == &Exceptions::copy_required) {
    // Attributes of instances that a program makes.
    attributes = Ref(Py_BuildValue("{sOsOsOsOsO}", "code", Py_None,
                                   "native_code", Py_None, "name", Py_None,
                                   "device", Py_None, "sticky", Py_False));
    if (!attributes) return nullptr;
  }
  if (entry.code != nullptr) {
    const Ref code(PyUnicode_FromString(entry.code));
    if (!code ||
        PyDict_SetItemString(attributes.get(), "code", code.get()) != 0) {
      return nullptr;
    }
  }
  return PyErr_NewExceptionWithDoc(entry.name, entry.doc, bases.get(),
                                   attributes.get());
}

PyObject* ClassOf(const absl::Status& status,
                  const std::optional<ErrorInfo>& info) {
  if (info.has_value() && info->sticky) return g_exceptions.device_fault;
  switch (status.code()) {
    case absl::StatusCode::kResourceExhausted:
      return g_exceptions.out_of_memory;
    case absl::StatusCode::kInvalidArgument:
      return g_exceptions.invalid_argument;
    case absl::StatusCode::kUnimplemented:
      return g_exceptions.unsupported;
    default:
      break;
  }
  if (IsCaptureError(status)) return g_exceptions.stream_capture;
  if (!info.has_value() || info->native_code == 0) return g_exceptions.error;
  const bool gpu = info->backend == "cuda" || info->backend == "hip";
  return gpu ? g_exceptions.cuda_error : g_exceptions.device_error;
}

// Decodes text that may not be UTF-8.  Returns a new reference.
PyObject* Text(std::string_view text) {
  return PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()),
                              "replace");
}

bool Set(PyObject* object, const char* name, PyObject* stolen) {
  const Ref value(stolen);
  return value && PyObject_SetAttrString(object, name, value.get()) == 0;
}

bool SetOrigin(PyObject* exception, const ErrorInfo& info) {
  if (!info.native_name.empty() || info.native_code != 0) {
    if (!Set(exception, "native_code", PyLong_FromLongLong(info.native_code)) ||
        !Set(exception, "name", Text(info.native_name))) {
      return false;
    }
  }
  if (info.device >= 0) {
    const std::string name = info.backend + ":" + std::to_string(info.device);
    if (!Set(exception, "device", Text(name))) return false;
  }
  return Set(exception, "sticky", PyBool_FromLong(info.sticky));
}

}  // namespace

bool AddExceptions(PyObject* module) {
  for (const ClassEntry& entry : kClasses) {
    PyObject* made = MakeClass(entry);
    if (made == nullptr) return false;
    g_exceptions.*entry.member = made;
    if (PyModule_AddObject(module, entry.name + sizeof("devrt.") - 1,
                           NewRef(made)) != 0) {
      Py_DECREF(made);
      return false;
    }
  }
  return true;
}

PyObject* MakeException(const absl::Status& status) {
  const std::optional<ErrorInfo> info = GetErrorInfo(status);
  Ref text(Text(ErrorText(status)));
  if (!text) return nullptr;
  Ref exception(
      PyObject_CallFunctionObjArgs(ClassOf(status, info), text.get(), nullptr));
  if (!exception) return nullptr;
  const std::string code = absl::StatusCodeToString(status.code());
  if (!Set(exception.get(), "code", Text(code))) return nullptr;
  if (info.has_value() && !SetOrigin(exception.get(), *info)) return nullptr;
  return exception.Release();
}

PyObject* Raise(const absl::Status& status) {
  // A signal handler has ended the wait, and its exception is set.
  if (absl::IsCancelled(status) && PyErr_Occurred() != nullptr) return nullptr;
  const Ref exception(MakeException(status));
  if (exception) {
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.get())),
                    exception.get());
  }
  return nullptr;
}

#if PY_VERSION_HEX >= 0x030C0000
Ref TakeRaised() { return Ref(PyErr_GetRaisedException()); }

void RaiseAgain(Ref exception) {
  PyErr_SetRaisedException(exception.Release());
}
#else
Ref TakeRaised() {
  PyObject *type = nullptr, *exception = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &exception, &traceback);
  PyErr_NormalizeException(&type, &exception, &traceback);
  if (traceback != nullptr) PyException_SetTraceback(exception, traceback);
  Py_XDECREF(type);
  Py_XDECREF(traceback);
  return Ref(exception);
}

void RaiseAgain(Ref exception) {
  PyObject* const type = NewRef(Py_TYPE(exception.get()));
  PyObject* const traceback = PyException_GetTraceback(exception.get());
  PyErr_Restore(type, exception.Release(), traceback);
}
#endif

void ThrowPythonError() { throw nanobind::python_error(); }

void Check(const absl::Status& status) {
  if (status.ok()) return;
  Raise(status);
  ThrowPythonError();
}

}  // namespace devrt::python
