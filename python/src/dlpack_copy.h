// SPDX-License-Identifier: Apache-2.0
//
// Imports by DLPack that may copy. devrt makes the copy, never the producer
// (E58).

#ifndef DEVRT_PYTHON_SRC_DLPACK_COPY_H_
#define DEVRT_PYTHON_SRC_DLPACK_COPY_H_

#include "devrt/arrays/array.h"
#include "devrt/arrays/dlpack.h"
#include "devrt/arrays/dlpack_abi.h"
#include "python/src/python.h"

namespace devrt::python {

// Returns true if the import asks for the memory itself and nothing else.
inline bool IsPlainImport(const DLPackImport& how) {
  return !how.place.has_value() && !how.copy.value_or(false);
}

// Returns true if the import has to copy memory that is in `from`.
bool IsCopyWanted(const Place& from, const DLPackImport& how);

// Waits ahead of an import that copies, because Ctrl-C could not end a wait
// inside it.  The producer's work has to be ordered before the current stream
// of the memory's device already.  Changes `how` so that pinned memory counts
// as host memory.  Returns false with an exception set on failure.
bool PrepareCopy(const Array& own, DLPackImport* how);
bool PrepareCopy(const DLManagedTensorVersioned& tensor, DLPackImport* how);
bool PrepareCopy(const DLManagedTensor& tensor, DLPackImport* how);

// Checks that a producer that was asked for no copy made none, by the tensor's
// flags.  Legacy tensors have no such flag.  Returns false with a
// CopyRequiredError set.
bool CheckNotCopied(const DLManagedTensorVersioned& tensor, PyObject* producer,
                    const DLPackImport& how);
inline bool CheckNotCopied(const DLManagedTensor&, PyObject*,
                           const DLPackImport&) {
  return true;
}

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_DLPACK_COPY_H_
