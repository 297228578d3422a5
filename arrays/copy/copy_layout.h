// SPDX-License-Identifier: Apache-2.0
//
// CopyLayout: a copy between two views of one shape, in as few axes as it
// takes.
//
// The order of the axes and the direction in which they are walked do not
// matter to a copy: axes of extent 1 are left out, those along which the target
// runs backwards are turned round on both sides, all are sorted by the target's
// strides, and neighbours that continue each other are merged.

#ifndef DEVRT_ARRAYS_COPY_COPY_LAYOUT_H_
#define DEVRT_ARRAYS_COPY_COPY_LAYOUT_H_

#include <cstdint>
#include <memory>

#include "devrt/arrays/array.h"

namespace devrt::internal {

struct CopyLayout {
  char* dst;
  const char* src;
  Dims shape;  // the outermost first
  Dims dst_strides;
  Dims src_strides;

  // Whether the copy is one of bytes, and of one block: of the two arrays that
  // the layout is of.
  bool IsBlockOf(const Array& dst_array, const Array& src_array) const {
    return dst_array.dtype() == src_array.dtype() &&
           IsBlock(dst_array.item_size());
  }
  // Whether elements of `item` bytes fill one block on both sides.
  bool IsBlock(uint64_t item) const {
    const int64_t step = static_cast<int64_t>(item);
    return shape.empty() || (shape.size() == 1 && dst_strides[0] == step &&
                             src_strides[0] == step);
  }
};

// Of arrays with elements and of one shape.
CopyLayout LayoutOf(const Array& dst, const Array& src);

// Whether the elements fill one block of memory, in any order of the axes, and
// where it begins.
bool IsDense(const Array& array, char** begin);

// Without the axes that repeat one element: stride 0 gets extent 1.
Array WithoutRepeats(const Array& array);

// An array of the shape of `like` and of `dtype` that fills the beginning of
// `storage`, in the order and direction of like's axes: a copy between the two
// is that of a block if `like` is dense and of that dtype.
Array DenseOver(std::shared_ptr<Storage> storage, const Array& like,
                DType dtype);

}  // namespace devrt::internal

#endif  // DEVRT_ARRAYS_COPY_COPY_LAYOUT_H_
