// SPDX-License-Identifier: Apache-2.0
//
// devrt.reduce/0: the supported pairs of dtypes, and the checks of a call.

#include <string>

#include "backends/tensor/describe.h"
#include "backends/tensor/dtype.h"
#include "backends/tensor/tensor.h"

namespace devrt::tensor {
namespace {

const char* const kNames[] = {"sum", "prod", "min", "max", "any", "all"};

bool IsOrder(uint32_t op) {
  return op == DEVRT_REDUCE_MIN || op == DEVRT_REDUCE_MAX;
}

// The dtype of NumPy's sum and prod of `dtype`.
uint32_t WideSum(uint32_t dtype) {
  switch (ClassOf(dtype)) {
    case DtypeClass::kBool:
    case DtypeClass::kSigned:
      return DEVRT_INT64;
    case DtypeClass::kUnsigned:
      return DEVRT_UINT64;
    default:
      return dtype;
  }
}

bool CheckOperands(uint32_t op, const Tensor& out, const Tensor& in,
                   uint32_t axes, std::string* error) {
  if (!ReduceSupports(op, in.dtype, out.dtype)) {
    *error = "does not exist from dtype " + DtypeName(in.dtype) + " (in) to " +
             DtypeName(out.dtype) + " (out)";
    return false;
  }
  const size_t ndim = in.shape.size();
  if (ndim < DEVRT_MAX_DIMS && axes >> ndim != 0) {
    *error = "axes is " + std::to_string(axes) + ", expected less than 2^" +
             std::to_string(ndim) + ": in has " + std::to_string(ndim) +
             " dimensions";
    return false;
  }
  Dims expected = in.shape;
  for (size_t k = 0; k < ndim; ++k) {
    if ((axes >> k & 1) != 0) expected[k] = 1;
  }
  if (out.shape != expected) {
    *error = "out has shape " + ShapeText(out.shape) + ", expected " +
             ShapeText(expected) + ": in's, with 1 on the reduced axes";
    return false;
  }
  if (IsOrder(op) && in.elements == 0 && out.elements != 0) {
    *error = "in has shape " + ShapeText(in.shape) +
             ", expected at least 1 element per element of out";
    return false;
  }
  return true;
}

}  // namespace

uint32_t PartialDtype(uint32_t op, uint32_t dtype) {
  if (op == DEVRT_REDUCE_ANY || op == DEVRT_REDUCE_ALL) return DEVRT_BOOL;
  if (IsOrder(op) && dtype == DEVRT_BOOL) return DEVRT_BOOL;
  return ComputeDtype(WideSum(dtype));
}

bool ReduceSupports(uint32_t op, uint32_t in_dtype, uint32_t out_dtype) {
  const DtypeClass kind = ClassOf(in_dtype);
  if (kind == DtypeClass::kUnknown || kind == DtypeClass::kFloat8) return false;
  switch (op) {
    case DEVRT_REDUCE_SUM:
    case DEVRT_REDUCE_PROD:
      return out_dtype == WideSum(in_dtype) ||
             (out_dtype == in_dtype && kind != DtypeClass::kBool);
    case DEVRT_REDUCE_MIN:
    case DEVRT_REDUCE_MAX:
      return out_dtype == in_dtype && kind != DtypeClass::kComplex;
    case DEVRT_REDUCE_ANY:
    case DEVRT_REDUCE_ALL:
      return out_dtype == DEVRT_BOOL;
    default:
      return false;
  }
}

bool CheckReduce(uint32_t op, const Tensor& out, const Tensor& in,
                 uint32_t axes, std::string* error) {
  if (op > DEVRT_REDUCE_ALL) {
    *error = "op " + std::to_string(op) + " is not known";
    return false;
  }
  if (CheckOperands(op, out, in, axes, error)) return true;
  *error = std::string(kNames[op]) + ": " + *error;
  return false;
}

}  // namespace devrt::tensor
