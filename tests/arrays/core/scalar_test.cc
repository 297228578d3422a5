// SPDX-License-Identifier: Apache-2.0

#include "devrt/arrays/scalar.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "tests/arrays/core/numpy_tables.h"
#include "tests/support/status_matchers.h"

namespace devrt {
namespace {

using testing::Must;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Scalar NumberOf(const Conversion& row) {
  if (row.kind == DTypeKind::kUnsigned) return row.bits;
  if (row.kind == DTypeKind::kSigned) return static_cast<int64_t>(row.bits);
  double value;
  std::memcpy(&value, &row.bits, sizeof value);
  return value;
}

std::string HexOfElement(const Scalar::Element& element, DType dtype) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (size_t i = 0; i < dtype.size(); ++i) {
    hex += kDigits[element.bytes[i] >> 4];
    hex += kDigits[element.bytes[i] & 15];
  }
  return hex;
}

TEST(ScalarTest, ConversionsEqualNumPysTable) {
  const std::vector<DType> columns = TableColumns();
  int compared = 0;
  for (const Conversion& row : kConversions) {
    const Scalar number = NumberOf(row);
    const std::vector<std::string> elements = Words(row.elements);
    ASSERT_EQ(elements.size(), columns.size());
    for (size_t k = 0; k < columns.size(); ++k) {
      const auto element = number.As(columns[k]);
      if (elements[k] != "-") {
        EXPECT_EQ(HexOfElement(Must(element), columns[k]), elements[k])
            << number.ToString() << " as " << columns[k];
        ++compared;
      } else {
        // Of floats NumPy leaves it undefined.
        const bool is_float = row.kind == DTypeKind::kFloat;
        EXPECT_STATUS(element, kInvalidArgument,
                      std::string(columns[k].name()) + " cannot hold the " +
                          (is_float ? "number " : "integer ") +
                          number.ToString() + ": ");
      }
    }
  }
  EXPECT_GT(compared, 2500);
}

// Returns the value, by definition, of a float of `exponent_bits` and
// `mantissa_bits`. `bits` has no sign and is neither infinite nor NaN.
double Worth(uint32_t bits, int exponent_bits, int mantissa_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = static_cast<int>(bits >> mantissa_bits);
  const uint32_t mantissa = bits & ((1u << mantissa_bits) - 1);
  const double whole = exponent == 0 ? 0 : std::ldexp(1.0, mantissa_bits);
  return std::ldexp(whole + mantissa,
                    (exponent == 0 ? 1 : exponent) - bias - mantissa_bits);
}

TEST(ScalarTest, EveryNarrowFloatIsWorthItsDefinition) {
  struct Format {
    DType dtype;
    int exponent_bits, mantissa_bits;
    bool has_infinity;
  };
  for (const Format f :
       {Format{kFloat16, 5, 10, true}, Format{kBFloat16, 8, 7, true},
        Format{kFloat8E5M2, 5, 2, true}, Format{kFloat8E4M3FN, 4, 3, false}}) {
    const uint32_t magnitudes = 1u << (f.exponent_bits + f.mantissa_bits);
    const uint32_t infinity = ((1u << f.exponent_bits) - 1) << f.mantissa_bits;
    for (uint32_t bits = 0; bits < 2 * magnitudes; ++bits) {
      const uint32_t magnitude = bits % magnitudes;
      const double sign = bits >= magnitudes ? -1 : 1;
      const bool special =
          f.has_infinity ? magnitude >= infinity : magnitude == magnitudes - 1;
      const bool is_nan = special && !(f.has_infinity && magnitude == infinity);
      const Scalar value = Scalar::FromElement(f.dtype, &bits);
      ASSERT_EQ(value.kind(), DTypeKind::kFloat);
      const double got = value.Value<double>();
      if (is_nan) {
        ASSERT_TRUE(std::isnan(got)) << f.dtype << " " << bits;
        continue;
      }
      const double expected =
          sign * (special ? kInfinity
                          : Worth(magnitude, f.exponent_bits, f.mantissa_bits));
      ASSERT_EQ(got, expected) << f.dtype << " " << bits;
      ASSERT_EQ(std::signbit(got), sign < 0) << f.dtype << " " << bits;
      uint32_t back = 0;
      std::memcpy(&back, Must(value.As(f.dtype)).bytes, f.dtype.size());
      ASSERT_EQ(back, bits) << f.dtype;
    }
  }
}

TEST(ScalarTest, KindIsThatOfTheCppType) {
  EXPECT_EQ(Scalar(true).kind(), DTypeKind::kBool);
  EXPECT_EQ(Scalar(3).kind(), DTypeKind::kSigned);
  EXPECT_EQ(Scalar(int8_t{-3}).kind(), DTypeKind::kSigned);
  EXPECT_EQ(Scalar(3u).kind(), DTypeKind::kUnsigned);
  EXPECT_EQ(Scalar(0.5f).kind(), DTypeKind::kFloat);
  EXPECT_EQ(Scalar(std::complex<float>(1, 2)).kind(), DTypeKind::kComplex);
}

TEST(ScalarTest, ValuesSaturate) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(Scalar(UINT64_MAX).Value<int64_t>(), kMost);
  EXPECT_EQ(Scalar(-1).Value<uint64_t>(), 0u);
  EXPECT_EQ(Scalar(1e30).Value<int64_t>(), kMost);
  EXPECT_EQ(Scalar(-1e30).Value<int64_t>(), kLeast);
  EXPECT_EQ(Scalar(-1e30).Value<uint64_t>(), 0u);
  EXPECT_EQ(Scalar(kInfinity).Value<uint64_t>(), UINT64_MAX);
  EXPECT_EQ(Scalar(kNan).Value<int64_t>(), 0);
  EXPECT_EQ(Scalar(-2.9).Value<int64_t>(), -2);
  EXPECT_TRUE(Scalar(kNan).Value<bool>());
  EXPECT_TRUE(Scalar(std::complex<double>(0, 1)).Value<bool>());
  EXPECT_FALSE(Scalar(-0.0).Value<bool>());
  EXPECT_EQ(Scalar(std::complex<double>(2, 5)).Value<double>(), 2);
  EXPECT_EQ(Scalar(7).Value<std::complex<double>>(),
            std::complex<double>(7, 0));
  EXPECT_EQ(Scalar(true).Value<double>(), 1);
}

