// SPDX-License-Identifier: Apache-2.0
#include "python/src/helpers.h"

#include <utility>

#include "python/src/gil.h"

namespace devrt::python {
namespace {

PyObject* g_decorate = nullptr;
PyObject* g_run = nullptr;
PyObject* g_launch = nullptr;
PyObject* g_await = nullptr;

// Calls helper(self, *args, **keywords).
PyObject* Call(PyObject* helper, PyObject* self, PyObject* args,
               PyObject* keywords) {
  if (helper == nullptr) {
    PyErr_SetString(PyExc_RuntimeError, "import devrt, not devrt._core");
    return nullptr;
  }
  const Py_ssize_t count = PyTuple_GET_SIZE(args);
  Ref all(PyTuple_New(count + 1));
  if (!all) return nullptr;
  PyTuple_SET_ITEM(all.get(), 0, NewRef(self));
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyTuple_SET_ITEM(all.get(), i + 1, NewRef(PyTuple_GET_ITEM(args, i)));
  }
  return WithoutUnwind(
      [&] { return PyObject_Call(helper, all.get(), keywords); });
}

}  // namespace

PyObject* SetHelpers(PyObject*, PyObject* helpers) {
  PyObject *decorate, *run, *launch, *wait;
  if (!PyArg_ParseTuple(helpers, "OOOO", &decorate, &run, &launch, &wait)) {
    return nullptr;
  }
  Py_XDECREF(std::exchange(g_decorate, NewRef(decorate)));
  Py_XDECREF(std::exchange(g_run, NewRef(run)));
  Py_XDECREF(std::exchange(g_launch, NewRef(launch)));
  Py_XDECREF(std::exchange(g_await, NewRef(wait)));
  return NewRef(Py_None);
}

PyObject* Decorate(PyObject* self, PyObject* args, PyObject* keywords) {
  return Call(g_decorate, self, args, keywords);
}

PyObject* RunInContext(PyObject* self, PyObject* args, PyObject* keywords) {
  return Call(g_run, self, args, keywords);
}

PyObject* Await(PyObject* self) {
  const Ref none(PyTuple_New(0));
  return none ? Call(g_await, self, none.get(), nullptr) : nullptr;
}

PyObject* LaunchHostFunction(PyObject* self, PyObject* args,
                             PyObject* keywords) {
  return Call(g_launch, self, args, keywords);
}

}  // namespace devrt::python
