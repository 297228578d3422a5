// SPDX-License-Identifier: Apache-2.0

#include "tests/mtia/random_tensor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>

namespace devrt::mtia {
namespace {

using reference::Element;
using reference::Value;

// Strides of non-overlapping elements: axes in any order, gaps, any signs.
Shape RandomStrides(Random& random, const Shape& shape, int64_t item) {
  std::vector<size_t> order(shape.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (Uniform(random, 0, 2) != 0) {
    std::shuffle(order.begin(), order.end(), random);
  }
  Shape strides(shape.size());
  int64_t bytes = item;
  if (Uniform(random, 0, 1) != 0) bytes += Uniform(random, 0, 5);
  for (size_t k = order.size(); k-- > 0;) {
    const size_t axis = order[k];
    const bool negative = Uniform(random, 0, 3) == 0;
    strides[axis] = negative ? -bytes : bytes;
    bytes *= std::max<int64_t>(shape[axis], 1);
    if (Uniform(random, 0, 3) == 0) bytes += Uniform(random, 0, 9);
  }
  return strides;
}

Value Special(Random& random, uint32_t dtype) {
  constexpr double kReals[] = {0.0,
                               -0.0,
                               1.0,
                               -1.0,
                               0.5,
                               65504.0,
                               448.0,
                               1e38,
                               -1e300,
                               2147483648.0,
                               -9223372036854775808.0,
                               18446744073709551616.0,
                               1e-40,
                               std::numeric_limits<double>::infinity(),
                               -std::numeric_limits<double>::infinity(),
                               std::numeric_limits<double>::quiet_NaN()};
  const auto real = [&] { return kReals[Uniform(random, 0, 15)]; };
  if (cts::IsInteger(dtype)) {
    constexpr uint64_t kIntegers[] = {
        0,   1,      ~uint64_t{0}, uint64_t{1} << 63, ~uint64_t{0} >> 1,
        128, 0x8000, 1u << 31};
    return Value::Integer(kIntegers[Uniform(random, 0, 7)]);
  }
  const double re = real();
  return cts::IsComplex(dtype) ? Value::Complex(re, real()) : Value::Real(re);
}

Value Small(Random& random, uint32_t dtype) {
  if (cts::IsInteger(dtype)) return Value::Integer(Uniform(random, -9, 9));
  std::uniform_real_distribution<double> real(-100, 100);
  const double re = real(random);
  return cts::IsComplex(dtype) ? Value::Complex(re, real(random))
                               : Value::Real(re);
}

}  // namespace

Tensor MakeTensor(void* data, uint32_t dtype, const Shape& shape,
                  const Shape* strides) {
  const devrt_tensor_v0 descriptor = {
      data, shape.data(), strides == nullptr ? nullptr : strides->data(),
      static_cast<uint32_t>(shape.size()), dtype};
  Tensor tensor;
  std::string error;
  EXPECT_TRUE(CopyTensor(descriptor, "tensor", &tensor, &error)) << error;
  return tensor;
}

TestTensor::TestTensor(Random& random, uint32_t dtype, const Shape& shape,
                       Layout layout) {
  const int64_t item = static_cast<int64_t>(cts::SizeOf(dtype));
  Shape strides = RandomStrides(random, shape, item);
  for (int64_t& stride : strides) {
    if (layout == Layout::kBroadcast && Uniform(random, 0, 1) == 0) stride = 0;
  }
  tensor_ = MakeTensor(kData, dtype, shape,
                       layout == Layout::kContiguous ? nullptr : &strides);
  const int64_t lead = Uniform(random, 0, 3);
  origin_ = lead - tensor_.lo;
  memory_.resize(static_cast<size_t>(lead + tensor_.hi - tensor_.lo));
  for (std::byte& byte : memory_) byte = static_cast<std::byte>(random());
}

Element TestTensor::Get(int64_t offset) const {
  Element element{};
  std::memcpy(element.data(), local() + offset, cts::SizeOf(tensor_.dtype));
  return element;
}

void TestTensor::Set(int64_t offset, const Element& element) {
  std::memcpy(local() + offset, element.data(), cts::SizeOf(tensor_.dtype));
}

Shape RandomShape(Random& random) {
  switch (Uniform(random, 0, 9)) {
    case 0:
      return {};
    case 1:
      return {Uniform(random, 0, 1500)};
    case 2: {
      Shape shape(DEVRT_MAX_DIMS, 1);
      for (int k = 0; k < 7; ++k) {
        shape[static_cast<size_t>(Uniform(random, 0, 31))] = 2;
      }
      return shape;
    }
    case 3:
      return {Uniform(random, 1, 40), Uniform(random, 1, 40)};
    default:
      break;
  }
  Shape shape(static_cast<size_t>(Uniform(random, 1, 5)));
  for (int64_t& extent : shape) {
    extent = Uniform(random, 0, 14) == 0 ? 0 : Uniform(random, 1, 5);
  }
  return shape;
}

Element RandomElement(Random& random, uint32_t dtype) {
  Element element{};
  switch (Uniform(random, 0, 2)) {
    case 0:
      return reference::Encode(dtype, Small(random, dtype));
    case 1:
      return reference::Encode(dtype, Special(random, dtype));
    default:
      for (size_t k = 0; k < cts::SizeOf(dtype); ++k) {
        element[k] = static_cast<std::byte>(random());
      }
      return element;
  }
}

Element RandomModerate(Random& random, uint32_t dtype) {
  return reference::Encode(dtype, Small(random, dtype));
}

bool Odometer::Next() {
  for (size_t k = shape_.size(); k-- > 0;) {
    if (++index_[k] < shape_[k]) return true;
    index_[k] = 0;
  }
  return false;
}

}  // namespace devrt::mtia