// As Python's arrays refuse it.
TEST(ScalarTest, FloatsBeyondAnIntegerAreRefused) {
  struct Edge {
    DType dtype;
    double least, most;  // that are held
  };
  const double kBelow63 = std::nextafter(std::ldexp(1.0, 63), 0);
  const double kBelow64 = std::nextafter(std::ldexp(1.0, 64), 0);
  for (const Edge& e : {Edge{kInt8, -128.9, 127.9}, Edge{kUInt8, -0.9, 255.9},
                        Edge{kInt32, -2147483648.9, 2147483647.9},
                        Edge{kInt64, -std::ldexp(1.0, 63), kBelow63},
                        Edge{kUInt64, -0.9, kBelow64}}) {
    for (const double value : {e.least, e.most}) {
      const auto held = Must(Scalar(value).As(e.dtype));
      EXPECT_EQ(Scalar::FromElement(e.dtype, held.bytes).Value<double>(),
                std::trunc(value))
          << e.dtype;
    }
    // Doubles may lie further apart than integers.
    const double below =
        std::min(std::trunc(e.least) - 1, std::nextafter(e.least, -kInfinity));
    const double above =
        std::max(std::trunc(e.most) + 1, std::nextafter(e.most, kInfinity));
    for (const double value : {below, above, kInfinity, -kInfinity, kNan}) {
      EXPECT_STATUS(Scalar(value).As(e.dtype), kInvalidArgument,
                    "cannot hold the number")
          << e.dtype << " " << value;
    }
  }
  EXPECT_OK(Scalar(kNan).As(kBool).status());
  EXPECT_OK(Scalar(1e300).As(kFloat16).status());
}

TEST(ScalarTest, IsWrittenAsItsText) {
  std::ostringstream text;
  text << Scalar(true) << " " << Scalar(-3) << " " << Scalar(0.5) << " "
       << Scalar(std::complex<double>(1, -2));
  EXPECT_EQ(text.str(), "True -3 0.5 (1.0-2.0j)");
}

TEST(ScalarTest, KindsHaveDefaultDTypes) {
  EXPECT_EQ(DefaultDType(Scalar(true).kind()), kBool);
  EXPECT_EQ(DefaultDType(Scalar(int8_t{1}).kind()), kInt64);
  EXPECT_EQ(DefaultDType(Scalar(1u).kind()), kUInt64);
  EXPECT_EQ(DefaultDType(Scalar(1.0f).kind()), kFloat64);
  EXPECT_EQ(DefaultDType(DTypeKind::kFloat8), kFloat64);
  EXPECT_EQ(DefaultDType(DTypeKind::kComplex), kComplex128);
}

TEST(ScalarTest, BoolsAndComplexNumbersConvert) {
  for (const DType t : DType::All()) {
    const auto one = Must(Scalar(true).As(t));
    EXPECT_EQ(Scalar::FromElement(t, one.bytes).Value<double>(), 1) << t;
    const auto complex = Scalar(std::complex<double>(3, 4)).As(t);
    if (!t.is_complex() && t != kBool) {
      EXPECT_STATUS(complex, kInvalidArgument,
                    std::string(t.name()) +
                        " cannot hold the complex number (3.0+4.0j): use its "
                        "real part");
      continue;
    }
    const auto back = Scalar::FromElement(t, Must(complex).bytes)
                          .Value<std::complex<double>>();
    EXPECT_EQ(back, t == kBool ? std::complex<double>(1, 0)
                               : std::complex<double>(3, 4))
        << t;
  }
  const unsigned char two = 2;  // nonzero reads true
  EXPECT_EQ(Scalar::FromElement(kBool, &two).kind(), DTypeKind::kBool);
  EXPECT_TRUE(Scalar::FromElement(kBool, &two).Value<bool>());
}

TEST(ScalarTest, TextIsPythons) {
  const std::vector<std::pair<Scalar, const char*>> texts = {
      {true, "True"},
      {-5, "-5"},
      {UINT64_MAX, "18446744073709551615"},
      {0.1, "0.1"},
      {1.0, "1.0"},
      {-0.0, "-0.0"},
      {1e16, "1e+16"},
      {1e15, "1000000000000000.0"},
      {123456789012345678.0, "1.2345678901234568e+17"},
      {0.0001, "0.0001"},
      {0.00001, "1e-05"},
      {2.5e-300, "2.5e-300"},
      {kNan, "nan"},
      {-kInfinity, "-inf"},
      {std::complex<double>(1, -2.5), "(1.0-2.5j)"},
      {std::complex<double>(0, 1), "(0.0+1.0j)"}};
  for (const auto& [value, text] : texts) EXPECT_EQ(value.ToString(), text);
}

}  // namespace
}  // namespace devrt
