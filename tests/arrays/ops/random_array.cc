// SPDX-License-Identifier: Apache-2.0

#include "tests/arrays/ops/random_array.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>

#include "tests/support/status_matchers.h"

namespace devrt::testing {
namespace {

using reference::Value;

Value Number(DType dtype, double re, double im) {
  if (dtype == kBool || dtype.is_integer()) {
    return Value::Integer(static_cast<int64_t>(re));
  }
  return dtype.is_complex() ? Value::Complex(re, im) : Value::Real(re);
}

double Special(Random& random) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const double all[] = {0.0,     -0.0,    kInf, -kInf, std::nan(""),
                        65504.0, 65520.0, 1e-7, 3e38,  -1e-45};
  return all[Uniform(random, 0, 9)];
}

// Where an element of one axis is: in elements of the memory below.
struct Axis {
  int64_t extent;  // of the view
  int64_t below;   // of the memory
  int64_t first;   // index below of index 0
  int64_t step;    // 0: repeated
};

Axis RandomAxis(Random& random, int64_t extent, bool repeats) {
  const int64_t choice = Uniform(random, 0, 5);
  if (choice == 0 && repeats) return {extent, 1, 0, 0};
  if (choice > 2 || extent == 0) return {extent, extent, 0, 1};
  const int64_t step = Uniform(random, 1, 3);
  const int64_t before = Uniform(random, 0, 2);
  const int64_t span = step * (extent - 1) + 1;
  const int64_t below = before + span + Uniform(random, 0, 2);
  if (choice == 1) return {extent, below, before, step};
  return {extent, below, before + span - 1, -step};
}

}  // namespace

Element RandomElement(Random& random, DType dtype, Content content) {
  const int64_t kind = content == Content::kAny ? Uniform(random, 0, 3) : 3;
  if (kind == 0) {
    Element element{};
    for (size_t i = 0; i < dtype.size(); ++i) {
      element[i] = static_cast<std::byte>(random());
    }
    return element;
  }
  const bool has_special = !(dtype == kBool || dtype.is_integer());
  if (kind == 1 && has_special) {
    return reference::Encode(dtype.code(),
                             Number(dtype, Special(random), Special(random)));
  }
  const double scale = content == Content::kWhole || !has_special ? 1 : 0.25;
  const auto part = [&] {
    return static_cast<double>(Uniform(random, -7, 7)) * scale;
  };
  // The wrapped ones of unsigned integers are not small.
  const bool wraps =
      content == Content::kWhole && dtype.kind() == DTypeKind::kUnsigned;
  const double re = wraps ? std::fabs(part()) : part();
  return reference::Encode(dtype.code(), Number(dtype, re, part()));
}

Shape RandomShape(Random& random) {
  if (Uniform(random, 0, 40) == 0) {
    Shape shape(32, 1);
    for (int i = 0; i < 4; ++i) {
      shape[static_cast<size_t>(Uniform(random, 0, 31))] = 2;
    }
    return shape;
  }
  Shape shape(static_cast<size_t>(Uniform(random, 0, 5)));
  for (int64_t& extent : shape) {
    extent = Uniform(random, 0, 30) == 0 ? 0 : Uniform(random, 1, 4);
  }
  return shape;
}

Shape RandomPart(Random& random, const Shape& shape) {
  Shape part = shape;
  if (Uniform(random, 0, 1) == 0) return part;
  for (int64_t& extent : part) {
    if (Uniform(random, 0, 3) == 0) extent = 1;
  }
  const int64_t fewer = Uniform(random, 0, static_cast<int64_t>(part.size()));
  if (Uniform(random, 0, 2) == 0)
    part.erase(part.begin(), part.begin() + fewer);
  return part;
}

