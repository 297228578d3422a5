// SPDX-License-Identifier: Apache-2.0
#include "devrt/arrays/dtype.h"

#include <algorithm>
#include <cstddef>
#include <ostream>
#include <string>

#include "absl/base/optimization.h"
#include "absl/strings/str_cat.h"
#include "runtime/common/text.h"

namespace devrt {
namespace {

struct Row {
  DType dtype;
  DTypeKind kind;
  const char* name;
  const char* typestr;  // nullptr if NumPy has none
};

constexpr Row kRows[] = {
    {kBool, DTypeKind::kBool, "bool", "|b1"},
    {kInt8, DTypeKind::kSigned, "int8", "|i1"},
    {kInt16, DTypeKind::kSigned, "int16", "<i2"},
    {kInt32, DTypeKind::kSigned, "int32", "<i4"},
    {kInt64, DTypeKind::kSigned, "int64", "<i8"},
    {kUInt8, DTypeKind::kUnsigned, "uint8", "|u1"},
    {kUInt16, DTypeKind::kUnsigned, "uint16", "<u2"},
    {kUInt32, DTypeKind::kUnsigned, "uint32", "<u4"},
    {kUInt64, DTypeKind::kUnsigned, "uint64", "<u8"},
    {kFloat16, DTypeKind::kFloat, "float16", "<f2"},
    {kBFloat16, DTypeKind::kFloat, "bfloat16", nullptr},
    {kFloat32, DTypeKind::kFloat, "float32", "<f4"},
    {kFloat64, DTypeKind::kFloat, "float64", "<f8"},
    {kComplex64, DTypeKind::kComplex, "complex64", "<c8"},
    {kComplex128, DTypeKind::kComplex, "complex128", "<c16"},
    {kFloat8E4M3FN, DTypeKind::kFloat8, "float8_e4m3fn", nullptr},
    {kFloat8E5M2, DTypeKind::kFloat8, "float8_e5m2", nullptr},
};

constexpr DType kAll[] = {
    kBool,    kInt8,      kInt16,      kInt32,        kInt64,      kUInt8,
    kUInt16,  kUInt32,    kUInt64,     kFloat16,      kBFloat16,   kFloat32,
    kFloat64, kComplex64, kComplex128, kFloat8E4M3FN, kFloat8E5M2,
};
static_assert(std::size(kAll) == std::size(kRows));

// The row of each DLPack type code and size, counted from 1; 0: none.
struct Numbers {
  static constexpr uint32_t kCodes = 24;
  static constexpr uint32_t kBytes = 32;

  constexpr Numbers() {
    for (size_t i = 0; i < std::size(kRows); ++i) {
      const uint32_t code = kRows[i].dtype.code();
      of[code >> 8][(code & 0xff) / 8] = static_cast<uint8_t>(i + 1);
    }
  }

  uint8_t of[kCodes][kBytes] = {};
};

// `code`: DEVRT_DTYPE of whole bytes.
const Row* FindRow(uint32_t code) {
  static constexpr Numbers kNumbers;
  const uint32_t type = code >> 8;
  const uint8_t number =
      type < Numbers::kCodes ? kNumbers.of[type][(code & 0xff) / 8] : 0;
  return number != 0 ? &kRows[number - 1] : nullptr;
}

const Row& RowOf(DType dtype) { return *FindRow(dtype.code()); }

std::string Names() {
  std::string names;
  for (const Row& row : kRows) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", row.name);
  }
  return names;
}

// A type string of NumPy has a byte order, by default '=', a letter and a size;
// '?'  is bool.
const Row* FindTypestr(std::string_view text) {
  if (text == "?") return &RowOf(kBool);
  for (const Row& row : kRows) {
    if (row.typestr != nullptr && text == row.typestr + 1) return &row;
  }
  return nullptr;
}

constexpr std::string_view kByteOrders = "<>=|";

bool IsForeignOrder(std::string_view name) {
  return name.size() > 1 && name[0] == '>' &&
         FindTypestr(name.substr(1)) != nullptr;
}

// ---- Promotion --------------------------------------------------------------

DType FloatOfSize(uint64_t bytes) {
  return bytes <= 2 ? kFloat16 : bytes == 4 ? kFloat32 : kFloat64;
}

DType SignedOfSize(uint64_t bytes) {
  return bytes == 1   ? kInt8
         : bytes == 2 ? kInt16
         : bytes == 4 ? kInt32
                      : kInt64;
}

// The bytes of the real float that promotion needs for `t`.
uint64_t FloatBytes(DType t) {
  switch (t.kind()) {
    case DTypeKind::kBool:
      return 2;
    case DTypeKind::kSigned:
    case DTypeKind::kUnsigned:
      return std::min<uint64_t>(8, 2 * t.size());
    case DTypeKind::kComplex:
      return t.size() / 2;
    case DTypeKind::kFloat:
    case DTypeKind::kFloat8:
      break;
  }
  return t.size();
}

DType PromoteIntegers(DType a, DType b) {
  if (a.kind() == b.kind()) return a.size() >= b.size() ? a : b;
  const DType is_signed = a.kind() == DTypeKind::kSigned ? a : b;
  const DType is_unsigned = a.kind() == DTypeKind::kSigned ? b : a;
  if (is_signed.size() > is_unsigned.size()) return is_signed;
  if (is_unsigned.size() == 8) return kFloat64;
  return SignedOfSize(2 * is_unsigned.size());
}

DType PromoteToFloat(DType a, DType b) {
  const uint64_t bytes = std::max(FloatBytes(a), FloatBytes(b));
  if (a.is_complex() || b.is_complex()) {
    return bytes == 8 ? kComplex128 : kComplex64;
  }
  if (bytes > 2) return FloatOfSize(bytes);
  const bool bfloat = a == kBFloat16 || b == kBFloat16;
  if (!bfloat) return kFloat16;
  return a == kFloat16 || b == kFloat16 ? kFloat32 : kBFloat16;
}

}  // namespace

