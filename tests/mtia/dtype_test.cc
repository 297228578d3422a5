// SPDX-License-Identifier: Apache-2.0

#include "backends/tensor/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>

#include "backends/mtia/kernels/kernels.h"
#include "tests/support/elements.h"

namespace devrt::mtia {
namespace {

using tensor::Bfloat16;
using tensor::BitsOf;
using tensor::Bool;
using tensor::ClassOf;
using tensor::DtypeClass;
using tensor::Float16;
using tensor::Float8E4m3fn;
using tensor::Float8E5m2;
using tensor::FloatOf;
using tensor::IntegerToOdd;
using tensor::Narrow;
using tensor::RawDtype;
using tensor::RoundToOdd;
using tensor::VisitDtype;
using tensor::Widen;

uint32_t BitsOf(Float16 x) { return x.bits; }
uint32_t BitsOf(Bfloat16 x) { return x.bits; }
uint32_t BitsOf(Float8E4m3fn x) { return x.bits; }
uint32_t BitsOf(Float8E5m2 x) { return x.bits; }

// The value of a code of a narrow float, by the reference, and back.
double Decode(uint32_t dtype, uint32_t bits) {
  const uint8_t bytes[] = {static_cast<uint8_t>(bits),
                           static_cast<uint8_t>(bits >> 8)};
  return static_cast<double>(cts::Load(dtype, bytes).re);
}
uint32_t Encode(uint32_t dtype, double value) {
  uint8_t bytes[2] = {};
  cts::Store(dtype, cts::Number::Real(value), bytes);
  return bytes[0] | static_cast<uint32_t>(bytes[1]) << 8;
}

template <typename T>
struct Info;
template <>
struct Info<Float16> {
  static constexpr uint32_t kDtype = DEVRT_FLOAT16;
};
template <>
struct Info<Bfloat16> {
  static constexpr uint32_t kDtype = DEVRT_BFLOAT16;
};
template <>
struct Info<Float8E4m3fn> {
  static constexpr uint32_t kDtype = DEVRT_FLOAT8_E4M3FN;
};
template <>
struct Info<Float8E5m2> {
  static constexpr uint32_t kDtype = DEVRT_FLOAT8_E5M2;
};

template <typename T>
class NarrowFloatTest : public testing::Test {
 public:
  static constexpr uint32_t kDtype = Info<T>::kDtype;
  static constexpr uint32_t kCodes = 1u << 8 * sizeof(T);

  static T FromBits(uint32_t bits) {
    return {static_cast<decltype(T::bits)>(bits)};
  }
};

using NarrowFloats =
    testing::Types<Float16, Bfloat16, Float8E4m3fn, Float8E5m2>;
TYPED_TEST_SUITE(NarrowFloatTest, NarrowFloats, );

TYPED_TEST(NarrowFloatTest, WidensEveryCodeToItsValue) {
  for (uint32_t bits = 0; bits < this->kCodes; ++bits) {
    const float got = Widen(this->FromBits(bits));
    const double want = Decode(this->kDtype, bits);
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(got)) << bits;
    } else {
      EXPECT_EQ(static_cast<double>(got), want) << bits;
    }
    EXPECT_EQ(std::signbit(got), bits >= this->kCodes / 2) << bits;
  }
}

TYPED_TEST(NarrowFloatTest, EveryCodeSurvivesARoundTrip) {
  for (uint32_t bits = 0; bits < this->kCodes; ++bits) {
    const float wide = Widen(this->FromBits(bits));
    const uint32_t back = BitsOf(Narrow<TypeParam>(wide));
    if (!std::isnan(wide)) {
      EXPECT_EQ(back, bits);
      continue;
    }
    EXPECT_TRUE(std::isnan(Widen(this->FromBits(back)))) << bits;
    EXPECT_EQ(back >= this->kCodes / 2, bits >= this->kCodes / 2) << bits;
  }
}

