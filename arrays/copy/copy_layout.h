// SPDX-License-Identifier: Apache-2.0
//
// CopyLayout: a copy between two views of one shape, with as few axes as
// possible.
//
// A copy may walk the axes in any order and direction.  So axes of extent 1 are
// dropped, axes with a negative stride of the target are reversed on both
// sides, axes are sorted by the target's strides, and neighbours that continue
// each other are merged.

#ifndef DEVRT_ARRAYS_COPY_COPY_LAYOUT_H_
#define DEVRT_ARRAYS_COPY_COPY_LAYOUT_H_

#include <cstdint>
#include <memory>

#include "devrt/arrays/array.h"

namespace devrt::internal {

struct CopyLayout {
  char* dst;
  const char* src;
  Dims shape;  // the outermost axis first
  Dims dst_strides;
  Dims src_strides;

  // Returns true if the copy is one block of bytes.  The arguments are the
  // arrays that the layout was made from.
  bool IsBlockOf(const Array& dst_array, const Array& src_array) const {
    return dst_array.dtype() == src_array.dtype() &&
           IsBlock(dst_array.item_size());
  }
  // Returns true if elements of `item` bytes fill one block on both sides.
  bool IsBlock(uint64_t item) const {
    const int64_t step = static_cast<int64_t>(item);
    return shape.empty() || (shape.size() == 1 && dst_strides[0] == step &&
                             src_strides[0] == step);
  }
};

// Both arrays must have elements and one shape.
CopyLayout LayoutOf(const Array& dst, const Array& src);

// Returns true if the elements fill one block of memory, in any order of the
// axes, and sets `*begin` to its first byte.
bool IsDense(const Array& array, char** begin);

// The array without repeated elements: axes of stride 0 get extent 1.
Array WithoutRepeats(const Array& array);

// An array at the beginning of `storage` with the shape of `like`, and dense,
// in the order and direction of like's axes.  A copy between the two is one
// block if `like` is dense and has that dtype.
Array DenseOver(std::shared_ptr<Storage> storage, const Array& like,
                DType dtype);

}  // namespace devrt::internal

#endif  // DEVRT_ARRAYS_COPY_COPY_LAYOUT_H_
