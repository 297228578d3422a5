// SPDX-License-Identifier: Apache-2.0
//
// Questions to objects of other libraries that export DLPack.

#ifndef DEVRT_PYTHON_SRC_DLPACK_PRODUCER_H_
#define DEVRT_PYTHON_SRC_DLPACK_PRODUCER_H_

#include <optional>

#include "devrt/arrays/dlpack_abi.h"
#include "python/src/python.h"

namespace devrt::python {

// Whether work on such memory is in the order of a stream that a consumer names
// (E56).
inline bool HasQueue(DLDevice device) {
  return device.device_type == kDLCUDA || device.device_type == kDLROCM ||
         device.device_type == kDLExtDev ||
         device.device_type == kDLCUDAManaged;
}

// What a type has for its objects that are imported; all borrowed from it, or
// null.
struct ProducerType {
  const DLPackExchangeAPI* api;  // of a version that can be used
  PyObject* capsule;             // of `api`, which may end with it
  // Of PyTorch's tensors.
  PyObject* requires_grad;
  PyObject* is_conj;
  PyObject* is_neg;
  // Whether the API is PyTorch's: its deleters free as `del tensor` does, with
  // the GIL, which they take where they have to (decision 0016).
  bool is_torch;
};

// Valid until other Python code runs.
const ProducerType& ProducerTypeOf(PyTypeObject* type);

// PyTorch's tensors whose memory does not hold their values, or holds what
// autograd follows: false with a BufferError.  `dtype`: of the elements, where
// it is known; what it cannot be is not asked.
bool CheckShareable(PyObject* x, std::optional<DLDataType> dtype);

// For an exception that a library raised when it was asked for its memory: a
// BufferError with the first line of the text, if the class says no more than
// that something is wrong.  PyTorch's texts go on with the frames of its C++
// stack.  A tensor that says that it is sparse, quantized or without memory has
// the remedy in the text.  PyTorch's "CUDA error" and "HIP error" stay: they
// tell of the device.
void RaiseAsBufferError(PyObject* x);

// x.__dlpack_device__(); false with an exception.
bool AskDevice(PyObject* x, DLDevice* device);

// x.__dlpack__() in the newest form that it takes; `stream` null: none is
// passed.  A new reference to a capsule, or null with an exception.  `passed`:
// whether it has taken the stream.
PyObject* AskCapsule(PyObject* x, PyObject* stream, bool never_copy,
                     bool* passed);

// numpy.ndarray and what derives from it: refuses every stream.
bool IsNumpy(PyObject* x);
// Of a library whose arrays are never written.
bool IsImmutable(PyTypeObject* type);

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_DLPACK_PRODUCER_H_
