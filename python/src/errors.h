// SPDX-License-Identifier: Apache-2.0
//
// Statuses as Python exceptions (docs/semantics.md 2.7, E64).

#ifndef DEVRT_PYTHON_SRC_ERRORS_H_
#define DEVRT_PYTHON_SRC_ERRORS_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "python/src/python.h"

namespace devrt::python {

// The exception classes; alive as long as the interpreter.
struct Exceptions {
  PyObject* error = nullptr;
  PyObject* invalid_argument = nullptr;
  PyObject* axis = nullptr;
  PyObject* out_of_memory = nullptr;
  PyObject* unsupported = nullptr;
  PyObject* device_error = nullptr;
  PyObject* cuda_error = nullptr;
  PyObject* device_fault = nullptr;
  PyObject* stream_capture = nullptr;
  PyObject* copy_required = nullptr;
  PyObject* interop_warning = nullptr;
};
extern Exceptions g_exceptions;

// Makes the classes and adds them to the module; false with an exception.
bool AddExceptions(PyObject* module);

// The exception for an error; a new reference, null with another exception.
PyObject* MakeException(const absl::Status& status);

// Raises it; returns null.
PyObject* Raise(const absl::Status& status);

// None, or the exception.
inline PyObject* NoneOrRaise(const absl::Status& status) {
  if (__builtin_expect(!status.ok(), 0)) return Raise(status);
  return NewRef(Py_None);
}

// What is raised already stays raised (E27).
class KeepException {
 public:
#if PY_VERSION_HEX >= 0x030C0000
  KeepException() : raised_(PyErr_GetRaisedException()) {}
  ~KeepException() { PyErr_SetRaisedException(raised_); }
#else
  KeepException() { PyErr_Fetch(&type_, &raised_, &traceback_); }
  ~KeepException() { PyErr_Restore(type_, raised_, traceback_); }
#endif
  KeepException(const KeepException&) = delete;
  KeepException& operator=(const KeepException&) = delete;

 private:
  PyObject* type_ = nullptr;
  PyObject* raised_ = nullptr;
  PyObject* traceback_ = nullptr;
};

// What is raised, which is then raised no more; RaiseAgain is the opposite.
Ref TakeRaised();
void RaiseAgain(Ref exception);

// For functions that nanobind calls: throws what it turns into the exception.
void Check(const absl::Status& status);
template <typename T>
T Check(absl::StatusOr<T> value) {
  if (!value.ok()) Check(value.status());
  return *std::move(value);
}
// Throws what is set.
[[noreturn]] void ThrowPythonError();

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_ERRORS_H_
