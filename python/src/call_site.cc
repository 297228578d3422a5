// SPDX-License-Identifier: Apache-2.0
#include "python/src/call_site.h"

#include <cstring>
#include <unordered_map>

#include "arrays/storage/storage.h"
#include "python/src/device.h"
#include "python/src/errors.h"
#include "python/src/python.h"

namespace devrt::python {
namespace {

// Returns true if the frame runs code of the package.
bool IsOurs(PyFrameObject* frame) {
  // Python 3.11 hides the members of frames, and older versions have no getter.
  const Ref globals(
      PyObject_GetAttrString(reinterpret_cast<PyObject*>(frame), "f_globals"));
  PyObject* name = nullptr;  // borrowed
  if (globals && PyDict_Check(globals.get())) {
    name = PyDict_GetItemString(globals.get(), "__name__");
  }
  const char* text = nullptr;
  if (name != nullptr && PyUnicode_Check(name)) text = PyUnicode_AsUTF8(name);
  if (text == nullptr) {
    PyErr_Clear();
    return false;
  }
  if (std::strncmp(text, "devrt", 5) != 0) return false;
  return text[5] == '\0' || text[5] == '.';
}

// Returns a new reference, or null.  Python 3.9 does not declare
// PyFrame_GetBack.
PyFrameObject* CallerOf(PyFrameObject* frame) {
  Ref caller(
      PyObject_GetAttrString(reinterpret_cast<PyObject*>(frame), "f_back"));
  if (!caller) PyErr_Clear();
  if (!caller || caller.get() == Py_None) return nullptr;
  return reinterpret_cast<PyFrameObject*>(caller.Release());
}

// Returns the innermost frame outside the package, or else the innermost one.
// A new reference.
PyFrameObject* FrameOfProgram() {
  PyFrameObject* const innermost = PyEval_GetFrame();  // borrowed
  if (innermost == nullptr) return nullptr;
  PyFrameObject* frame = innermost;
  Py_INCREF(frame);
  while (frame != nullptr && IsOurs(frame)) {
    PyFrameObject* const caller = CallerOf(frame);
    Py_DECREF(frame);
    frame = caller;
  }
  if (frame != nullptr) return frame;
  Py_INCREF(innermost);
  return innermost;
}

}  // namespace

uint32_t g_site_readers = 0;

void SetSiteReader(SiteReader reader, bool reads) {
  const auto bit = static_cast<uint32_t>(reader);
  g_site_readers = reads ? g_site_readers | bit : g_site_readers & ~bit;
}

void SiteHere::Find() {
  const KeepException keep;
  // A CallSite needs text that lives for ever, so names are kept for ever.
  static auto* names = new std::unordered_map<PyObject*, const char*>;
  PyFrameObject* const frame = FrameOfProgram();
  if (frame == nullptr) return;
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
  Py_DECREF(frame);
  site_ = {found->second, line};
  // Storages that the call makes and ends are recorded with its line.
  former_ = internal::Storage::SetEndSite(site_);
}

void SiteHere::Leave() { internal::Storage::SetEndSite(former_); }

}  // namespace devrt::python
