// SPDX-License-Identifier: Apache-2.0

#include "devrt/arrays/dtype.h"

#include <gtest/gtest.h>

#include <set>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#include "devrt/arrays/scalar.h"
#include "tests/arrays/core/numpy_tables.h"
#include "tests/support/status_matchers.h"

namespace devrt {
namespace {

using testing::Must;

TEST(DTypeTest, NamesAndCodesReadBack) {
  std::set<std::string> names;
  std::set<uint32_t> codes;
  for (const DType t : DType::All()) {
    EXPECT_TRUE(names.insert(t.name()).second) << t;
    EXPECT_TRUE(codes.insert(t.code()).second) << t;
    EXPECT_EQ(Must(DType::FromName(t.name())), t);
    EXPECT_EQ(Must(DType::FromDLPack(t.dlpack_code(), t.dlpack_bits())), t);
    EXPECT_EQ(t.size() * 8, t.dlpack_bits()) << t;
    EXPECT_EQ(t.code(), DEVRT_DTYPE(t.dlpack_code(), t.dlpack_bits())) << t;
    if (t.typestr() != nullptr) {
      EXPECT_EQ(Must(DType::FromName(t.typestr())), t);
    }
  }
  EXPECT_EQ(names.size(), 17u);
  EXPECT_EQ(sizeof(DType), 4u);
}

TEST(DTypeTest, TypeStringsAreNumPys) {
  const std::vector<std::pair<const char*, DType>> spellings = {
      {"?", kBool},         {"|b1", kBool},    {"b1", kBool},
      {"i1", kInt8},        {"|i1", kInt8},    {">i1", kInt8},
      {"<i2", kInt16},      {"=i4", kInt32},   {"i8", kInt64},
      {"|u1", kUInt8},      {"<u2", kUInt16},  {"u4", kUInt32},
      {"=u8", kUInt64},     {"f2", kFloat16},  {"f4", kFloat32},
      {"<f4", kFloat32},    {"=f8", kFloat64}, {"c8", kComplex64},
      {"<c16", kComplex128}};
  for (const auto& [text, dtype] : spellings) {
    EXPECT_EQ(Must(DType::FromName(text)), dtype) << text;
  }
  for (const DType t : {kBFloat16, kFloat8E4M3FN, kFloat8E5M2}) {
    EXPECT_EQ(t.typestr(), nullptr) << t;
  }
  EXPECT_STREQ(kFloat32.typestr(), "<f4");
  EXPECT_STREQ(kUInt8.typestr(), "|u1");
  EXPECT_STREQ(kBool.typestr(), "|b1");
}

TEST(DTypeTest, UnknownNamesAreRefused) {
  for (const char* name :
       {"", "float", "f3", "Float32", "float32 ", "<", "<f", "<<f4", "S8",
        "f16", "U4", "M8", "<V2", "O", "?1", "<?1", "i16", "c4", "b2"}) {
    EXPECT_STATUS(DType::FromName(name), kInvalidArgument,
                  "float8_e4m3fn, float8_e5m2");
  }
  for (const char* name : {">f4", ">i2", ">c16"}) {
    EXPECT_STATUS(DType::FromName(name), kInvalidArgument, "big-endian");
  }
  const std::string with_null("float32\0", 8);
  EXPECT_STATUS(DType::FromName(with_null), kInvalidArgument, "does not exist");
}

TEST(DTypeTest, DLPackCodesOutsideAreRefused) {
  EXPECT_STATUS(DType::FromDLPack(2, 32, 2), kInvalidArgument, "lanes 2");
  EXPECT_STATUS(DType::FromDLPack(2, 32, 2), kInvalidArgument, "a vector");
  EXPECT_STATUS(DType::FromDLPack(2, 32, 0), kInvalidArgument,
                "lanes 0) has no element: lanes has to be 1");
  EXPECT_STATUS(DType::FromDLPack(1, 4), kInvalidArgument,
                "smaller than a byte");
  EXPECT_STATUS(DType::FromDLPack(17, 4), kInvalidArgument, "code 17, bits 4");
  int known = 0;
  for (int code = 0; code < 256; ++code) {
    for (int bits = 0; bits < 256; ++bits) {
      const auto t = DType::FromDLPack(static_cast<uint8_t>(code),
                                       static_cast<uint8_t>(bits));
      if (!t.ok()) continue;
      ++known;
      EXPECT_EQ(t->dlpack_code(), code);
      EXPECT_EQ(t->dlpack_bits(), bits);
    }
  }
  EXPECT_EQ(known, 17);
}

TEST(DTypeTest, KindsAndSizes) {
  EXPECT_EQ(kBool.kind(), DTypeKind::kBool);
  EXPECT_EQ(kInt16.kind(), DTypeKind::kSigned);
  EXPECT_EQ(kUInt64.kind(), DTypeKind::kUnsigned);
  EXPECT_EQ(kBFloat16.kind(), DTypeKind::kFloat);
  EXPECT_EQ(kFloat8E5M2.kind(), DTypeKind::kFloat8);
  EXPECT_EQ(kFloat8E4M3FN.kind(), DTypeKind::kFloat8);
  EXPECT_EQ(kComplex64.kind(), DTypeKind::kComplex);
  EXPECT_TRUE(kFloat8E5M2.is_floating());
  EXPECT_FALSE(kComplex128.is_floating());
  EXPECT_TRUE(kUInt8.is_integer());
  EXPECT_FALSE(kBool.is_integer());
  EXPECT_EQ(kComplex128.size(), 16u);
  static_assert(DTypeOf<float>() == kFloat32);
  static_assert(DTypeOf<const int64_t>() == kInt64);
  static_assert(DTypeOf<unsigned char>() == kUInt8);
  static_assert(DTypeOf<bool>() == kBool);
  static_assert(DTypeOf<std::complex<double>>() == kComplex128);
  std::ostringstream text;
  text << kBFloat16;
  EXPECT_EQ(text.str(), "bfloat16");
}

// ---- Promotion -------------------------------------------------------------

// NumPy with ml_dtypes does not promote these pairs. devrt treats bfloat16 as
// float16, and promotes the two together to float32.
DType InsteadOfNumPy(DType a, DType b) {
  if (a == kFloat16 || b == kFloat16) return kFloat32;
  return Must(PromoteTypes(a == kBFloat16 ? kFloat16 : a,
                           b == kBFloat16 ? kFloat16 : b));
}

TEST(PromotionTest, EqualsNumPysTable) {
  const std::vector<DType> columns = TableColumns();
  ASSERT_EQ(columns.size(), 17u);
  int compared = 0;
  for (const Promotion& row : kPromotions) {
    const DType a = Must(DType::FromName(row.dtype));
    const std::vector<std::string> results = Words(row.results);
    ASSERT_EQ(results.size(), columns.size());
    for (size_t k = 0; k < columns.size(); ++k) {
      const DType b = columns[k];
      const auto result = PromoteTypes(a, b);
      const bool storage =
          a.kind() == DTypeKind::kFloat8 || b.kind() == DTypeKind::kFloat8;
      if (storage && a != b) {
        EXPECT_STATUS(result, kInvalidArgument, "Cast it to float32 first");
      } else if (results[k] == "-") {
        EXPECT_TRUE(a == kBFloat16 || b == kBFloat16) << a << " " << b;
        EXPECT_EQ(Must(result), InsteadOfNumPy(a, b)) << a << " " << b;
      } else {
        EXPECT_EQ(Must(result).name(), results[k]) << a << " " << b;
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 200);
}

TEST(PromotionTest, WithScalarsEqualsNumPysTable) {
  const DTypeKind kinds[] = {DTypeKind::kBool, DTypeKind::kSigned,
                             DTypeKind::kFloat, DTypeKind::kComplex};
  for (const Promotion& row : kWeakPromotions) {
    const DType t = Must(DType::FromName(row.dtype));
    const std::vector<std::string> results = Words(row.results);
    ASSERT_EQ(results.size(), std::size(kinds));
    for (size_t k = 0; k < results.size(); ++k) {
      const auto result = PromoteWithScalar(t, kinds[k]);
      if (t.kind() == DTypeKind::kFloat8) {
        EXPECT_STATUS(result, kInvalidArgument, "Cast it to float32 first");
      } else if (t == kBFloat16 && kinds[k] == DTypeKind::kFloat) {
        // ml_dtypes knows no weak numbers and says float64.
        EXPECT_EQ(Must(result), kBFloat16);
      } else {
        EXPECT_EQ(Must(result).name(), results[k]) << t << " " << k;
      }
    }
    if (t.kind() == DTypeKind::kFloat8) continue;
    EXPECT_EQ(Must(PromoteWithScalar(t, DTypeKind::kUnsigned)),
              Must(PromoteWithScalar(t, DTypeKind::kSigned)));
  }
}

TEST(PromotionTest, IsSymmetricAndHasFixedPoints) {
  for (const DType a : DType::All()) {
    EXPECT_EQ(Must(PromoteTypes(a, a)), a);
    for (const DType b : DType::All()) {
      const auto ab = PromoteTypes(a, b);
      const auto ba = PromoteTypes(b, a);
      ASSERT_EQ(ab.ok(), ba.ok());
      if (!ab.ok()) continue;
      EXPECT_EQ(*ab, *ba);
      EXPECT_EQ(Must(PromoteTypes(*ab, a)), *ab) << a << " " << b;
    }
  }
}

}  // namespace
}  // namespace devrt
