// SPDX-License-Identifier: Apache-2.0
#include "python/src/signal_exception.h"

#include <utility>

#include "python/src/errors.h"
#include "python/src/python.h"

namespace devrt::python {
namespace {

// One is enough: signal handlers run on one thread only.
PyObject* g_kept_exception = nullptr;
PyObject* g_traceback = nullptr;  // when it was noted; only compared

PyObject* TracebackOf(PyObject* exception) {
  return Ref(PyException_GetTraceback(exception)).get();
}

bool IsUnseen() {
  return g_kept_exception != nullptr &&
         TracebackOf(g_kept_exception) == g_traceback;
}

// A pending call, run when the main thread runs Python code again.
int RaisePending(void*) {
  const bool raises = RaiseKeptSignalException();
  PyObject* const noted = std::exchange(g_kept_exception, nullptr);
  if (noted != nullptr) DropReference(noted);
  return raises ? -1 : 0;
}

}  // namespace

void KeepSignalException() {
  Ref raised = TakeRaised();
  const Ref former(std::exchange(g_kept_exception, NewRef(raised.get())));
  g_traceback = TracebackOf(g_kept_exception);
  RaiseAgain(std::move(raised));
  (void)Py_AddPendingCall(RaisePending, nullptr);
}

bool RaiseKeptSignalException() {
  if (!IsUnseen()) return false;
  RaiseAgain(Ref::To(g_kept_exception));
  return true;
}

}  // namespace devrt::python
