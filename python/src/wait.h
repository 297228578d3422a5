// SPDX-License-Identifier: Apache-2.0
//
// Waiting so that Ctrl-C ends the wait.

#ifndef DEVRT_PYTHON_SRC_WAIT_H_
#define DEVRT_PYTHON_SRC_WAIT_H_

#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "python/src/device.h"
#include "python/src/python.h"

namespace devrt::python {

// Both are called without the GIL, and `wait` on any thread, even after this
// has returned.
using QueryCall = std::function<absl::StatusOr<bool>()>;
using WaitCall = std::function<absl::Status()>;

// Waits; handlers of signals run meanwhile, where this is the thread that runs
// them.  `query` may be empty.  None, or null with the exception of the wait or
// of a handler; the wait then goes on unseen.
//
// In a simulator's virtual time the device moves only while the program waits:
// there the wait is one call, and a handler runs after it.
//
// Behind it what a device has ended working on is let go, as by LetEndedGo.
PyObject* WaitFor(const BackendEntry& backend, const QueryCall& query,
                  const WaitCall& wait);

// The same for a call that waits where nothing can be asked, as drivers' frees
// do: made once, on a thread of its own where handlers of signals run.  After
// an exception of a handler it goes on unseen.
PyObject* RunFor(const BackendEntry& backend, const WaitCall& call);

// Ends what arrays left behind until the work on it was over, where it is: the
// memory of other libraries, and their owners.  Also what other libraries have
// given back of devrt's memory, which is counted as allocated until then.
void LetEndedGo();

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_WAIT_H_
