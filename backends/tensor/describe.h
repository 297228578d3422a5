// SPDX-License-Identifier: Apache-2.0
//
// Texts about tensors for error messages.

#ifndef DEVRT_BACKENDS_TENSOR_DESCRIBE_H_
#define DEVRT_BACKENDS_TENSOR_DESCRIBE_H_

#include <cstdint>
#include <string>

#include "backends/tensor/tensor.h"

namespace devrt::tensor {

// A shape as Python writes it: "(2, 3)", "(2,)", "()".
inline std::string ShapeText(const Dims& shape) {
  std::string text = "(";
  for (size_t k = 0; k < shape.size(); ++k) {
    text += (k == 0 ? "" : ", ") + std::to_string(shape[k]);
  }
  return text + (shape.size() == 1 ? ",)" : ")");
}

inline std::string WrongDtype(const std::string& tensor, uint32_t dtype,
                              uint32_t expected, const std::string& why) {
  return tensor + " has dtype " + DtypeName(dtype) + ", expected " +
         DtypeName(expected) + " (" + why + ")";
}

}  // namespace devrt::tensor

#endif  // DEVRT_BACKENDS_TENSOR_DESCRIBE_H_
