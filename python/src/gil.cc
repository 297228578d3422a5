// SPDX-License-Identifier: Apache-2.0
#include "python/src/gil.h"

#include <unistd.h>

namespace devrt::python {

#if PY_VERSION_HEX >= 0x030D0000
bool RunsSignalHandlers() {
  const Ref module(PyImport_ImportModule("threading"));
  const Ref thread(
      module ? PyObject_CallMethod(module.get(), "main_thread", nullptr)
             : nullptr);
  const Ref ident(thread ? PyObject_GetAttrString(thread.get(), "ident")
                         : nullptr);
  if (ident && PyLong_Check(ident.get())) {
    const unsigned long main =  // NOLINT: CPython's type
        PyLong_AsUnsignedLong(ident.get());
    if (PyErr_Occurred() == nullptr) return main == PyThread_get_thread_ident();
  }
  PyErr_Clear();
  return false;
}
#else
bool RunsSignalHandlers() { return _PyOS_IsMainThread() != 0; }
#endif

// The interpreter puts new states in front.  Only the first and this thread's
// are read, since other states may be freed at any time.
bool IsAlone() {
  PyThreadState* const own = PyThreadState_Get();
  return PyInterpreterState_ThreadHead(PyInterpreterState_Main()) == own &&
         PyThreadState_Next(own) == nullptr;
}

void BlockIfFinalizing() {
  while (IsFinalizing()) pause();
}

// Out of line, because inline each driver call would carry the handler.
void TakeLock(PyThreadState* state) {
  WithoutUnwind([&] { PyEval_RestoreThread(state); });
}

PyObject* CallPython(PyObject* function, PyObject* arguments) {
  return WithoutUnwind(
      [&] { return PyObject_CallObject(function, arguments); });
}

void DropLast(PyObject* object) {
  WithoutUnwind([&] { Py_DECREF(object); });
}

}  // namespace devrt::python
