// SPDX-License-Identifier: Apache-2.0
//
// Python functions in stream order (E18).
//
// What the driver calls only puts a number into a queue; a thread of Python's
// (devrt/_host_functions.py) takes it out and calls.  The driver's wait for the
// stream is over when the number is in the queue: who waits for the stream has
// to wait for the thread, too.

#ifndef DEVRT_PYTHON_SRC_HOST_CALL_H_
#define DEVRT_PYTHON_SRC_HOST_CALL_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "devrt/streams/stream.h"
#include "python/src/python.h"

namespace devrt::python {

// Stream._launch_host_call(callable): `callable` will come out of
// NextHostCall, with the status of the stream's earlier work.
PyObject* LaunchHostCall(PyObject* self, PyObject* callable);

// _core._next_host_call(): waits; (callable, exception or None).  The thread
// that asks is done with the callable that it was given before.
PyObject* NextHostCall(PyObject* module, PyObject*);

// The calls that `stream`, or any stream of the device, was given and that have
// not ended.
std::vector<uint64_t> HostCallsOf(Device device,
                                  std::optional<StreamRef> stream);
// Waits until these have ended, after the work in front of them; Ctrl-C ends
// the wait.  Not on the thread that makes the calls, which would wait for
// itself.  None, or null with an exception.
PyObject* WaitForHostCalls(const std::vector<uint64_t>& calls);

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_HOST_CALL_H_
