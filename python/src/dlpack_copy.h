// SPDX-License-Identifier: Apache-2.0
//
// Imports by DLPack that may be copies: devrt's own, never the producer's
// (E58).

#ifndef DEVRT_PYTHON_SRC_DLPACK_COPY_H_
#define DEVRT_PYTHON_SRC_DLPACK_COPY_H_

#include "devrt/arrays/array.h"
#include "devrt/arrays/dlpack.h"
#include "devrt/arrays/dlpack_abi.h"
#include "python/src/python.h"

namespace devrt::python {

// Whether what is asked for is no more than the memory itself.
inline bool WantsNoMore(const DLPackImport& how) {
  return !how.place.has_value() && !how.copy.value_or(false);
}

// Whether it is a copy of memory that is in `from`.
bool IsCopyWanted(const Place& from, const DLPackImport& how);

// Before an import that may copy: the wait for which Ctrl-C could not end the
// import.  What comes before the memory is in its device's current stream by
// now.  `how` gets to know that pinned memory is host memory.  False with an
// exception.
bool PrepareCopy(const Array& own, DLPackImport* how);
bool PrepareCopy(const DLManagedTensorVersioned& tensor, DLPackImport* how);
bool PrepareCopy(const DLManagedTensor& tensor, DLPackImport* how);

// That a producer that was asked for no copy says of none; legacy tensors
// cannot.  False with a CopyRequiredError.
bool CheckNotCopied(const DLManagedTensorVersioned& tensor, PyObject* producer,
                    const DLPackImport& how);
inline bool CheckNotCopied(const DLManagedTensor&, PyObject*,
                           const DLPackImport&) {
  return true;
}

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_DLPACK_COPY_H_
