// SPDX-License-Identifier: Apache-2.0
//
// What memory a tensor is about that FromDLPack is going to take: for callers
// that wait in their own way for what an import that copies would wait for.

#ifndef DEVRT_ARRAYS_EXCHANGE_DLPACK_MEMORY_H_
#define DEVRT_ARRAYS_EXCHANGE_DLPACK_MEMORY_H_

#include <optional>

#include "devrt/arrays/array.h"
#include "devrt/arrays/dlpack_abi.h"
#include "devrt/arrays/place.h"
#include "devrt/runtime/export.h"

namespace devrt::internal {

struct TensorMemory {
  std::optional<Place> place;  // nullopt: the import says what is wrong
  std::optional<Array> own;    // the bytes, where they are of devrt's own
};

// Takes nothing, and reads no more than the header of a foreign major version.
DEVRT_EXPORT TensorMemory MemoryOf(const DLManagedTensorVersioned& tensor);
DEVRT_EXPORT TensorMemory MemoryOf(const DLManagedTensor& tensor);

}  // namespace devrt::internal

#endif  // DEVRT_ARRAYS_EXCHANGE_DLPACK_MEMORY_H_
