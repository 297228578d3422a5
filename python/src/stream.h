// SPDX-License-Identifier: Apache-2.0
//
// The types devrt.Stream and devrt.cuda.Stream.  Needs the GIL.
//
// Several objects may stand for one stream, and compare equal.  A stream that
// devrt made ends with the last of them.

#ifndef DEVRT_PYTHON_SRC_STREAM_H_
#define DEVRT_PYTHON_SRC_STREAM_H_

#include <memory>
#include <optional>

#include "devrt/streams/stream.h"
#include "python/src/device.h"
#include "python/src/python.h"

namespace devrt::python {

// Ends with the last object of a stream.  Its destructor calls the driver, so
// it must run without the GIL.
struct StreamHandle {
  std::optional<Stream> stream;  // none for default and external streams
  std::shared_ptr<void> keep;    // what the stream depends on
};

struct StreamObject {
  PyObject_HEAD                   // NOLINT
      PyObject* weak_references;  // first: see kWeakReferences
  PyObject* protocol;  // the answer of __cuda_stream__; null until asked
  DeviceObject* device;
  StreamRef ref;
  std::shared_ptr<StreamHandle> handle;
};

extern PyTypeObject* g_stream_type;
extern PyTypeObject* g_cuda_stream_type;  // has __cuda_stream__ too

bool AddStreamTypes(PyObject* module);

inline bool IsStream(PyObject* object) {
  return Py_TYPE(object) == g_stream_type ||
         Py_TYPE(object) == g_cuda_stream_type ||
         PyType_IsSubtype(Py_TYPE(object), g_stream_type) != 0;
}
inline StreamObject* AsStream(PyObject* object) {
  return reinterpret_cast<StreamObject*>(object);
}

// Makes a new object.  `type` null means the type for the device's backend.
// Returns null with an exception set on failure.
PyObject* MakeStream(PyTypeObject* type, StreamRef ref, DeviceObject* device,
                     std::shared_ptr<StreamHandle> handle);

// Returns an object for a stream, an existing one if there is one.  Returns a
// new reference, or null with an exception set.
PyObject* WrapStream(StreamRef ref);

// Returns an object of that stream id, borrowed, or null if none is alive.
PyObject* FindStream(uint64_t id);
// Removes an object that ends from those that FindStream knows.
void ForgetStream(PyObject* object);

// Return new references, or null with an exception set.
PyObject* DefaultStreamObject(DeviceObject* device);
PyObject* CurrentStreamObject(DeviceObject* device);

// Reads a stream: a Stream, or None or null for the current stream of the
// current device.  Returns a new reference, or null with an exception set.
PyObject* ParseStream(PyObject* object);
StreamRef StreamOf(PyObject* object);  // for nanobind's functions: throws

// Waits for all work that the stream has got.  Ctrl-C ends the wait.  Returns
// None, or null with an exception set.
PyObject* SynchronizeStream(PyObject* stream);

// classmethod Stream.from_external
PyObject* FromExternal(PyObject* type, PyObject* const* args, Py_ssize_t count,
                       PyObject* names);

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_STREAM_H_
