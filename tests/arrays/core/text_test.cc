// SPDX-License-Identifier: Apache-2.0
//
// Array::ToString against what NumPy prints.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

#include "arrays/core/digits.h"
#include "devrt/arrays/array.h"
#include "tests/arrays/arrays_fixture.h"

namespace devrt {
namespace {

using ::testing::HasSubstr;
using testing::Must;
using Text = testing::ArraysTest;

struct Printed {
  const char* dtype;
  int64_t shape[5];
  size_t ndim;
  const char* bytes;  // hexadecimal
  int64_t threshold;
  int64_t edge_items;
  int precision;
  const char* text;
};

#include "tests/arrays/core/numpy_text.inc"

std::string FromHex(const char* hex) {
  std::string bytes;
  for (; *hex != '\0'; hex += 2) {
    bytes.push_back(static_cast<char>(
        std::strtol(std::string(hex, 2).c_str(), nullptr, 16)));
  }
  return bytes;
}

Array HostArray(std::string* bytes, DimSpan shape, DType dtype) {
  PointerOptions options;
  options.place = Place::Host();
  return Must(Array::FromPointer(bytes->data(), shape, dtype, options));
}

Array::TextOptions OptionsOf(const Printed& row) {
  Array::TextOptions options;
  options.threshold = row.threshold;
  options.edge_items = row.edge_items;
  options.precision = row.precision;
  return options;
}

TEST_F(Text, EqualsTextOfNumPy) {
  for (const Printed& row : kPrinted) {
    std::string bytes = FromHex(row.bytes);
    const Array array = HostArray(&bytes, {row.shape, row.ndim},
                                  Must(DType::FromName(row.dtype)));
    EXPECT_EQ(array.ToString(OptionsOf(row)), row.text) << row.bytes;
  }
}

// A device's arrays, laid out otherwise in memory, read the same.
TEST_F(Text, OfADeviceIsThatOfTheHost) {
  for (const Printed& row : kPrinted) {
    std::string bytes = FromHex(row.bytes);
    const DType dtype = Must(DType::FromName(row.dtype));
    const Array host = HostArray(&bytes, {row.shape, row.ndim}, dtype);
    const Array there = Must(host.Transpose().To(dev(1)));
    std::string expected = row.text;
    const size_t place = expected.find("'cpu'");
    ASSERT_NE(place, expected.npos);
    std::string text = there.Transpose().ToString(OptionsOf(row));
    // The longer name may have moved what follows the values to a line of its
    // own.
    const auto squeeze = [](std::string s) {
      s.erase(std::remove_if(s.begin(), s.end(),
                             [](char c) { return c == ' ' || c == '\n'; }),
              s.end());
      return s;
    };
    expected.replace(place, 5, "'mtia:1'");
    EXPECT_EQ(squeeze(text), squeeze(expected));
  }
}

TEST_F(Text, StreamsAsToString) {
  const Array x = Must(Array::Full({2, 2}, kFloat32, 1.5, dev(0)));
  std::ostringstream out;
  out << x;
  EXPECT_EQ(out.str(),
            "array([[1.5, 1.5],\n"
            "       [1.5, 1.5]], dtype=float32, device='mtia:0')");
  EXPECT_EQ(out.str(), x.ToString());
}

TEST_F(Text, PlacesAreNamed) {
  const Array x = Must(Array::Full({1}, kInt8, 3, Place::Pinned(dev(0))));
  EXPECT_EQ(x.ToString(),
            "array([3], dtype=int8, device='pinned memory of mtia:0')");
}

TEST_F(Text, OfALargeArrayOnlyTheEdgesAreFetched) {
  // 2^40 elements over 4 bytes: what is not printed must not be touched.
  float value = 2.5;
  const int64_t shape[] = {1 << 20, 1 << 20};
  PointerOptions options;
  options.strides = {0, 0};
  const Array x = Must(Array::FromPointer(&value, shape, kFloat32, options));
  const std::string row = "[2.5, 2.5, 2.5, ..., 2.5, 2.5, 2.5]";
  const std::string gap = ",\n       ";
  EXPECT_EQ(x.ToString(), "array([" + row + gap + row + gap + row + gap +
                              "..." + gap + row + gap + row + gap + row +
                              "],\n      shape=(1048576, 1048576), "
                              "dtype=float32, device='cpu')");
}

TEST_F(Text, OfManyLongAxesIsShortenedFurther) {
  float value = 1;
  const std::vector<int64_t> shape(15, 10);
  PointerOptions options;
  options.strides = Dims(15, 0);
  const Array x = Must(Array::FromPointer(&value, shape, kFloat32, options));
  const std::string text = x.ToString();
  EXPECT_LT(text.size(), 10'000'000u);
  EXPECT_THAT(text, HasSubstr("[1., ..., 1.]"));
  const std::vector<int64_t> pairs(32, 2);
  options.strides = Dims(32, 0);
  const Array y = Must(Array::FromPointer(&value, pairs, kFloat32, options));
  EXPECT_THAT(y.ToString(), HasSubstr("4294967296 elements would be printed"));
}

TEST_F(Text, OddOptionsAreTaken) {
  std::string bytes(12, '\0');
  const Array x = HostArray(&bytes, {12}, kInt8);
  Array::TextOptions options;
  options.threshold = -1;
  options.edge_items = -5;
  options.precision = -1;
  EXPECT_EQ(x.ToString(options),
            "array([0, ..., 0], shape=(12,), dtype=int8, device='cpu')");
}

TEST_F(Text, OfNarrowFloatsIsShortest) {
  const auto text = [](DType dtype, double value) {
    const auto element = Must(Scalar(value).As(dtype));
    std::string bytes(reinterpret_cast<const char*>(element.bytes),
                      dtype.size());
    return HostArray(&bytes, {1}, dtype).ToString();
  };
  EXPECT_EQ(text(kBFloat16, 0.1), "array([0.1], dtype=bfloat16, device='cpu')");
  EXPECT_EQ(text(kBFloat16, 3.140625),
            "array([3.14], dtype=bfloat16, device='cpu')");
  EXPECT_EQ(text(kFloat8E4M3FN, 448),
            "array([448.], dtype=float8_e4m3fn, device='cpu')");
  EXPECT_EQ(text(kFloat8E5M2, 0.3),
            "array([0.3125], dtype=float8_e5m2, device='cpu')");
  EXPECT_EQ(text(kFloat8E4M3FN, NAN),
            "array([nan], dtype=float8_e4m3fn, device='cpu')");
}

// Every float16 reads back from its digits, and has no digit too many.
TEST_F(Text, OfEveryFloat16ReadsBack) {
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const double value = Scalar::FromElement(kFloat16, &bits).Value<double>();
    const internal::DecimalText text =
        internal::Scientific(kFloat16, value, 17);
    const std::string number =
        text.whole + "." + text.fraction + "e" + text.exponent;
    uint16_t back = 0;
    std::memcpy(
        &back,
        Must(Scalar(std::strtod(number.c_str(), nullptr)).As(kFloat16)).bytes,
        2);
    ASSERT_EQ(back, bits) << number;
    ASSERT_LE(text.fraction.size(), 4u) << number;
  }
}

}  // namespace
}  // namespace devrt
