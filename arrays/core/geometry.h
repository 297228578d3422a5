// SPDX-License-Identifier: Apache-2.0
//
// Shapes and strides, and the bytes that they describe.  Nothing here reads
// memory.
//
// Every Array satisfies: at most 32 axes, no extent negative, CountBytes is OK,
// and, if it has elements, SpanOf is OK.

#ifndef DEVRT_ARRAYS_CORE_GEOMETRY_H_
#define DEVRT_ARRAYS_CORE_GEOMETRY_H_

#include <cstddef>
#include <cstdint>

#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/arrays/array.h"
#include "devrt/arrays/dtype.h"

namespace devrt::internal {

inline constexpr int kMaxDims = 32;

// The number of bytes of a shape's elements.  INVALID_ARGUMENT: more than 32
// axes, a negative extent, or more than 2^63 - 1 bytes.  The last check leaves
// out extents of 0, so that empty shapes have contiguous strides too.
absl::StatusOr<uint64_t> CountBytes(DimSpan shape, DType dtype);

// The number of elements of a shape that CountBytes accepts.
int64_t CountElements(DimSpan shape);

// `count` zeros.  Up to five axes this copies bytes, which is cheaper than
// Dims(count).
Dims ZeroDims(size_t count);

// The strides of C order, for a shape that CountBytes accepts.
Dims ContiguousStrides(DimSpan shape, uint64_t item);
// Writes the strides of C order to `strides`, which has room for one stride of
// each axis.  Returns the number of elements.
int64_t MakeContiguous(int64_t* strides, DimSpan shape, uint64_t item);

// Returns true if the strides are those of C order.  Strides of extents 1, and
// all strides of an array without elements, do not count.
bool IsContiguous(DimSpan shape, DimSpan strides, uint64_t item);

// The bytes of all elements, relative to the first byte of the first element:
// [lo, hi), with lo <= 0.  [0, 0) if there are no elements.
struct ByteSpan {
  int64_t lo = 0;
  int64_t hi = 0;
};
// INVALID_ARGUMENT: the span does not fit into int64_t.
absl::StatusOr<ByteSpan> SpanOf(DimSpan shape, DimSpan strides, uint64_t item);
// The span of an array.
ByteSpan SpanOf(const Array& array);

// Returns true if two elements of the array share a byte.  The answer is exact
// for up to 4096 elements, and for more if the axes nest, as those of all views
// do except with unusual strides from FromPointer.  Otherwise the answer is
// true.
bool HasOverlap(const Array& array);

// Returns true if a byte may belong to elements of both arrays; the answer
// false is always right.  Compares addresses, so the arrays may have different
// storages.  The answer true is right for contiguous arrays, and for arrays
// that interleave with a common period, as columns of one array and slices with
// one step do.
bool MayOverlap(const Array& a, const Array& b);

// Returns true if each element has the same address in both arrays.
bool IsSameView(const Array& a, const Array& b);

// The error for an axis that an array of this shape does not have.  `ndim` is
// the number of axes, with the new one for ExpandDims.
absl::Status NoAxisError(const char* call, int axis, DimSpan shape, int ndim);
// The axis counted from the front.  INVALID_ARGUMENT: not in [-ndim, ndim).
inline absl::StatusOr<int> NormalAxis(const char* call, int axis,
                                      DimSpan shape) {
  const int ndim = static_cast<int>(shape.size());
  if (ABSL_PREDICT_FALSE(axis < -ndim || axis >= ndim)) {
    return NoAxisError(call, axis, shape, ndim);
  }
  return axis < 0 ? axis + ndim : axis;
}

}  // namespace devrt::internal

#endif  // DEVRT_ARRAYS_CORE_GEOMETRY_H_
