// SPDX-License-Identifier: Apache-2.0
//
// Waits that Ctrl-C can end.

#ifndef DEVRT_PYTHON_SRC_WAIT_H_
#define DEVRT_PYTHON_SRC_WAIT_H_

#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "python/src/device.h"
#include "python/src/python.h"

namespace devrt::python {

// Both are called without the GIL.  `wait` may run on another thread, even
// after the waiting function has returned.
using QueryCall = std::function<absl::StatusOr<bool>()>;
using WaitCall = std::function<absl::Status()>;

// Waits, and runs signal handlers meanwhile if this is the thread that runs
// them.  `query` may be empty.  Returns None, or null with the exception of the
// wait or of a handler.  After a handler's exception the wait goes on in the
// background.
//
// In a simulator's virtual time devices proceed only while the program waits.
// There the wait is one call, and handlers run after it.
//
// After a wait without an error it does ReleaseFinishedMemory.
PyObject* WaitFor(const BackendEntry& backend, const QueryCall& query,
                  const WaitCall& wait);

// Makes a call that waits and cannot be polled, such as a driver's free.  The
// call is made once, on another thread if this one runs signal handlers.  After
// a handler's exception the call goes on in the background.
PyObject* RunFor(const BackendEntry& backend, const WaitCall& call);

// Releases what arrays kept until work on it was over, as far as it is: memory
// of other libraries with its owners, and devrt's memory that other libraries
// have given back, which counts as allocated until then.
void ReleaseFinishedMemory();

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_WAIT_H_
