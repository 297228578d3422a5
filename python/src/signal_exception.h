// SPDX-License-Identifier: Apache-2.0
//
// Exceptions that a signal handler raised during a wait, and that a caller in C
// dropped.
//
// NumPy asks an array for its buffer, drops any exception of that, and asks
// again by other protocols.  A KeyboardInterrupt would be lost, and the next
// question would wait to the end.  So the exception is kept: the next question
// raises it again, or at the latest the main thread when it runs Python code.
// An exception that Python code has handled has a longer traceback by then, and
// is forgotten.
//
// Everything here needs the GIL.

#ifndef DEVRT_PYTHON_SRC_SIGNAL_EXCEPTION_H_
#define DEVRT_PYTHON_SRC_SIGNAL_EXCEPTION_H_

namespace devrt::python {

// Remembers the exception that is set, which stays set.
void KeepSignalException();

// Raises the remembered exception if no Python code has seen it.  Returns true
// if it raised.
bool RaiseKeptSignalException();

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_SIGNAL_EXCEPTION_H_
