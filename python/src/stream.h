// SPDX-License-Identifier: Apache-2.0
//
// The types devrt.Stream and devrt.cuda.Stream.
//
// Several objects may stand for one stream; they compare equal.  What devrt
// made itself ends with the last of them.

#ifndef DEVRT_PYTHON_SRC_STREAM_H_
#define DEVRT_PYTHON_SRC_STREAM_H_

#include <memory>
#include <optional>

#include "devrt/streams/stream.h"
#include "python/src/device.h"
#include "python/src/python.h"

namespace devrt::python {

// What ends with the last object of a stream.  Its end calls the driver: never
// with the GIL.
struct StreamHandle {
  std::optional<Stream> stream;  // none: somebody else's, or a default stream
  std::shared_ptr<void> keep;    // what the stream depends on
};

struct StreamObject {
  PyObject_HEAD                   // NOLINT
      PyObject* weak_references;  // first: see kWeakReferences
  PyObject* protocol;  // the answer of __cuda_stream__, once somebody asked
  DeviceObject* device;
  StreamRef ref;
  std::shared_ptr<StreamHandle> handle;
};

extern PyTypeObject* g_stream_type;
extern PyTypeObject* g_cuda_stream_type;  // also has __cuda_stream__

bool AddStreamTypes(PyObject* module);

inline bool IsStream(PyObject* object) {
  return Py_TYPE(object) == g_stream_type ||
         Py_TYPE(object) == g_cuda_stream_type ||
         PyType_IsSubtype(Py_TYPE(object), g_stream_type) != 0;
}
inline StreamObject* AsStream(PyObject* object) {
  return reinterpret_cast<StreamObject*>(object);
}

// A new object; `type` null: the one for the device's backend.  Null with an
// exception.
PyObject* MakeStream(PyTypeObject* type, StreamRef ref, DeviceObject* device,
                     std::shared_ptr<StreamHandle> handle);

// The object for a stream, the one that is there already if any.  New
// reference, or null with an exception.
PyObject* WrapStream(StreamRef ref);

// The object of that id, borrowed, if one is alive.
PyObject* FindStream(uint64_t id);
// Its object ends.
void ForgetStream(PyObject* object);

// New references, or null with an exception.
PyObject* DefaultStreamObject(DeviceObject* device);
PyObject* CurrentStreamObject(DeviceObject* device);

// What a program gave as stream: a Stream; None or null: the current one of the
// current device.  New reference, or null with an exception.
PyObject* ParseStream(PyObject* object);
StreamRef StreamOf(PyObject* object);  // for nanobind's functions: throws

// Waits for what the stream was given so far, where Ctrl-C can end the wait.
// None, or null with an exception.
PyObject* SynchronizeStream(PyObject* stream);

// classmethod Stream.from_external
PyObject* FromExternal(PyObject* type, PyObject* const* args, Py_ssize_t count,
                       PyObject* names);

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_STREAM_H_
