// SPDX-License-Identifier: Apache-2.0
//
// The Bind functions, one per file, which add functions to the module by
// nanobind, and what they share.  The helpers throw the exception that is set.

#ifndef DEVRT_PYTHON_SRC_BINDINGS_H_
#define DEVRT_PYTHON_SRC_BINDINGS_H_

#include "python/src/python.h"
// Python.h comes first.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string_view>

#include "python/src/arguments.h"
#include "python/src/device.h"
#include "python/src/errors.h"
#include "python/src/gil.h"
#include "python/src/stream.h"
#include "python/src/wait.h"

namespace devrt::python {

namespace nb = nanobind;

void BindBackends(nb::module_& module);
void BindCollectives(nb::module_& module);
void BindCudaCodes(nb::module_& module);
void BindInterop(nb::module_& module);
void BindMemory(nb::module_& module);
void BindExploration(nb::module_& module);
void BindHostMemory(nb::module_& module);
void BindPool(nb::module_& module);
void BindProbe(nb::module_& module);
void BindProperties(nb::module_& module);
void BindSimulator(nb::module_& module);
void BindValidate(nb::module_& module);
void BindWakeups(nb::module_& module);

// Decodes text of the library.  Bytes that are not UTF-8 are replaced.
inline nb::object ToText(std::string_view text) {
  PyObject* made = PyUnicode_DecodeUTF8(
      text.data(), static_cast<Py_ssize_t>(text.size()), "replace");
  if (made == nullptr) ThrowPythonError();
  return nb::steal(made);
}

inline uint64_t BytesOf(nb::handle object, const char* what) {
  uint64_t value = 0;
  if (!ToBytes(object.ptr(), what, &value)) ThrowPythonError();
  return value;
}
inline uint64_t CountOf(nb::handle object, const char* what) {
  uint64_t value = 0;
  if (!ToCount(object.ptr(), what, &value)) ThrowPythonError();
  return value;
}
inline void* AddressOf(nb::handle object, const char* what) {
  void* value = nullptr;
  if (!ToAddress(object.ptr(), what, &value)) ThrowPythonError();
  return value;
}
inline int64_t IntOf(nb::handle object, const char* what) {
  int64_t value = 0;
  if (!ToInt64(object.ptr(), what, &value)) ThrowPythonError();
  return value;
}
inline nb::int_ AddressToInt(const void* address) {
  return nb::int_(reinterpret_cast<uintptr_t>(address));
}
inline BackendEntry* BackendOf(nb::handle name) {
  Py_ssize_t size = 0;
  if (!PyUnicode_Check(name.ptr())) {
    PyErr_Format(PyExc_TypeError, "backend must be a str, not %s",
                 TypeName(name.ptr()));
    ThrowPythonError();
  }
  const char* text = ToUtf8(name.ptr(), "backend", &size);
  BackendEntry* backend = text != nullptr
                              ? OpenBackend({text, static_cast<size_t>(size)})
                              : nullptr;
  if (backend == nullptr) ThrowPythonError();
  return backend;
}
// Makes a call that may wait.  Ctrl-C ends the wait (RunFor).
inline void RunOrThrow(const BackendEntry& backend, const WaitCall& call) {
  const Ref none(RunFor(backend, call));
  if (!none) ThrowPythonError();
}
inline nb::object ToObject(Device device) {
  DeviceObject* object = WrapDevice(device);
  if (object == nullptr) ThrowPythonError();
  return nb::borrow(reinterpret_cast<PyObject*>(object));
}

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_BINDINGS_H_
