// SPDX-License-Identifier: Apache-2.0
#include "python/src/gil.h"

#include <cxxabi.h>
#include <unistd.h>

namespace devrt::python {
namespace {

unsigned long g_main_thread = 0;  // NOLINT: CPython's type

[[noreturn]] void StayForEver() {
  for (;;) pause();
}

}  // namespace

void RememberMainThread() { g_main_thread = PyThread_get_thread_ident(); }

bool IsMainThread() { return PyThread_get_thread_ident() == g_main_thread; }

void TakeLock(PyThreadState* state) {
  if (__builtin_expect(IsFinalizing() && !IsMainThread(), 0)) StayForEver();
  try {
    PyEval_RestoreThread(state);
  } catch (abi::__forced_unwind&) {
    // The end began while this thread waited for the lock.
    StayForEver();
  }
}

}  // namespace devrt::python
