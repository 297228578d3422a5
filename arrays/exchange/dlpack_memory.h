// SPDX-License-Identifier: Apache-2.0
//
// The memory of a tensor before FromDLPack takes it, for callers that do the
// wait of a copying import themselves.

#ifndef DEVRT_ARRAYS_EXCHANGE_DLPACK_MEMORY_H_
#define DEVRT_ARRAYS_EXCHANGE_DLPACK_MEMORY_H_

#include <optional>

#include "devrt/arrays/array.h"
#include "devrt/arrays/dlpack_abi.h"
#include "devrt/arrays/place.h"
#include "devrt/runtime/export.h"

namespace devrt::internal {

struct TensorMemory {
  std::optional<Place> place;  // nullopt: FromDLPack will return an error
  std::optional<Array> own;    // the bytes, if devrt exported the tensor
};

// Leaves the tensor to the caller.  Of a foreign major version it reads only
// the version.
DEVRT_EXPORT TensorMemory MemoryOf(const DLManagedTensorVersioned& tensor);
DEVRT_EXPORT TensorMemory MemoryOf(const DLManagedTensor& tensor);

}  // namespace devrt::internal

#endif  // DEVRT_ARRAYS_EXCHANGE_DLPACK_MEMORY_H_