RandomArray::RandomArray(Random& random, Device device, DType dtype,
                         const Shape& shape, Content content, bool repeats)
    : array(Must(Array::Empty({}, dtype, device))) {
  const bool plain = Uniform(random, 0, 2) == 0;
  std::vector<Axis> axes;
  // Many axes with something between their elements would fill the memory.
  const bool many = shape.size() > 8;
  for (int64_t extent : shape) {
    axes.push_back(plain || (many && extent == 1)
                       ? Axis{extent, extent, 0, 1}
                       : RandomAxis(random, extent, repeats));
  }
  // In which order the axes lie in memory; the last one is innermost.
  std::vector<int> order(shape.size());
  std::iota(order.begin(), order.end(), 0);
  if (!plain) std::shuffle(order.begin(), order.end(), random);

  Shape below;
  for (int axis : order) below.push_back(axes[static_cast<size_t>(axis)].below);
  const size_t count = CountOf(below);
  std::vector<Element> memory(count);
  for (Element& e : memory) e = RandomElement(random, dtype, content);
  const size_t shift = plain ? 0 : static_cast<size_t>(Uniform(random, 0, 7));
  std::vector<std::byte> bytes(shift + count * dtype.size());
  for (size_t i = 0; i < count; ++i) {
    std::memcpy(&bytes[shift + i * dtype.size()], memory[i].data(),
                dtype.size());
  }

  const int64_t size = static_cast<int64_t>(bytes.size());
  const auto raw = std::make_shared<Array>(
      Must(Array::FromHost(bytes.data(), {size}, kUInt8, device)));
  PointerOptions options;
  options.owner = raw;
  options.place = Place(device);
  options.stream = CurrentStream(device);
  Array view = Must(
      Array::FromPointer(count == 0 ? nullptr : raw->data_as<char>() + shift,
                         below, dtype, options));
  std::vector<int> back(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    back[static_cast<size_t>(order[i])] = static_cast<int>(i);
  }
  view = Must(view.Permute(back));
  for (size_t axis = 0; axis < axes.size(); ++axis) {
    const Axis& a = axes[axis];
    if (a.step == 0 || a.extent == 0) continue;
    Slice slice;
    slice.begin = a.first;
    slice.step = a.step;
    const int64_t end = a.first + a.step * a.extent;
    if (end >= 0) slice.end = end;
    view = Must(view.SliceAxis(static_cast<int>(axis), slice));
  }
  array = Must(view.BroadcastTo(shape));

  // Computes the elements of the view without class Array.
  std::vector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (size_t i = order.size(); i-- > 0;) {
    strides[static_cast<size_t>(order[i])] = stride;
    stride *= below[i];
  }
  const size_t total = CountOf(shape);
  std::vector<int64_t> index(shape.size(), 0);
  for (size_t n = 0; n < total; ++n) {
    int64_t at = 0;
    for (size_t k = 0; k < axes.size(); ++k) {
      at += (axes[k].first + axes[k].step * index[k]) * strides[k];
    }
    elements.push_back(memory[static_cast<size_t>(at)]);
    for (size_t k = index.size(); k-- > 0;) {
      if (++index[k] < shape[k]) break;
      index[k] = 0;
    }
  }
}

std::vector<Element> Fetch(const Array& array) {
  const Array host = Must(Must(array.To(Place::Host())).Contiguous());
  std::vector<Element> elements(static_cast<size_t>(host.size()));
  for (size_t i = 0; i < elements.size(); ++i) {
    std::memcpy(elements[i].data(), host.data_as<char>() + i * host.item_size(),
                host.item_size());
  }
  return elements;
}

size_t CountOf(const Shape& shape) {
  size_t count = 1;
  for (int64_t extent : shape) count *= static_cast<size_t>(extent);
  return count;
}

Shape ShapeOf(const Array& array) {
  return {array.shape().begin(), array.shape().end()};
}

void ForEach(const Shape& shape, const std::vector<Shape>& operands,
             const std::function<void(size_t, const std::vector<size_t>&)>& f) {
  std::vector<std::vector<size_t>> strides;
  for (const Shape& operand : operands) {
    std::vector<size_t> of(shape.size(), 0);
    size_t stride = 1;
    for (size_t k = operand.size(); k-- > 0;) {
      if (operand[k] != 1) of[k + shape.size() - operand.size()] = stride;
      stride *= static_cast<size_t>(operand[k]);
    }
    strides.push_back(of);
  }
  const size_t total = CountOf(shape);
  std::vector<int64_t> index(shape.size(), 0);
  for (size_t n = 0; n < total; ++n) {
    std::vector<size_t> at;
    for (const std::vector<size_t>& of : strides) {
      size_t sum = 0;
      for (size_t k = 0; k < of.size(); ++k) {
        sum += of[k] * static_cast<size_t>(index[k]);
      }
      at.push_back(sum);
    }
    f(n, at);
    for (size_t k = index.size(); k-- > 0;) {
      if (++index[k] < shape[k]) break;
      index[k] = 0;
    }
  }
}

bool ExpectElements(const Array& array, const std::vector<Element>& wanted,
                    reference::Match match) {
  const std::vector<Element> got = Fetch(array);
  if (got.size() != wanted.size()) {
    ADD_FAILURE() << got.size() << " elements, not " << wanted.size();
    return false;
  }
  const uint32_t dtype = array.dtype().code();
  for (size_t i = 0; i < got.size(); ++i) {
    if (reference::Matches(match, dtype, got[i], wanted[i])) continue;
    ADD_FAILURE() << "element " << i << " of " << ShapeText(array.shape())
                  << " is " << reference::Text(dtype, got[i]) << ", not "
                  << reference::Text(dtype, wanted[i]);
    return false;
  }
  return true;
}

}  // namespace devrt::testing
