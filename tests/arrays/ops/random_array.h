// SPDX-License-Identifier: Apache-2.0
//
// Arrays of random layout and content on a device.  The test knows their
// elements without reading them from the device.

#ifndef DEVRT_TESTS_ARRAYS_OPS_RANDOM_ARRAY_H_
#define DEVRT_TESTS_ARRAYS_OPS_RANDOM_ARRAY_H_

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "devrt/devrt.h"
#include "tests/support/elements.h"

namespace devrt::testing {

using reference::Element;
using Random = std::mt19937_64;
using Shape = std::vector<int64_t>;

inline int64_t Uniform(Random& random, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}

inline bool IsWhole(DType t) { return t == kBool || t.is_integer(); }

// The kinds of random elements.
enum class Content {
  kAny,       // any bits, special values, small numbers
  kModerate,  // small numbers: squares and quotients of them are no surprise
  kWhole,     // small whole numbers: sums of them are exact
};
Element RandomElement(Random& random, DType dtype, Content content);

// Up to five axes, seldom 32, seldom with an extent of 0.
Shape RandomShape(Random& random);
// A shape that broadcasts to `shape`.
Shape RandomPart(Random& random, const Shape& shape);

struct RandomArray {
  // Steps, negative ones too, transposed, not aligned, over more memory than is
  // named; `repeats`: also with strides of 0.
  RandomArray(Random& random, Device device, DType dtype, const Shape& shape,
              Content content, bool repeats);

  Array array;
  std::vector<Element> elements;  // in C order
};

// The elements now, in C order.
std::vector<Element> Fetch(const Array& array);

// Calls f(flat index of the result, flat indices of the operands) for all
// elements of `shape`, to which all of `operands` broadcast.
void ForEach(const Shape& shape, const std::vector<Shape>& operands,
             const std::function<void(size_t, const std::vector<size_t>&)>& f);

// How many elements; "(2, 3)".
size_t CountOf(const Shape& shape);
Shape ShapeOf(const Array& array);

// Compares all elements; returns false and fails the test if they differ.
bool ExpectElements(const Array& array, const std::vector<Element>& wanted,
                    reference::Match match);

}  // namespace devrt::testing

#endif  // DEVRT_TESTS_ARRAYS_OPS_RANDOM_ARRAY_H_
