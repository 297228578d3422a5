// SPDX-License-Identifier: Apache-2.0
#include "python/src/unseen.h"

#include <utility>

#include "python/src/errors.h"
#include "python/src/python.h"

namespace devrt::python {
namespace {

// One is enough: signal handlers run on one thread only.
PyObject* g_noted = nullptr;
PyObject* g_traceback = nullptr;  // when it was noted; only compared

PyObject* TracebackOf(PyObject* exception) {
  return Ref(PyException_GetTraceback(exception)).get();
}

bool IsUnseen() {
  return g_noted != nullptr && TracebackOf(g_noted) == g_traceback;
}

// A pending call, run when the main thread runs Python code again.
int RaiseAtLast(void*) {
  const bool raises = RaiseUnseen();
  PyObject* const noted = std::exchange(g_noted, nullptr);
  if (noted != nullptr) DropReference(noted);
  return raises ? -1 : 0;
}

}  // namespace

void NoteRaised() {
  Ref raised = TakeRaised();
  const Ref former(std::exchange(g_noted, NewRef(raised.get())));
  g_traceback = TracebackOf(g_noted);
  RaiseAgain(std::move(raised));
  (void)Py_AddPendingCall(RaiseAtLast, nullptr);
}

bool RaiseUnseen() {
  if (!IsUnseen()) return false;
  RaiseAgain(Ref::To(g_noted));
  return true;
}

}  // namespace devrt::python
