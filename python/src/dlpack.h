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

// Puts the methods and the exchange API on the type, and from_dlpack into the
// module; false with an exception.
bool AddDLPack(PyObject* module, PyTypeObject* array_type);

PyObject* FromDLPackObject(PyObject* module, PyObject* const* args,
                           Py_ssize_t count, PyObject* names);

// The process's one table, and a capsule around it; null with an exception.
DLPackExchangeAPI* ExchangeApi();
PyObject* NewExchangeApiCapsule();
// What the type offers, of a version that can be used; null without an
// exception if there is nothing.
const DLPackExchangeAPI* FindExchangeApi(PyTypeObject* type,
                                         PyObject** capsule);

// The device whose memory, or managed memory, DLPack calls so; nullopt: no
// usable backend has it.  Needs no GIL.
std::optional<Device> FindDLPackDevice(DLDevice device);
// The same of those that were found before: calls no backend.
std::optional<Device> KnownDLPackDevice(DLDevice device);

// How __dlpack__ calls a stream: 1 (cuda) or 0 for the default stream, 2 for
// cuda's per-thread one, else the handle.
absl::StatusOr<int64_t> StreamNumber(StreamRef stream);

// Work submitted to `stream` from now on comes after what is on the native
// stream of its device; null is the default one.
absl::Status OrderAfterNative(StreamRef stream, void* native, CallSite site);

// Stream 0 is no stream of CUDA's protocols, but some mean the default one: a
// warning, once in the process.  False with an exception.
bool WarnOfStreamZero(const char* where);

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_DLPACK_H_
