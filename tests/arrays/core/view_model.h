// SPDX-License-Identifier: Apache-2.0
//
// A model of views without strides: a shape, and for each index, in C order,
// the byte at which its element lies.  Each view maps its indices to indices of
// the array.

#ifndef DEVRT_TESTS_ARRAYS_CORE_VIEW_MODEL_H_
#define DEVRT_TESTS_ARRAYS_CORE_VIEW_MODEL_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "devrt/arrays/array.h"

namespace devrt::testing {

using Index = std::vector<int64_t>;

struct ViewModel {
  std::vector<int64_t> shape;
  std::vector<int64_t> bytes;  // of the elements, in C order

  int ndim() const { return static_cast<int>(shape.size()); }
  int64_t At(const Index& index) const;
};

// All indices of `shape`, in C order.
std::vector<Index> AllIndices(const std::vector<int64_t>& shape);

// The view of `shape` whose element i is `from`'s element source(i).
ViewModel Mapped(const ViewModel& from, std::vector<int64_t> shape,
                 const std::function<Index(Index)>& source);

// The items of range(extent)[begin:end:step], by counting.
std::vector<int64_t> Sliced(int64_t extent, const Slice& slice);

// Each as the view of that name; nullopt where it has to fail.
std::optional<ViewModel> SliceAxis(const ViewModel& a, int axis, Slice slice);
std::optional<ViewModel> TakeIndex(const ViewModel& a, int axis, int64_t index);
ViewModel Transpose(const ViewModel& a);
std::optional<ViewModel> Permute(const ViewModel& a,
                                 const std::vector<int>& axes);
std::optional<ViewModel> Reshape(const ViewModel& a,
                                 const std::vector<int64_t>& shape);
std::optional<ViewModel> ExpandDims(const ViewModel& a, int axis);
std::optional<ViewModel> Squeeze(const ViewModel& a, int axis);
ViewModel Squeeze(const ViewModel& a);
std::optional<ViewModel> BroadcastTo(const ViewModel& a,
                                     const std::vector<int64_t>& shape);

// Returns true if some strides describe the view.
bool HasStrides(const ViewModel& a);

}  // namespace devrt::testing

#endif  // DEVRT_TESTS_ARRAYS_CORE_VIEW_MODEL_H_