absl::StatusOr<DType> DType::FromName(std::string_view name) {
  for (const Row& row : kRows) {
    if (name == row.name) return row.dtype;
  }
  if (IsForeignOrder(name) && name.back() != '1') {
    return absl::InvalidArgumentError(absl::StrCat(
        "dtype ", internal::Quoted(name),
        " is big-endian: devrt's arrays are little-endian; swap the bytes "
        "first, in NumPy with x.astype(x.dtype.newbyteorder('<'))"));
  }
  std::string_view rest = name;
  if (rest.size() > 1 && kByteOrders.find(rest[0]) != kByteOrders.npos) {
    rest.remove_prefix(1);
  }
  if (const Row* row = FindTypestr(rest)) return row->dtype;
  return absl::InvalidArgumentError(absl::StrCat(
      "dtype ", internal::Quoted(name), " does not exist: the dtypes are ",
      Names(), ", or NumPy's type strings of them, like '<f4'"));
}

absl::StatusOr<DType> DType::FromDLPack(uint8_t code, uint8_t bits,
                                        uint16_t lanes) {
  if (ABSL_PREDICT_TRUE(lanes == 1 && bits % 8 == 0)) {
    if (const Row* row = FindRow(DEVRT_DTYPE(code, bits))) return row->dtype;
  }
  const std::string what = absl::StrCat("DLPack dtype (code ", code, ", bits ",
                                        bits, ", lanes ", lanes, ")");
  if (lanes == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " has no element: lanes has to be 1"));
  }
  if (lanes != 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        what, " is a vector: only 1 lane can be taken; add an axis instead"));
  }
  if (bits % 8 != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(what,
                     " is smaller than a byte or no multiple of one: "
                     "devrt's dtypes are whole bytes; unpack it first"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(what, " is none of devrt's dtypes: ", Names()));
}

const char* DType::name() const { return RowOf(*this).name; }

const char* DType::typestr() const { return RowOf(*this).typestr; }

DTypeKind DType::kind() const {
  switch (dlpack_code()) {
    case 0:
      return DTypeKind::kSigned;
    case 1:
      return DTypeKind::kUnsigned;
    case 2:
    case 4:
      return DTypeKind::kFloat;
    case 5:
      return DTypeKind::kComplex;
    case 6:
      return DTypeKind::kBool;
    default:
      return DTypeKind::kFloat8;
  }
}

absl::Span<const DType> DType::All() { return kAll; }

absl::StatusOr<DType> PromoteTypes(DType a, DType b) {
  if (a == b) return a;
  for (const DType t : {a, b}) {
    if (t.kind() != DTypeKind::kFloat8) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        t.name(), " is storage and has no arithmetic, here of ", a.name(),
        " and ", b.name(), ": Cast it to float32 first"));
  }
  if (a == kBool) return b;
  if (b == kBool) return a;
  if (a.is_integer() && b.is_integer()) return PromoteIntegers(a, b);
  return PromoteToFloat(a, b);
}

std::ostream& operator<<(std::ostream& os, DType dtype) {
  return os << dtype.name();
}

}  // namespace devrt
