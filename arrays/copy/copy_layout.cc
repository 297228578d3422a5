// SPDX-License-Identifier: Apache-2.0

#include "arrays/copy/copy_layout.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "arrays/storage/storage.h"

namespace devrt::internal {

namespace {

struct Axis {
  int64_t extent;
  int64_t dst;
  int64_t src;
};

// Cannot overflow: strides of arrays with elements are far from the ends of
// int64_t.
bool IsOuter(const Axis& a, const Axis& b) {
  const auto key = [](const Axis& x) {
    return std::make_pair(std::abs(x.dst), std::abs(x.src));
  };
  return key(a) > key(b);
}

using Axes = absl::InlinedVector<Axis, 5>;

// The axes of more than one element.  Reverses those with a negative stride of
// the target, and lets the layout begin at their other end.
Axes UpwardAxes(const Array& dst, const Array& src, CopyLayout* layout) {
  Axes axes;
  for (size_t i = 0; i < dst.shape().size(); ++i) {
    Axis axis{dst.shape()[i], dst.strides()[i], src.strides()[i]};
    if (axis.extent == 1) continue;
    if (axis.dst < 0) {
      layout->dst += axis.dst * (axis.extent - 1);
      layout->src += axis.src * (axis.extent - 1);
      axis.dst = -axis.dst;
      axis.src = -axis.src;
    }
    axes.push_back(axis);
  }
  return axes;
}

}  // namespace

CopyLayout LayoutOf(const Array& dst, const Array& src) {
  CopyLayout layout{static_cast<char*>(dst.data()),
                    static_cast<const char*>(src.data()),
                    {},
                    {},
                    {}};
  if (dst.IsContiguous() && src.IsContiguous()) {
    if (dst.size() == 1) return layout;
    layout.shape.push_back(static_cast<int64_t>(dst.size()));
    layout.dst_strides.push_back(static_cast<int64_t>(dst.item_size()));
    layout.src_strides.push_back(static_cast<int64_t>(src.item_size()));
    return layout;
  }
  Axes axes = UpwardAxes(dst, src, &layout);
  std::stable_sort(axes.begin(), axes.end(), IsOuter);
  Axes merged;
  for (const Axis& axis : axes) {
    if (!merged.empty() && merged.back().dst == axis.dst * axis.extent &&
        merged.back().src == axis.src * axis.extent) {
      merged.back() = {merged.back().extent * axis.extent, axis.dst, axis.src};
    } else {
      merged.push_back(axis);
    }
  }
  for (const Axis& axis : merged) {
    layout.shape.push_back(axis.extent);
    layout.dst_strides.push_back(axis.dst);
    layout.src_strides.push_back(axis.src);
  }
  return layout;
}

bool IsDense(const Array& array, char** begin) {
  const CopyLayout layout = LayoutOf(array, array);
  *begin = layout.dst;
  return layout.IsBlock(array.item_size());
}

Array WithoutRepeats(const Array& array) {
  Dims shape(array.shape().begin(), array.shape().end());
  for (size_t k = 0; k < shape.size(); ++k) {
    if (array.strides()[k] == 0 && shape[k] > 1) shape[k] = 1;
  }
  return array.ViewOf(static_cast<char*>(array.data()), std::move(shape),
                      Dims(array.strides().begin(), array.strides().end()));
}

Array DenseOver(std::shared_ptr<Storage> storage, const Array& like,
                DType dtype) {
  absl::InlinedVector<size_t, 5> order(static_cast<size_t>(like.ndim()));
  for (size_t k = 0; k < order.size(); ++k) order[k] = k;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::abs(like.strides()[a]) > std::abs(like.strides()[b]);
  });
  Dims strides(order.size());
  char* data = static_cast<char*>(storage->base());
  int64_t step = static_cast<int64_t>(dtype.size());
  for (size_t k = order.size(); k-- > 0;) {
    const size_t axis = order[k];
    const int64_t extent = like.shape()[axis];
    strides[axis] = step;
    if (like.strides()[axis] < 0) {
      strides[axis] = -step;
      data += step * (extent - 1);
    }
    step *= extent;
  }
  return Array(std::move(storage), data,
               Dims(like.shape().begin(), like.shape().end()),
               std::move(strides), dtype);
}

}  // namespace devrt::internal
