// SPDX-License-Identifier: Apache-2.0
//
// DLPack for Python: Array.__dlpack__, Array.__dlpack_device__,
// devrt.from_dlpack and the C exchange API (E48 to E61, E12).

#ifndef DEVRT_PYTHON_SRC_DLPACK_H_
#define DEVRT_PYTHON_SRC_DLPACK_H_

#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/arrays/dlpack_abi.h"
#include "devrt/runtime/device.h"
#include "devrt/streams/stream.h"
#include "python/src/python.h"

namespace devrt::python {

// Adds the methods and the exchange API to the type, and from_dlpack to the
// module.  Returns false with an exception set on failure.
bool AddDLPack(PyObject* module, PyTypeObject* array_type);

PyObject* FromDLPackObject(PyObject* module, PyObject* const* args,
                           Py_ssize_t count, PyObject* names);

// Returns the one table of the process, and makes a capsule around it.  Both
// return null with an exception set on failure.
DLPackExchangeAPI* ExchangeApi();
PyObject* NewExchangeApiCapsule();
// Returns the exchange API that the type offers.  Null, without an exception,
// if the type offers none or one of a version that devrt cannot use.
const DLPackExchangeAPI* FindExchangeApi(PyTypeObject* type,
                                         PyObject** capsule);

// Returns the device that DLPack names so, also for managed memory. nullopt if
// no usable backend has it.  Needs no GIL.
std::optional<Device> FindDLPackDevice(DLDevice device);
// Looks only among devices that FindDLPackDevice found before, and calls no
// backend.
std::optional<Device> KnownDLPackDevice(DLDevice device);

// Returns the number that __dlpack__ takes for a stream: for the default stream
// 1 (cuda) or 0 (others), for cuda's per-thread one 2, else the handle.
absl::StatusOr<int64_t> StreamNumber(StreamRef stream);

// Orders work that `stream` gets from now on after the work on the native
// stream of that handle, on the stream's device.  Null is the default stream.
absl::Status OrderAfterNative(StreamRef stream, void* native, CallSite site);

// Warns, once in the process, that CUDA's protocols do not define stream 0,
// which some libraries use for the default stream.  Returns false if the
// warning is raised as an exception.
bool WarnOfStreamZero(const char* where);

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_DLPACK_H_
