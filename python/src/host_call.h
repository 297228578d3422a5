// SPDX-License-Identifier: Apache-2.0
//
// Python functions in stream order (E18).
//
// The driver's callback only puts a number into a queue.  A Python thread
// (devrt/_host_thread.py) takes the number out and makes the call.  For the
// driver the stream's work ends with the callback, so a wait for the stream
// must also wait for that thread.

#ifndef DEVRT_PYTHON_SRC_HOST_CALL_H_
#define DEVRT_PYTHON_SRC_HOST_CALL_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "devrt/streams/stream.h"
#include "python/src/python.h"

namespace devrt::python {

// Stream._launch_host_call(callable, ranges): NextHostCall returns `callable`,
// with the status of the stream's earlier work, when the stream gets there.
// `ranges` lists (address, bytes, DEVRT_ACCESS_*) that the callable uses.
PyObject* LaunchHostCall(PyObject* self, PyObject* args);

// _core._next_host_call(): waits for a call that is due, and returns (callable,
// exception or None).  Asking again says that the last one has ended.
PyObject* NextHostCall(PyObject* module, PyObject*);

// Returns the numbers of calls that were given to `stream`, or to any stream of
// the device, and have not ended.
std::vector<uint64_t> HostCallsOf(Device device,
                                  std::optional<StreamRef> stream);
// Waits until these calls have ended.  Ctrl-C ends the wait.  Returns at once
// on the thread that makes the calls, which would wait for itself.  Returns
// None, or null with an exception set.
PyObject* WaitForHostCalls(const std::vector<uint64_t>& calls);

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_HOST_CALL_H_
