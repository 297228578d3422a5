// SPDX-License-Identifier: Apache-2.0
//
// devrt.elementwise/0: the supported operations, and the checks of a call.

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>

#include "backends/tensor/describe.h"
#include "backends/tensor/dtype.h"
#include "backends/tensor/tensor.h"

namespace devrt::tensor {
namespace {

// Sets of DtypeClass, as bits.
constexpr uint8_t BitOf(DtypeClass kind) {
  return static_cast<uint8_t>(1u << static_cast<unsigned>(kind));
}
constexpr uint8_t kBools = BitOf(DtypeClass::kBool);
constexpr uint8_t kOrdered = kBools | BitOf(DtypeClass::kSigned) |
                             BitOf(DtypeClass::kUnsigned) |
                             BitOf(DtypeClass::kFloat);
constexpr uint8_t kAll = kOrdered | BitOf(DtypeClass::kComplex);
constexpr uint8_t kNumbers = kAll & ~kBools;
constexpr uint8_t kStored = kAll | BitOf(DtypeClass::kFloat8);

struct Operation {
  uint32_t op;
  const char* name;
  size_t inputs;
  bool to_bool;
  uint8_t kinds;  // of the inputs; for WHERE, of the values
};

constexpr Operation kOperations[] = {
    {DEVRT_OP_COPY, "copy", 1, false, kStored},
    {DEVRT_OP_NEG, "neg", 1, false, kNumbers},
    {DEVRT_OP_ABS, "abs", 1, false, kAll},
    {DEVRT_OP_LOGICAL_NOT, "logical_not", 1, true, kAll},
    {DEVRT_OP_ADD, "add", 2, false, kAll},
    {DEVRT_OP_SUB, "sub", 2, false, kNumbers},
    {DEVRT_OP_MUL, "mul", 2, false, kAll},
    {DEVRT_OP_DIV, "div", 2, false, kNumbers},
    {DEVRT_OP_EQ, "eq", 2, true, kAll},
    {DEVRT_OP_NE, "ne", 2, true, kAll},
    {DEVRT_OP_LT, "lt", 2, true, kOrdered},
    {DEVRT_OP_LE, "le", 2, true, kOrdered},
    {DEVRT_OP_GT, "gt", 2, true, kOrdered},
    {DEVRT_OP_GE, "ge", 2, true, kOrdered},
    {DEVRT_OP_LOGICAL_AND, "logical_and", 2, true, kBools},
    {DEVRT_OP_LOGICAL_OR, "logical_or", 2, true, kBools},
    {DEVRT_OP_MAXIMUM, "maximum", 2, false, kOrdered},
    {DEVRT_OP_MINIMUM, "minimum", 2, false, kOrdered},
    {DEVRT_OP_WHERE, "where", 3, false, kAll},
};

// Maps an operation to its index in kOperations plus 1; 0 if it is unknown.
struct OperationPlaces {
  constexpr OperationPlaces() {
    for (uint8_t i = 0; i < std::size(kOperations); ++i) {
      places[kOperations[i].op] = static_cast<uint8_t>(i + 1);
    }
  }
  uint8_t places[DEVRT_OP_WHERE + 1] = {};
};

const Operation* FindOperation(uint32_t op) {
  static constexpr OperationPlaces kOperationPlaces;
  if (op > DEVRT_OP_WHERE || kOperationPlaces.places[op] == 0) return nullptr;
  return &kOperations[kOperationPlaces.places[op] - 1];
}

uint32_t OutputDtype(const Operation& operation, uint32_t dtype) {
  if (operation.to_bool) return DEVRT_BOOL;
  if (operation.op == DEVRT_OP_ABS && dtype == DEVRT_COMPLEX64) {
    return DEVRT_FLOAT32;
  }
  if (operation.op == DEVRT_OP_ABS && dtype == DEVRT_COMPLEX128) {
    return DEVRT_FLOAT64;
  }
  return dtype;
}

std::string InputName(size_t k) { return "input " + std::to_string(k); }

// Checks the dtypes of every operation but COPY, which takes any dtypes.
bool CheckDtypes(const Operation& operation, const Tensor& out,
                 const TensorList& inputs, std::string* error) {
  const bool where = operation.op == DEVRT_OP_WHERE;
  const size_t first = where ? 1 : 0;
  const uint32_t dtype = inputs[first].dtype;
  if (where && inputs[0].dtype != DEVRT_BOOL) {
    *error = WrongDtype("input 0", inputs[0].dtype, DEVRT_BOOL,
                        "the condition's dtype");
    return false;
  }
  if (!ElementwiseSupports(operation.op, dtype)) {
    *error = InputName(first) + " has dtype " + DtypeName(dtype) +
             ", for which the operation does not exist";
    return false;
  }
  for (size_t k = first + 1; k < inputs.size(); ++k) {
    if (inputs[k].dtype != dtype) {
      *error = WrongDtype(InputName(k), inputs[k].dtype, dtype,
                          "as " + InputName(first));
      return false;
    }
  }
  const uint32_t expected = OutputDtype(operation, dtype);
  if (out.dtype != expected) {
    *error = WrongDtype("out", out.dtype, expected,
                        "for inputs of " + DtypeName(dtype));
    return false;
  }
  return true;
}

bool CheckOperands(const Operation& operation, const Tensor& out,
                   const TensorList& inputs, std::string* error) {
  if (inputs.size() != operation.inputs) {
    *error = "input_count is " + std::to_string(inputs.size()) + ", expected " +
             std::to_string(operation.inputs);
    return false;
  }
  if (operation.op != DEVRT_OP_COPY &&
      !CheckDtypes(operation, out, inputs, error)) {
    return false;
  }
  for (size_t k = 0; k < inputs.size(); ++k) {
    if (inputs[k].shape != out.shape) {
      *error = InputName(k) + " has shape " + ShapeText(inputs[k].shape) +
               ", expected " + ShapeText(out.shape) +
               " as out (broadcast with stride 0)";
      return false;
    }
  }
  return true;
}

}  // namespace

bool ElementwiseSupports(uint32_t op, uint32_t dtype) {
  const Operation* const operation = FindOperation(op);
  return operation != nullptr &&
         (operation->kinds & BitOf(ClassOf(dtype))) != 0;
}

bool ElementwiseTakes(uint32_t op, uint32_t out_dtype,
                      const devrt_tensor_v0* inputs, uint32_t input_count) {
  const Operation* const operation = FindOperation(op);
  if (operation == nullptr || input_count != operation->inputs) return false;
  const uint32_t first = op == DEVRT_OP_WHERE ? 1 : 0;
  const uint32_t dtype = inputs[first].dtype;
  if ((operation->kinds & BitOf(ClassOf(dtype))) == 0) return false;
  if (op == DEVRT_OP_COPY) return DtypeSize(out_dtype) != 0;
  if (first == 1 && inputs[0].dtype != DEVRT_BOOL) return false;
  for (uint32_t k = first + 1; k < input_count; ++k) {
    if (inputs[k].dtype != dtype) return false;
  }
  return out_dtype == OutputDtype(*operation, dtype);
}

bool CheckElementwise(uint32_t op, const Tensor& out, const TensorList& inputs,
                      std::string* error) {
  const Operation* operation = FindOperation(op);
  if (operation == nullptr) {
    *error = "op " + std::to_string(op) + " is not known";
    return false;
  }
  if (CheckOperands(*operation, out, inputs, error)) return true;
  *error = std::string(operation->name) + ": " + *error;
  return false;
}

bool CopyElementwise(uint32_t op, const devrt_tensor_v0& out,
                     const devrt_tensor_v0* inputs, uint32_t input_count,
                     Tensor* out_copy, Tensor* input_copies,
                     std::string* error) {
  if (input_count == 0 || input_count > kMostInputs) {
    *error = std::to_string(input_count) + " inputs; expected 1 to 3";
    return false;
  }
  if (!CopyTensor(out, "out", out_copy, error)) return false;
  for (uint32_t i = 0; i < input_count; ++i) {
    static constexpr const char* kNames[kMostInputs] = {"input 0", "input 1",
                                                        "input 2"};
    if (!CopyTensor(inputs[i], kNames[i], &input_copies[i], error)) {
      return false;
    }
  }
  return CheckElementwise(op, *out_copy, {input_copies, input_count}, error);
}

}  // namespace devrt::tensor
