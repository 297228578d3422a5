// SPDX-License-Identifier: Apache-2.0
//
// Shapes and strides, and which bytes they mean.  Nothing here reads memory.
//
// Every Array satisfies: at most 32 axes, no extent negative, CountBytes is OK,
// and, if it has elements, SpanOf is OK.

#ifndef DEVRT_ARRAYS_CORE_GEOMETRY_H_
#define DEVRT_ARRAYS_CORE_GEOMETRY_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/arrays/array.h"
#include "devrt/arrays/dtype.h"

namespace devrt::internal {

inline constexpr int kMaxDims = 32;

// The bytes of a shape's elements.  INVALID_ARGUMENT: more than 32 axes, a
// negative extent, or more than 2^63 - 1 bytes; extents of 0 are left out of
// that product, so that contiguous strides exist for empty shapes, too.
absl::StatusOr<uint64_t> CountBytes(DimSpan shape, DType dtype);

// For a shape that CountBytes takes.
int64_t CountElements(DimSpan shape);

// As many zeros.  Where they need no allocation they are a copy of some bytes,
// which costs less than Dims(count).
Dims ZeroDims(size_t count);

// In C order, for a shape that CountBytes takes.
Dims ContiguousStrides(DimSpan shape, uint64_t item);
// The same into `strides`, one for each axis.  The number of elements.
int64_t MakeContiguous(int64_t* strides, DimSpan shape, uint64_t item);

// Whether the strides are those of C order, but where an extent is 1 or there
// are no elements.
bool IsContiguous(DimSpan shape, DimSpan strides, uint64_t item);

// The bytes of all elements relative to the first one: [lo, hi), lo <= 0.
// [0, 0) without elements.
struct ByteSpan {
  int64_t lo = 0;
  int64_t hi = 0;
};
// INVALID_ARGUMENT: beyond what an int64_t can say.
absl::StatusOr<ByteSpan> SpanOf(DimSpan shape, DimSpan strides, uint64_t item);
// Of an array, for which it cannot fail.
ByteSpan SpanOf(const Array& array);

// Whether two elements of the array share a byte.  Exact where the axes nest,
// which all views but those of FromPointer's unusual strides do, and up to 4096
// elements; true for what is left.
bool HasOverlap(const Array& array);

// Whether a byte belongs to elements of both; wherever their storages came
// from, by address.  False is sure.  True is exact for contiguous arrays; of
// others that interleave only those are told apart that have a common period,
// as the columns and the slices with a step of one array do.
bool MayOverlap(const Array& a, const Array& b);

// Whether the element of each index is at the same bytes in both.
bool IsSameView(const Array& a, const Array& b);

// `axis` counted from the front.  INVALID_ARGUMENT: not in [-ndim, ndim).
absl::StatusOr<int> NormalAxis(int axis, int ndim);

}  // namespace devrt::internal

#endif  // DEVRT_ARRAYS_CORE_GEOMETRY_H_
