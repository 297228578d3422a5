// SPDX-License-Identifier: Apache-2.0
//
// Tensors of random layout and content for the tests of the kernels.

#ifndef DEVRT_TESTS_MTIA_RANDOM_TENSOR_H_
#define DEVRT_TESTS_MTIA_RANDOM_TENSOR_H_

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "backends/mtia/kernels/kernels.h"
#include "tests/support/elements.h"

namespace devrt::mtia {

using Shape = std::vector<int64_t>;
using Random = std::mt19937_64;

inline int64_t Uniform(Random& random, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}

enum class Layout { kContiguous, kStrided, kBroadcast };

// A tensor and its memory, which is as large as the tensor touches: a byte too
// far is an error of AddressSanitizer.
class TestTensor {
 public:
  // Memory is filled with random bytes.
  TestTensor(Random& random, uint32_t dtype, const Shape& shape, Layout layout);

  const Tensor& tensor() const { return tensor_; }
  std::byte* local() { return memory_.data() + origin_; }
  const std::byte* local() const { return memory_.data() + origin_; }

  const std::vector<std::byte>& memory() const { return memory_; }

  reference::Element Get(int64_t offset) const;
  void Set(int64_t offset, const reference::Element& element);

 private:
  Tensor tensor_;
  std::vector<std::byte> memory_;
  int64_t origin_ = 0;  // of element 0 in memory_
};

Shape RandomShape(Random& random);

// A random element: any bits, small numbers and special values.
reference::Element RandomElement(Random& random, uint32_t dtype);
// A random element that is not NaN, is finite, and has a finite square.
reference::Element RandomModerate(Random& random, uint32_t dtype);

// Counts through the indices of a shape, last axis fastest.
class Odometer {
 public:
  explicit Odometer(const Shape& shape) : shape_(shape), index_(shape.size()) {}
  explicit Odometer(const tensor::Dims& shape)
      : Odometer(Shape(shape.begin(), shape.end())) {}

  const Shape& index() const { return index_; }
  template <typename Strides>  // Shape or tensor::Dims
  int64_t Offset(const Strides& strides) const {
    const int64_t* const index = index_.data();
    int64_t offset = 0;
    for (size_t k = 0; k < index_.size(); ++k) offset += index[k] * strides[k];
    return offset;
  }
  bool Next();  // false after the last

 private:
  Shape shape_;
  Shape index_;
};

// Any address will do, because kernels take local addresses.
inline void* const kData = reinterpret_cast<void*>(uintptr_t{1} << 40);

// A checked descriptor; fails the test where CopyTensor refuses.
Tensor MakeTensor(void* data, uint32_t dtype, const Shape& shape,
                  const Shape* strides);

}  // namespace devrt::mtia

#endif  // DEVRT_TESTS_MTIA_RANDOM_TENSOR_H_
