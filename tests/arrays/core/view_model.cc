// SPDX-License-Identifier: Apache-2.0
#include "tests/arrays/core/view_model.h"

#include <algorithm>
#include <set>

namespace devrt::testing {
namespace {

int64_t Product(const std::vector<int64_t>& shape) {
  int64_t product = 1;
  for (const int64_t extent : shape) product *= extent;
  return product;
}

std::optional<int> FromFront(int axis, int ndim) {
  if (axis < -ndim || axis >= ndim) return std::nullopt;
  return (axis + ndim) % ndim;
}

Index With(Index index, int axis, int64_t value) {
  index.insert(index.begin() + axis, value);
  return index;
}

Index Without(Index index, int axis) {
  index.erase(index.begin() + axis);
  return index;
}

}  // namespace

std::vector<Index> AllIndices(const std::vector<int64_t>& shape) {
  std::vector<Index> all(static_cast<size_t>(Product(shape)),
                         Index(shape.size()));
  for (size_t i = 0; i < all.size(); ++i) {
    int64_t rest = static_cast<int64_t>(i);
    for (size_t k = shape.size(); k-- > 0; rest /= shape[k]) {
      all[i][k] = rest % shape[k];
    }
  }
  return all;
}

int64_t ViewModel::At(const Index& index) const {
  int64_t position = 0;
  for (size_t k = 0; k < index.size(); ++k) {
    position = position * shape[k] + index[k];
  }
  return bytes.at(static_cast<size_t>(position));
}

ViewModel Mapped(const ViewModel& from, std::vector<int64_t> shape,
                 const std::function<Index(Index)>& source) {
  ViewModel view;
  for (const Index& index : AllIndices(shape)) {
    view.bytes.push_back(from.At(source(index)));
  }
  view.shape = std::move(shape);
  return view;
}

std::vector<int64_t> Sliced(int64_t extent, const Slice& slice) {
  std::vector<int64_t> items;
  // Walk all items in the slice's direction; take the first one inside, and
  // then each that is a whole number of steps behind it.
  const auto from_end = [extent](int64_t bound) {
    return bound < 0 ? bound + extent : bound;
  };
  for (int64_t k = 0; k < extent; ++k) {
    const int64_t item = slice.step > 0 ? k : extent - 1 - k;
    const auto before = [&](int64_t a, int64_t b) {
      return slice.step > 0 ? a < b : a > b;
    };
    if (slice.begin && before(item, from_end(*slice.begin))) continue;
    if (slice.end && !before(item, from_end(*slice.end))) continue;
    if (!items.empty() && (item - items.front()) % slice.step != 0) continue;
    items.push_back(item);
  }
  return items;
}

std::optional<ViewModel> SliceAxis(const ViewModel& a, int axis, Slice slice) {
  const auto k = FromFront(axis, a.ndim());
  if (!k || slice.step == 0) return std::nullopt;
  const auto at = static_cast<size_t>(*k);
  const std::vector<int64_t> items = Sliced(a.shape[at], slice);
  std::vector<int64_t> shape = a.shape;
  shape[at] = static_cast<int64_t>(items.size());
  return Mapped(a, shape, [&](Index index) {
    index[at] = items[static_cast<size_t>(index[at])];
    return index;
  });
}

std::optional<ViewModel> TakeIndex(const ViewModel& a, int axis,
                                   int64_t index) {
  const auto k = FromFront(axis, a.ndim());
  if (!k) return std::nullopt;
  const int64_t extent = a.shape[static_cast<size_t>(*k)];
  if (index < -extent || index >= extent) return std::nullopt;
  return Mapped(a, Without(a.shape, *k), [&](const Index& rest) {
    return With(rest, *k, index < 0 ? index + extent : index);
  });
}

ViewModel Transpose(const ViewModel& a) {
  return Mapped(a, {a.shape.rbegin(), a.shape.rend()}, [](const Index& index) {
    return Index(index.rbegin(), index.rend());
  });
}

std::optional<ViewModel> Permute(const ViewModel& a,
                                 const std::vector<int>& axes) {
  if (axes.size() != a.shape.size()) return std::nullopt;
  std::vector<size_t> order;
  for (const int axis : axes) {
    const auto k = FromFront(axis, a.ndim());
    if (!k) return std::nullopt;
    order.push_back(static_cast<size_t>(*k));
  }
  if (std::set<size_t>(order.begin(), order.end()).size() != order.size()) {
    return std::nullopt;
  }
  std::vector<int64_t> shape;
  for (const size_t k : order) shape.push_back(a.shape[k]);
  return Mapped(a, shape, [&](const Index& index) {
    Index source(index.size());
    for (size_t i = 0; i < order.size(); ++i) source[order[i]] = index[i];
    return source;
  });
}

std::optional<ViewModel> Reshape(const ViewModel& a,
                                 const std::vector<int64_t>& shape) {
  ViewModel view{shape, a.bytes};
  const int64_t size = static_cast<int64_t>(a.bytes.size());
  const auto open = std::find(view.shape.begin(), view.shape.end(), -1);
  if (open != view.shape.end()) {
    // The only extent that fits.
    std::vector<int64_t> fitting;
    for (int64_t extent = 0; extent <= size + 1; ++extent) {
      *open = extent;
      if (Product(view.shape) == size) fitting.push_back(extent);
    }
    if (fitting.size() != 1) return std::nullopt;
    *open = fitting.front();
  }
  for (const int64_t extent : view.shape) {
    if (extent < 0) return std::nullopt;
  }
  if (Product(view.shape) != size || !HasStrides(view)) return std::nullopt;
  return view;
}

std::optional<ViewModel> ExpandDims(const ViewModel& a, int axis) {
  const auto k = FromFront(axis, a.ndim() + 1);
  if (!k || a.ndim() == 32) return std::nullopt;
  return Mapped(a, With(a.shape, *k, 1),
                [&](const Index& index) { return Without(index, *k); });
}

std::optional<ViewModel> Squeeze(const ViewModel& a, int axis) {
  const auto k = FromFront(axis, a.ndim());
  if (!k || a.shape[static_cast<size_t>(*k)] != 1) return std::nullopt;
  return Mapped(a, Without(a.shape, *k),
                [&](const Index& index) { return With(index, *k, 0); });
}

ViewModel Squeeze(const ViewModel& a) {
  ViewModel view = a;
  for (int k = a.ndim() - 1; k >= 0; --k) {
    if (auto narrower = Squeeze(view, k)) view = *narrower;
  }
  return view;
}

std::optional<ViewModel> BroadcastTo(const ViewModel& a,
                                     const std::vector<int64_t>& shape) {
  if (shape.size() < a.shape.size() || shape.size() > 32) return std::nullopt;
  const size_t added = shape.size() - a.shape.size();
  for (size_t k = 0; k < shape.size(); ++k) {
    if (shape[k] < 0) return std::nullopt;
    if (k < added) continue;
    const int64_t extent = a.shape[k - added];
    if (extent != shape[k] && extent != 1) return std::nullopt;
  }
  return Mapped(a, shape, [&](const Index& index) {
    Index source;
    for (size_t k = added; k < index.size(); ++k) {
      source.push_back(a.shape[k - added] == 1 ? 0 : index[k]);
    }
    return source;
  });
}

bool HasStrides(const ViewModel& a) {
  if (a.bytes.empty()) return true;
  const Index origin(a.shape.size(), 0);
  std::vector<int64_t> strides(a.shape.size(), 0);
  for (size_t k = 0; k < a.shape.size(); ++k) {
    if (a.shape[k] == 1) continue;
    Index next = origin;
    next[k] = 1;
    strides[k] = a.At(next) - a.bytes.front();
  }
  for (const Index& index : AllIndices(a.shape)) {
    int64_t expected = a.bytes.front();
    for (size_t k = 0; k < index.size(); ++k) {
      expected += index[k] * strides[k];
    }
    if (a.At(index) != expected) return false;
  }
  return true;
}

}  // namespace devrt::testing
