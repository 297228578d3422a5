// SPDX-License-Identifier: Apache-2.0
//
// devrt.elementwise/0: which operations exist, the checks of a call, the
// bodies.

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "backends/mtia/describe.h"
#include "backends/mtia/dtype.h"
#include "backends/mtia/kernels.h"
#include "backends/mtia/operators.h"
#include "backends/mtia/strided.h"

namespace devrt::mtia {
namespace {

struct Operation {
  uint32_t op;
  const char* name;
  size_t inputs;
  bool to_bool;
};

constexpr Operation kOperations[] = {
    {DEVRT_OP_COPY, "copy", 1, false},
    {DEVRT_OP_NEG, "neg", 1, false},
    {DEVRT_OP_ABS, "abs", 1, false},
    {DEVRT_OP_LOGICAL_NOT, "logical_not", 1, true},
    {DEVRT_OP_ADD, "add", 2, false},
    {DEVRT_OP_SUB, "sub", 2, false},
    {DEVRT_OP_MUL, "mul", 2, false},
    {DEVRT_OP_DIV, "div", 2, false},
    {DEVRT_OP_EQ, "eq", 2, true},
    {DEVRT_OP_NE, "ne", 2, true},
    {DEVRT_OP_LT, "lt", 2, true},
    {DEVRT_OP_LE, "le", 2, true},
    {DEVRT_OP_GT, "gt", 2, true},
    {DEVRT_OP_GE, "ge", 2, true},
    {DEVRT_OP_LOGICAL_AND, "logical_and", 2, true},
    {DEVRT_OP_LOGICAL_OR, "logical_or", 2, true},
    {DEVRT_OP_MAXIMUM, "maximum", 2, false},
    {DEVRT_OP_MINIMUM, "minimum", 2, false},
    {DEVRT_OP_WHERE, "where", 3, false},
};

const Operation* Find(uint32_t op) {
  for (const Operation& operation : kOperations) {
    if (operation.op == op) return &operation;
  }
  return nullptr;
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

// The dtypes of everything but a copy, which takes any.
bool CheckDtypes(const Operation& operation, const Tensor& out,
                 const std::vector<Tensor>& inputs, std::string* error) {
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
                   const std::vector<Tensor>& inputs, std::string* error) {
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

size_t NextBlock(int64_t left) {
  return static_cast<size_t>(std::min<int64_t>(left, kBlock));
}

void RunCopy(const Tensor& out, std::byte* out_local, const Tensor& in,
             const std::byte* in_local, const Axes& axes) {
  const bool same = out.dtype == in.dtype;
  const uint32_t from = same ? RawDtype(in.dtype) : in.dtype;
  const uint32_t to = same ? RawDtype(out.dtype) : out.dtype;
  const int64_t item = DtypeSize(to);
  if (from == to && to != DEVRT_BOOL && Cursor(out, axes).IsContiguous(item) &&
      Cursor(in, axes).IsContiguous(item)) {
    std::memmove(out_local, in_local, static_cast<size_t>(out.elements * item));
    return;
  }
  Reader reader(in, in_local, axes, from, to);
  Writer writer(out, out_local, axes, to);
  Block block;
  for (int64_t left = out.elements; left > 0;) {
    const size_t n = NextBlock(left);
    reader.Read(n, block.bytes);
    writer.Write(n, block.bytes);
    left -= static_cast<int64_t>(n);
  }
}

}  // namespace

bool ElementwiseSupports(uint32_t op, uint32_t dtype) {
  const DtypeClass kind = ClassOf(dtype);
  if (op == DEVRT_OP_COPY) return kind != DtypeClass::kUnknown;
  if (kind == DtypeClass::kUnknown || kind == DtypeClass::kFloat8) return false;
  return FindOperator(op, ComputeDtype(dtype)) != nullptr;
}

bool CheckElementwise(uint32_t op, const Tensor& out,
                      const std::vector<Tensor>& inputs, std::string* error) {
  const Operation* operation = Find(op);
  if (operation == nullptr) {
    *error = "op " + std::to_string(op) + " is not known";
    return false;
  }
  if (CheckOperands(*operation, out, inputs, error)) return true;
  *error = std::string(operation->name) + ": " + *error;
  return false;
}

void RunFill(const Tensor& out, std::byte* out_local, const void* value) {
  if (out.elements == 0) return;
  const uint32_t raw = RawDtype(out.dtype);
  const Axes axes = OrderAxes(out, kAllAxes);
  Writer writer(out, out_local, axes, raw);
  Block block;
  FindLoad(raw)(static_cast<const std::byte*>(value), 0, kBlock, block.bytes);
  for (int64_t left = out.elements; left > 0;) {
    const size_t n = NextBlock(left);
    writer.Write(n, block.bytes);
    left -= static_cast<int64_t>(n);
  }
}

void RunElementwise(uint32_t op, const Tensor& out, std::byte* out_local,
                    const std::vector<Tensor>& inputs,
                    const std::vector<const std::byte*>& input_locals) {
  if (out.elements == 0) return;
  const Axes axes = OrderAxes(out, kAllAxes);
  if (op == DEVRT_OP_COPY) {
    RunCopy(out, out_local, inputs[0], input_locals[0], axes);
    return;
  }
  // WHERE only moves elements.
  const bool move = op == DEVRT_OP_WHERE;
  const auto dtype = [move](const Tensor& tensor) {
    return move ? RawDtype(tensor.dtype) : tensor.dtype;
  };
  std::optional<Reader> readers[3];
  for (size_t k = 0; k < inputs.size(); ++k) {
    const uint32_t as = dtype(inputs[k]);
    readers[k].emplace(inputs[k], input_locals[k], axes, as, as);
  }
  Writer writer(out, out_local, axes, dtype(out));
  const BlockFn apply = FindOperator(op, ComputeDtype(dtype(inputs.back())));
  Block in[3];
  const std::byte* const blocks[] = {in[0].bytes, in[1].bytes, in[2].bytes};
  Block result;
  for (int64_t left = out.elements; left > 0;) {
    const size_t n = NextBlock(left);
    for (size_t k = 0; k < inputs.size(); ++k) {
      readers[k]->Read(n, in[k].bytes);
    }
    apply(blocks, n, result.bytes);
    writer.Write(n, result.bytes);
    left -= static_cast<int64_t>(n);
  }
}

}  // namespace devrt::mtia
