// SPDX-License-Identifier: Apache-2.0
//
// Turns statuses into Python exceptions (docs/reference/semantics.md 2.7, E64).

#ifndef DEVRT_PYTHON_SRC_ERRORS_H_
#define DEVRT_PYTHON_SRC_ERRORS_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "python/src/python.h"

namespace devrt::python {

// The exception classes.  They live as long as the interpreter.
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

// Makes the classes and adds them to the module.  Returns false with an
// exception set on failure.
bool AddExceptions(PyObject* module);

// Makes the exception for an error.  Returns a new reference, or null with
// another exception set.
PyObject* MakeException(const absl::Status& status);

// Raises the exception for an error and returns null.
PyObject* Raise(const absl::Status& status);

// Returns None, or raises the exception and returns null.
inline PyObject* NoneOrRaise(const absl::Status& status) {
  if (__builtin_expect(!status.ok(), 0)) return Raise(status);
  return NewRef(Py_None);
}

// Saves the exception that is set, if any, and sets it again at the end of the
// scope (E27).
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

// Takes the exception that is set, which clears it.  RaiseAgain sets it again.
Ref TakeRaised();
void RaiseAgain(Ref exception);

// For functions that nanobind calls: throws what nanobind turns into the
// exception for the status.
void Check(const absl::Status& status);
template <typename T>
T Check(absl::StatusOr<T> value) {
  if (!value.ok()) Check(value.status());
  return *std::move(value);
}
// Throws the exception that is set.
[[noreturn]] void ThrowPythonError();

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_ERRORS_H_