// Between each pair of neighbours: the point halfway, and the floats around it.
TYPED_TEST(NarrowFloatTest, RoundsToNearestEvenBetweenAllNeighbours) {
  for (uint32_t bits = 0; bits + 1 < this->kCodes / 2; ++bits) {
    const double low = Decode(this->kDtype, bits);
    const double high = Decode(this->kDtype, bits + 1);
    if (!std::isfinite(low) || !std::isfinite(high)) continue;
    const float middle = static_cast<float>((low + high) / 2);
    ASSERT_EQ(static_cast<double>(middle), (low + high) / 2);
    const float below = std::nextafter(middle, 0.0f);
    const float above = std::nextafter(middle, HUGE_VALF);
    const uint32_t even = bits % 2 == 0 ? bits : bits + 1;
    EXPECT_EQ(BitsOf(Narrow<TypeParam>(below)), bits) << below;
    EXPECT_EQ(BitsOf(Narrow<TypeParam>(middle)), even) << middle;
    EXPECT_EQ(BitsOf(Narrow<TypeParam>(above)), bits + 1) << above;
    EXPECT_EQ(BitsOf(Narrow<TypeParam>(-middle)), even + this->kCodes / 2);
  }
}

TYPED_TEST(NarrowFloatTest, RoundsAnyFloatLikeTheReference) {
  const uint32_t seed = 20240607;
  std::mt19937 random(seed);
  for (int k = 0; k < 200000; ++k) {
    const float value = FloatOf(static_cast<uint32_t>(random()));
    if (std::isnan(value)) continue;
    ASSERT_EQ(BitsOf(Narrow<TypeParam>(value)), Encode(this->kDtype, value))
        << value << ", seed " << seed;
  }
}

TYPED_TEST(NarrowFloatTest, NanKeepsItsSign) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const uint32_t plus = BitsOf(Narrow<TypeParam>(std::copysign(nan, 1.0f)));
  const uint32_t minus = BitsOf(Narrow<TypeParam>(std::copysign(nan, -1.0f)));
  EXPECT_TRUE(std::isnan(Widen(this->FromBits(plus))));
  EXPECT_LT(plus, this->kCodes / 2);
  EXPECT_EQ(minus, plus + this->kCodes / 2);
  // A payload only in the bits that are dropped must not become infinity.
  EXPECT_TRUE(std::isnan(Widen(Narrow<TypeParam>(FloatOf(0x7f800001u)))));
}

// The conversion of a double must not depend on a float in between.
TYPED_TEST(NarrowFloatTest, DoublesAreRoundedOnce) {
  const uint32_t seed = 20240608;
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> exponent(-150, 130);
  for (int k = 0; k < 200000; ++k) {
    // A halfway point of the narrow format, moved by less than a float can say.
    const uint32_t bits = static_cast<uint32_t>(random()) % (this->kCodes / 2);
    const double low = Decode(this->kDtype, bits);
    const double high = Decode(this->kDtype, bits + 1);
    double value = (low + high) / 2;
    if (!std::isfinite(value)) value = std::exp2(exponent(random));
    if (k % 3 == 0) value = std::nextafter(value, 0.0);
    if (k % 3 == 1) value = std::nextafter(value, HUGE_VAL);
    if (k % 2 == 0) value = -value;
    ASSERT_EQ(BitsOf(Narrow<TypeParam>(RoundToOdd(value))),
              Encode(this->kDtype, value))
        << value << ", seed " << seed;
  }
}

TEST(RoundToOddTest, KeepsFloatsAndSpecials) {
  const double inf = HUGE_VAL;
  for (double value :
       {0.0, -0.0, 1.0, -2.5, 3.4028234663852886e38, 1e-45, inf, -inf}) {
    const double as_float = static_cast<double>(static_cast<float>(value));
    EXPECT_EQ(static_cast<double>(RoundToOdd(value)), as_float);
    EXPECT_EQ(std::signbit(RoundToOdd(value)), std::signbit(value));
  }
  EXPECT_TRUE(std::isnan(RoundToOdd(std::nan(""))));
}

TEST(RoundToOddTest, NeverLeavesTheNeighbours) {
  // 1 + 2^-24 is halfway between two floats, of which 1 is even.
  EXPECT_EQ(RoundToOdd(1 + 0x1p-24), std::nextafter(1.0f, 2.0f));
  EXPECT_EQ(RoundToOdd(-1 - 0x1p-24), std::nextafter(-1.0f, -2.0f));
  EXPECT_EQ(RoundToOdd(1e300), std::numeric_limits<float>::max());
  EXPECT_EQ(RoundToOdd(-1e300), -std::numeric_limits<float>::max());
  EXPECT_EQ(RoundToOdd(1e-300), std::numeric_limits<float>::denorm_min());
}

