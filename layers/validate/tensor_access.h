// SPDX-License-Identifier: Apache-2.0
//
// The bytes that an operation on a strided tensor uses.

#ifndef DEVRT_LAYERS_VALIDATE_TENSOR_ACCESS_H_
#define DEVRT_LAYERS_VALIDATE_TENSOR_ACCESS_H_

#include <cstdint>

#include "devrt/backends/abi/devrt_tensor.h"
#include "layers/validate/detector.h"

namespace devrt::race {

// The bytes of a tensor.  They are exact for tensors that are contiguous except
// along one dimension, such as a slice of a matrix.  Otherwise the access has
// all bytes from the first to the last, and is marked as approximate.
MemoryAccess AccessOf(const devrt_tensor_v0& tensor, Mode mode);

// "add" for DEVRT_OP_ADD.
const char* OperationName(uint32_t op);

}  // namespace devrt::race

#endif  // DEVRT_LAYERS_VALIDATE_TENSOR_ACCESS_H_
