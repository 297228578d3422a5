// SPDX-License-Identifier: Apache-2.0
//
// Gets DLPack tensors from objects of other libraries.  The functions need the
// GIL.

#ifndef DEVRT_PYTHON_SRC_DLPACK_PRODUCER_H_
#define DEVRT_PYTHON_SRC_DLPACK_PRODUCER_H_

#include <optional>

#include "devrt/arrays/dlpack_abi.h"
#include "python/src/python.h"

namespace devrt::python {

// Returns true if work on such memory is ordered by a stream that a consumer
// names (E56).
inline bool IsStreamOrdered(DLDevice device) {
  return device.device_type == kDLCUDA || device.device_type == kDLROCM ||
         device.device_type == kDLExtDev ||
         device.device_type == kDLCUDAManaged;
}

// The parts of a type for the import of its objects.  All are borrowed from the
// type, or null.
struct ProducerType {
  const DLPackExchangeAPI* api;  // of a version that devrt can use
  PyObject* capsule;             // of `api`, which may end with it
  // Attributes of PyTorch's tensors.
  PyObject* requires_grad;
  PyObject* is_conj;
  PyObject* is_neg;
  // True if the API is PyTorch's.  Its deleters free as `del tensor` does while
  // they have the GIL, and take the GIL where they need it (decision 16).
  bool is_torch;
};

// The result is valid until other Python code runs.
const ProducerType& ProducerTypeOf(PyTypeObject* type);

// Refuses tensors of PyTorch whose memory does not hold their values, or that
// autograd follows.  Returns false with a BufferError set.  With `dtype`, the
// dtype of the elements, questions are left out that can only have one answer
// for it.
bool CheckShareable(PyObject* x, std::optional<DLDataType> dtype);

// Replaces the exception that a library raised when devrt requested its memory
// by a BufferError with the first line of its text.  Only for a class as
// general as RuntimeError.  PyTorch's texts go on with frames of its C++ stack.
// For tensors that are sparse, quantized or without memory the text gets a
// remedy.  PyTorch's "CUDA error" and "HIP error" stay, because they report the
// device.
void RaiseAsBufferError(PyObject* x);

// Calls x.__dlpack_device__().  Returns false with an exception set on failure.
bool GetDLPackDevice(PyObject* x, DLDevice* device);

// Calls x.__dlpack__() in the newest form that the method takes.  `stream` null
// passes none. *passed is set to true if the method took the stream.  Returns a
// new reference to a capsule, or null with an exception set.
PyObject* GetDLPackCapsule(PyObject* x, PyObject* stream, bool never_copy,
                           bool* passed);

// Returns true for numpy.ndarray and its subclasses, which refuse every stream.
bool IsNumpy(PyObject* x);
// Returns true for types of libraries whose arrays are never written.
bool IsImmutable(PyTypeObject* type);

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_DLPACK_PRODUCER_H_