TEST(IntegerToOddTest, ExactUpTo2To53AndOddBeyond) {
  const int64_t exact = int64_t{1} << 53;
  for (int64_t value : {int64_t{0}, int64_t{-1}, int64_t{0x7ff}, exact, -exact,
                        exact - 1, 1 - exact}) {
    EXPECT_EQ(static_cast<int64_t>(IntegerToOdd(value)), value);
  }
  const int64_t big = int64_t{1} << 62;
  EXPECT_EQ(IntegerToOdd(big), 0x1p62);
  EXPECT_EQ(IntegerToOdd(big + 1), 0x1p62 + 0x800);
  EXPECT_EQ(IntegerToOdd(-big - 1), -0x1p62 - 0x800);
  EXPECT_EQ(IntegerToOdd(std::numeric_limits<int64_t>::min()), -0x1p63);
  EXPECT_EQ(IntegerToOdd(std::numeric_limits<uint64_t>::max()), 0x1p64 - 0x800);
}

TEST(Float8Test, LargestValues) {
  EXPECT_EQ(Narrow<Float8E4m3fn>(448.0f).bits, 0x7e);
  EXPECT_EQ(Narrow<Float8E4m3fn>(464.0f).bits, 0x7e);
  EXPECT_EQ(Narrow<Float8E4m3fn>(464.001f).bits, 0x7f);
  EXPECT_EQ(Narrow<Float8E4m3fn>(-HUGE_VALF).bits, 0xff);
  EXPECT_EQ(Narrow<Float8E5m2>(57344.0f).bits, 0x7b);
  EXPECT_EQ(Narrow<Float8E5m2>(61439.9f).bits, 0x7b);
  EXPECT_EQ(Narrow<Float8E5m2>(61440.0f).bits, 0x7c);
  EXPECT_EQ(Narrow<Float8E5m2>(-HUGE_VALF).bits, 0xfc);
}

TEST(BoolTest, AnyByteButZeroIsTrue) {
  for (uint32_t byte = 0; byte < 256; ++byte) {
    EXPECT_EQ(Widen(Bool{static_cast<uint8_t>(byte)}), byte != 0);
  }
  EXPECT_EQ(Narrow<Bool>(true).byte, 1);
  EXPECT_EQ(Narrow<Bool>(false).byte, 0);
}

TEST(DtypeTest, SizesAndNames) {
  const struct {
    uint32_t dtype;
    uint32_t size;
    const char* name;
  } kCases[] = {
      {DEVRT_BOOL, 1, "bool"},
      {DEVRT_INT8, 1, "int8"},
      {DEVRT_INT64, 8, "int64"},
      {DEVRT_UINT16, 2, "uint16"},
      {DEVRT_FLOAT16, 2, "float16"},
      {DEVRT_BFLOAT16, 2, "bfloat16"},
      {DEVRT_COMPLEX64, 8, "complex64"},
      {DEVRT_COMPLEX128, 16, "complex128"},
      {DEVRT_FLOAT8_E4M3FN, 1, "float8_e4m3fn"},
      {DEVRT_FLOAT8_E5M2, 1, "float8_e5m2"},
      {DEVRT_DTYPE(0, 24), 0, "(code 0, 24 bits)"},
      {DEVRT_DTYPE(3, 64), 0, "(code 3, 64 bits)"},
      {0xffffffffu, 0, "(code 16777215, 255 bits)"},
  };
  for (const auto& test : kCases) {
    EXPECT_EQ(DtypeSize(test.dtype), test.size) << test.name;
    EXPECT_EQ(DtypeName(test.dtype), test.name);
  }
}

TEST(DtypeTest, EveryDtypeHasSizeNameAndVisit) {
  for (uint32_t dtype : cts::Dtypes()) {
    const std::string name = DtypeName(dtype);
    EXPECT_EQ(DtypeSize(dtype), cts::SizeOf(dtype)) << name;
    const size_t stored = VisitDtype(
        dtype, [](auto tag) { return sizeof(typename decltype(tag)::type); });
    EXPECT_EQ(stored, cts::SizeOf(dtype)) << name;
    EXPECT_EQ(DtypeSize(RawDtype(dtype)), DtypeSize(dtype)) << name;
    EXPECT_NE(ClassOf(dtype), DtypeClass::kUnknown) << name;
  }
  EXPECT_EQ(ClassOf(DEVRT_DTYPE(3, 64)), DtypeClass::kUnknown);
}

}  // namespace
}  // namespace devrt::mtia
