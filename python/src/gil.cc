// SPDX-License-Identifier: Apache-2.0
#include "python/src/gil.h"

#include <unistd.h>

namespace devrt::python {
namespace {

unsigned long g_main_thread = 0;  // NOLINT: CPython's type

}  // namespace

void RememberMainThread() { g_main_thread = PyThread_get_thread_ident(); }

bool IsMainThread() { return PyThread_get_thread_ident() == g_main_thread; }

void TakeLock(PyThreadState* state) {
  if (__builtin_expect(IsFinalizing() && !IsMainThread(), 0)) {
    for (;;) pause();
  }
  PyEval_RestoreThread(state);
}

}  // namespace devrt::python
