// SPDX-License-Identifier: Apache-2.0
//
// Lines of Python in a simulator's timeline and reports.

#include <unordered_map>

#include "python/src/device.h"
#include "python/src/python.h"

namespace devrt::python {

CallSite PythonSite() {
  // CallSite wants text that lives for ever: so do the names that were seen.
  static auto* names = new std::unordered_map<PyObject*, const char*>;
  PyFrameObject* frame = PyEval_GetFrame();  // borrowed
  if (frame == nullptr) return {};
  PyCodeObject* code = PyFrame_GetCode(frame);
  const int line = PyFrame_GetLineNumber(frame);
  PyObject* name = code->co_filename;
  auto found = names->find(name);
  if (found == names->end()) {
    const char* text = PyUnicode_AsUTF8(name);
    if (text == nullptr) {
      PyErr_Clear();
      text = "?";
    }
    found = names->emplace(NewRef(name), text).first;
  }
  Py_DECREF(code);
  return {found->second, line};
}

}  // namespace devrt::python
