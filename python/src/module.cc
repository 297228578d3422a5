// SPDX-License-Identifier: Apache-2.0
//
// The module devrt._core.  Functions that are called often are plain C
// functions in type slots and method tables. nanobind binds the rest, at about
// 75 ns for a call's dispatch.  Importing the module opens no backend and
// starts no thread.
//
// Types are in *_type.cc or in a file of their own, functions behind a Bind
// function of bindings.h.  A new part needs a file and a line below.

#include <stdexcept>
#include <string>
#include <utility>

#include "devrt/arrays/exchange.h"
#include "devrt/runtime/turns.h"
#include "python/src/array.h"
#include "python/src/bindings.h"
#include "python/src/contexts.h"
#include "python/src/dlpack.h"
#include "python/src/errors.h"
#include "python/src/event.h"
#include "python/src/gil.h"
#include "python/src/helpers.h"
#include "python/src/host_call.h"
#include "python/src/plain_functions.h"

namespace devrt::python {
namespace {

// A thread waits for its first turn in a simulator where it takes the first
// lock of devrt, which may be in a call that keeps the interpreter's lock.
void WaitWithoutLock(void (*wait)(void* arg), void* arg) {
  if (Py_IsInitialized() == 0 || PyGILState_GetThisThreadState() == nullptr ||
      PyGILState_Check() == 0) {
    wait(arg);
    return;
  }
  PyThreadState* const state = PyEval_SaveThread();
  wait(arg);
  TakeLock(state);
}

PyMethodDef g_functions[] = {
    {"_set_helpers", SetHelpers, METH_VARARGS, nullptr},
    {"_next_host_call", NextHostCall, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

void RefuseOtherInterpreters() {
  if (PyInterpreterState_Get() == PyInterpreterState_Main()) return;
  // nanobind turns this into an ImportError.
  throw std::runtime_error(
      "devrt can be imported by the main interpreter only: current devices and "
      "streams belong to threads, which sub-interpreters share");
}

// The GIL guards the static variables of this extension.
void RefuseWithoutGil() {
  PyObject* asks = PySys_GetObject("_is_gil_enabled");  // borrowed
  if (asks == nullptr) return;
  const Ref enabled(PyObject_CallObject(asks, nullptr));
  if (!enabled) ThrowPythonError();
  if (enabled.get() != Py_False) return;
  throw std::runtime_error(
      "devrt needs the GIL, which is off in this interpreter: start it with "
      "PYTHON_GIL=1, or without PYTHON_GIL and -X gil");
}

// The types and their state belong to the process.
void RefuseSecondImport() {
  static bool imported = false;  // guarded by the GIL
  if (std::exchange(imported, true)) {
    throw std::runtime_error(
        "devrt._core can be imported once in a process: leave the modules of "
        "devrt in sys.modules, and start a new process to load them afresh");
  }
}

// An unknown setting fails the import, rather than a later access.
void CheckSettings() {
  const absl::Status status = CheckExchangeEnvironment();
  // nanobind would hide an exception that is set behind its own.
  if (!status.ok()) throw std::runtime_error(std::string(status.message()));
}

}  // namespace
}  // namespace devrt::python

NB_MODULE(_core, m) {
  devrt::internal::g_around_wait.store(&devrt::python::WaitWithoutLock);
  using namespace devrt::python;  // NOLINT: the whole file is about it
  RefuseOtherInterpreters();
  RefuseWithoutGil();
  CheckSettings();
  RefuseSecondImport();
  // Objects that are alive at the end are left to the process (C106).
  nb::set_leak_warnings(false);
  PyObject* module = m.ptr();
  if (!AddExceptions(module) || !AddDeviceType(module) ||
      !AddStreamTypes(module) || !AddEventType(module) ||
      !AddContexts(module) || !AddArrays(module) ||
      !AddDLPack(module, g_array_type) ||
      PyModule_AddFunctions(module, g_functions) != 0) {
    ThrowPythonError();
  }
  BindBackends(m);
  BindCollectives(m);
  BindCudaCodes(m);
  BindExploration(m);
  BindHostMemory(m);
  BindInterop(m);
  BindMemory(m);
  BindPool(m);
  BindProbe(m);
  BindProperties(m);
  BindSimulator(m);
  BindValidate(m);
  BindWakeups(m);
  if (!MakeFunctionsPlain(module)) ThrowPythonError();
}
