// SPDX-License-Identifier: Apache-2.0
#include "python/src/call_site.h"

#include <cstring>
#include <utility>

#include "arrays/storage/storage.h"
#include "devrt/runtime/thread_state.h"
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

// Returns the caller of a frame, and gives the reference to that frame back.
PyFrameObject* TakeCaller(PyFrameObject* frame) {
  PyFrameObject* const caller = CallerOf(frame);
  Py_DECREF(frame);
  return caller;
}

// Returns the innermost frame outside the package, or else the innermost one.
// A new reference.
PyFrameObject* FrameOfProgram() {
  PyFrameObject* const innermost = PyEval_GetFrame();  // borrowed
  if (innermost == nullptr) return nullptr;
  PyFrameObject* frame = innermost;
  Py_INCREF(frame);
  while (frame != nullptr && IsOurs(frame)) frame = TakeCaller(frame);
  if (frame != nullptr) return frame;
  Py_INCREF(innermost);
  return innermost;
}

// The text of a file's or a function's name.  Sites and frames need texts that
// live for ever, so names are kept for ever.  Equal names have one text: code
// that is compiled again has new names.
const char* TextOf(PyObject* name) {
  static PyObject* const names = PyDict_New();
  PyObject* const kept = PyDict_SetDefault(names, name, name);
  const char* const text = kept == nullptr ? nullptr : PyUnicode_AsUTF8(kept);
  if (text != nullptr) return text;
  PyErr_Clear();
  return "?";
}

devrt_program_frame_v0 Note(PyFrameObject* frame) {
  PyCodeObject* const code = PyFrame_GetCode(frame);
#if PY_VERSION_HEX >= 0x030B0000
  PyObject* const name = code->co_qualname;
#else
  PyObject* const name = code->co_name;
#endif
  const devrt_program_frame_v0 noted = {TextOf(code->co_filename), TextOf(name),
                                        PyFrame_GetLineNumber(frame), 0};
  Py_DECREF(code);
  return noted;
}

}  // namespace

// The call stack of a call, for devrt.program_stack/0.
struct NotedFrames {
  devrt_program_frames_v0 list;
  devrt_program_frame_v0 frames[DEVRT_PROGRAM_FRAMES];
  const devrt_program_frames_v0* former;  // of a call that this one is part of
};

namespace {

// Notes the stack from `frame`, a new reference, outwards.
void NoteFrames(PyFrameObject* frame, NotedFrames* noted) {
  devrt_program_frames_v0& list = noted->list;
  list = {sizeof list, 0, noted->frames, 0, 0};
  for (; frame != nullptr; frame = TakeCaller(frame)) {
    if (IsOurs(frame)) continue;
    if (list.count == DEVRT_PROGRAM_FRAMES) {
      ++list.left_out;
    } else {
      noted->frames[list.count++] = Note(frame);
    }
  }
}

// Returns true if the calling thread has the GIL.  PyGILState_Check is true in
// any thread once there was a second interpreter.
bool HasGil() {
#if PY_VERSION_HEX >= 0x030D0000
  PyThreadState* const running = PyThreadState_GetUnchecked();
#else
  PyThreadState* const running = _PyThreadState_UncheckedGet();
#endif
  return running != nullptr && running == PyGILState_GetThisThreadState();
}

// Of a call by C++ code that Python called, or of Python's end of an object.
const devrt_program_frames_v0* NoteFramesHere() {
  static thread_local NotedFrames noted;
  if (!HasGil()) return nullptr;
  const KeepException keep;
  // The caller may have locks of devrt, which a collection of garbage takes
  // where it ends objects.  CPython 3.11 makes objects for frames.
#if PY_VERSION_HEX >= 0x030A0000
  const bool collects = PyGC_Disable() != 0;
#endif
  PyFrameObject* const frame = PyEval_GetFrame();
  Py_XINCREF(frame);
  NoteFrames(frame, &noted);
#if PY_VERSION_HEX >= 0x030A0000
  if (collects) PyGC_Enable();
#endif
  return noted.list.count == 0 ? nullptr : &noted.list;
}

}  // namespace

uint32_t g_site_readers = 0;

void SetSiteReader(SiteReader reader, bool reads) {
  const auto bit = static_cast<uint32_t>(reader);
  g_site_readers = reads ? g_site_readers | bit : g_site_readers & ~bit;
  if (reader != SiteReader::kLayers) return;
  internal::GetProgramStacks().note = &NoteFramesHere;
  internal::GetProgramStacks().interpreter[0] = &g_site_readers;
  internal::GetProgramStacks().interpreter[1] =
      reinterpret_cast<const void*>(&PyEval_GetFrame);
}

void SiteHere::Find() {
  const KeepException keep;
  PyFrameObject* const frame = FrameOfProgram();
  if (frame == nullptr) return;
  PyCodeObject* const code = PyFrame_GetCode(frame);
  site_ = {TextOf(code->co_filename), PyFrame_GetLineNumber(frame)};
  Py_DECREF(code);
  // Storages that the call makes and ends are recorded with its line.
  former_ = internal::Storage::SetEndSite(site_);
  if (internal::GetProgramStacks().wants != 0) {
    frames_ = new NotedFrames;
    NoteFrames(frame, frames_);
    frames_->former = std::exchange(internal::t_state.frames, &frames_->list);
  } else {
    Py_DECREF(frame);
  }
}

void SiteHere::Leave() {
  internal::Storage::SetEndSite(former_);
  if (frames_ == nullptr) return;
  internal::t_state.frames = frames_->former;
  delete frames_;
}

}  // namespace devrt::python
