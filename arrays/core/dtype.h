// SPDX-License-Identifier: Apache-2.0
//
// DType: the type of an array's elements.
//
//   devrt::DType t = devrt::kFloat32;
//   t.name();                                  // "float32"
//   t.size();                                  // 4, in bytes
//   DEVRT_ASSIGN_OR_RETURN(t, devrt::DType::FromName("bfloat16"));
//   DEVRT_ASSIGN_OR_RETURN(  // float64
//       t, devrt::PromoteTypes(devrt::kInt32, devrt::kFloat16));
//
// A DType is one of the constants below.  The names are those of NumPy and
// ml_dtypes, the codes those of DLPack, and the type strings those of NumPy's
// array interface, little-endian.
//
// The float8 dtypes are for storage: such arrays can be filled, copied and
// cast, but not computed with.
//
// What it is not: a structured, string or sub-byte type, or a byte order.
// Threads: a DType is a value of four bytes.

#ifndef DEVRT_ARRAYS_CORE_DTYPE_H_
#define DEVRT_ARRAYS_CORE_DTYPE_H_

#include <complex>
#include <cstdint>
#include <iosfwd>
#include <string_view>
#include <type_traits>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "devrt/backends/abi/devrt_tensor.h"
#include "devrt/runtime/export.h"

namespace devrt {

// What kind of number an element is.
enum class DTypeKind : uint8_t {
  kBool,
  kSigned,
  kUnsigned,
  kFloat,   // float16, bfloat16, float32, float64
  kFloat8,  // storage only
  kComplex,
};

// The type of an element.
class DEVRT_EXPORT DType {
 public:
  // Takes "float32", and also NumPy's "f4", "<f4", "=f4", "|u1" and "?".
  // INVALID_ARGUMENT: an unknown name or a foreign byte order; the error lists
  // the names.
  static absl::StatusOr<DType> FromName(std::string_view name);
  // From DLPack's numbers.  INVALID_ARGUMENT: unknown codes, lanes other than
  // 1, sub-byte types.
  static absl::StatusOr<DType> FromDLPack(uint8_t code, uint8_t bits,
                                          uint16_t lanes = 1);

  // "float32": NumPy's name, or that of ml_dtypes.
  const char* name() const;
  uint64_t size() const { return (code_ & 0xff) / 8; }  // bytes
  // The kind, and questions about it:
  DTypeKind kind() const;
  bool is_floating() const {
    return kind() == DTypeKind::kFloat || kind() == DTypeKind::kFloat8;
  }
  bool is_complex() const { return kind() == DTypeKind::kComplex; }
  bool is_integer() const {
    return kind() == DTypeKind::kSigned || kind() == DTypeKind::kUnsigned;
  }
  // "<f4", "|u1".  nullptr for bfloat16 and the float8 dtypes, for which the
  // array interfaces have no type string (F46).
  const char* typestr() const;
  // The numbers of DLPack; lanes are 1:
  uint8_t dlpack_code() const { return static_cast<uint8_t>(code_ >> 8); }
  uint8_t dlpack_bits() const { return static_cast<uint8_t>(code_ & 0xff); }

  // The code by DEVRT_DTYPE of devrt_tensor.h.
  constexpr uint32_t code() const { return code_; }
  // All dtypes, in the order of the constants below.
  static absl::Span<const DType> All();

  friend constexpr bool operator==(DType a, DType b) {
    return a.code_ == b.code_;
  }
  friend constexpr bool operator!=(DType a, DType b) { return !(a == b); }
  template <typename H>
  friend H AbslHashValue(H h, DType t) {
    return H::combine(std::move(h), t.code_);
  }

  // For devrt's own code, which makes the constants.
  struct Key {
    uint32_t code;
  };
  // For devrt's own code.
  constexpr explicit DType(Key key) : code_(key.code) {}

 private:
  uint32_t code_;
};

// All dtypes, by the name of NumPy or of ml_dtypes:
inline constexpr DType kBool{DType::Key{DEVRT_BOOL}};
inline constexpr DType kInt8{DType::Key{DEVRT_INT8}};
inline constexpr DType kInt16{DType::Key{DEVRT_INT16}};
inline constexpr DType kInt32{DType::Key{DEVRT_INT32}};
inline constexpr DType kInt64{DType::Key{DEVRT_INT64}};
inline constexpr DType kUInt8{DType::Key{DEVRT_UINT8}};
inline constexpr DType kUInt16{DType::Key{DEVRT_UINT16}};
inline constexpr DType kUInt32{DType::Key{DEVRT_UINT32}};
inline constexpr DType kUInt64{DType::Key{DEVRT_UINT64}};
inline constexpr DType kFloat16{DType::Key{DEVRT_FLOAT16}};
inline constexpr DType kBFloat16{DType::Key{DEVRT_BFLOAT16}};
inline constexpr DType kFloat32{DType::Key{DEVRT_FLOAT32}};
inline constexpr DType kFloat64{DType::Key{DEVRT_FLOAT64}};
inline constexpr DType kComplex64{DType::Key{DEVRT_COMPLEX64}};
inline constexpr DType kComplex128{DType::Key{DEVRT_COMPLEX128}};
inline constexpr DType kFloat8E4M3FN{DType::Key{DEVRT_FLOAT8_E4M3FN}};
inline constexpr DType kFloat8E5M2{DType::Key{DEVRT_FLOAT8_E5M2}};

// The dtype in which an operation of `a` and `b` is computed, as
// numpy.promote_types gives it.  bfloat16 promotes as float16 does, and the two
// together give float32 (ml_dtypes).  INVALID_ARGUMENT: a float8 dtype with
// another one, because float8 has no arithmetic; cast first.
DEVRT_EXPORT absl::StatusOr<DType> PromoteTypes(DType a, DType b);

// The dtype of a C++ type: DTypeOf<float>() is kFloat32.  For bool, the
// integers, float, double, std::complex<float> and std::complex<double>.
template <typename T>
constexpr DType DTypeOf() {
  using U = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<U, bool>) return kBool;
  if constexpr (std::is_same_v<U, float>) return kFloat32;
  if constexpr (std::is_same_v<U, double>) return kFloat64;
  if constexpr (std::is_same_v<U, std::complex<float>>) return kComplex64;
  if constexpr (std::is_same_v<U, std::complex<double>>) return kComplex128;
  if constexpr (std::is_integral_v<U> && !std::is_same_v<U, bool>) {
    constexpr uint32_t kCode = std::is_signed_v<U> ? 0 : 1;
    return DType(DType::Key{DEVRT_DTYPE(kCode, 8 * sizeof(U))});
  }
}

// Writes the name.
DEVRT_EXPORT std::ostream& operator<<(std::ostream& os, DType dtype);

}  // namespace devrt

#endif  // DEVRT_ARRAYS_CORE_DTYPE_H_
