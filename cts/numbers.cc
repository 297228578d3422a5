// SPDX-License-Identifier: Apache-2.0
#include "cts/numbers.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>

#include "absl/strings/str_cat.h"

namespace devrt::cts {
namespace {

using Kind = Number::Kind;
__extension__ typedef unsigned __int128 Unsigned;

constexpr long double kNan = std::numeric_limits<long double>::quiet_NaN();
constexpr long double kInfinity = std::numeric_limits<long double>::infinity();

uint32_t CodeOf(uint32_t dtype) { return dtype >> 8; }
uint32_t BitsOf(uint32_t dtype) { return dtype & 0xff; }

// A binary float of fewer than 32 bits.
struct Small {
  int exponent_bits, mantissa_bits;
  bool has_infinity;

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  int least() const { return 1 - bias(); }  // exponent of normal numbers
  uint32_t sign() const { return 1u << (exponent_bits + mantissa_bits); }
  // The first code, without the sign, that is no finite number.
  uint32_t end() const {
    const uint32_t top = ((1u << exponent_bits) - 1) << mantissa_bits;
    return has_infinity ? top : top + (1u << mantissa_bits) - 1;
  }
};

Small SmallOf(uint32_t dtype) {
  switch (dtype) {
    case DEVRT_FLOAT16:
      return {5, 10, true};
    case DEVRT_BFLOAT16:
      return {8, 7, true};
    case DEVRT_FLOAT8_E4M3FN:
      return {4, 3, false};
    default:
      return {5, 2, true};
  }
}

long double Magnitude(const Small& f, uint32_t code) {
  const int exponent = static_cast<int>(code >> f.mantissa_bits);
  const auto mantissa =
      static_cast<long double>(code & ((1u << f.mantissa_bits) - 1));
  const long double one = std::ldexp(1.0L, f.mantissa_bits);
  if (exponent == 0) return std::ldexp(mantissa, f.least() - f.mantissa_bits);
  return std::ldexp(one + mantissa, exponent - f.bias() - f.mantissa_bits);
}

long double LoadSmall(const Small& f, uint32_t bits) {
  const uint32_t code = bits & (f.sign() - 1);
  long double value = Magnitude(f, code);
  if (code >= f.end()) {
    value = f.has_infinity && code == f.end() ? kInfinity : kNan;
  }
  return (bits & f.sign()) != 0 ? -value : value;
}

// Rounds to nearest, ties to even, by nearbyint in units of the last place.
uint32_t StoreSmall(const Small& f, long double value) {
  const uint32_t sign = std::signbit(value) ? f.sign() : 0;
  const uint32_t nan = f.sign() - 1;
  if (std::isnan(value)) return sign | nan;
  if (std::isinf(value)) return sign | f.end();
  if (value == 0) return sign;
  const int exponent = std::max(std::ilogb(value), f.least());
  const long double units =
      std::nearbyint(std::ldexp(std::fabs(value), f.mantissa_bits - exponent));
  // If the mantissa overflows to the next power of two, the carry increments
  // the exponent.
  const long double code =
      units + std::ldexp(static_cast<long double>(exponent - f.least()),
                         f.mantissa_bits);
  return sign | (code >= f.end() ? f.end() : static_cast<uint32_t>(code));
}

template <typename T>
T Raw(const uint8_t* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}
template <typename T>
void Put(T value, uint8_t* bytes) {
  std::memcpy(bytes, &value, sizeof value);
}

bool IsTrue(const Number& n) {
  if (n.kind == Kind::kInteger) return n.integer != 0;
  return n.re != 0 || (n.kind == Kind::kComplex && n.im != 0);
}

long double RealOf(const Number& n) {
  return n.kind == Kind::kInteger ? static_cast<long double>(n.integer) : n.re;
}

// Truncates and saturates; NaN gives 0.
Wide ToInteger(long double value, uint32_t bits, bool is_signed) {
  const Wide least = is_signed ? -(Wide{1} << (bits - 1)) : 0;
  const Wide most = (Wide{1} << (is_signed ? bits - 1 : bits)) - 1;
  if (std::isnan(value)) return 0;
  if (value <= static_cast<long double>(least)) return least;
  if (value >= static_cast<long double>(most)) return most;
  return static_cast<Wide>(value);
}

Number Bool(bool value) { return Number::Integer(value ? 1 : 0); }

int Order(const Number& a, const Number& b) {
  if (a.kind == Kind::kInteger) {
    return a.integer < b.integer ? -1 : a.integer > b.integer;
  }
  return a.re < b.re ? -1 : a.re > b.re;
}

Number Compare(uint32_t op, const Number& a, const Number& b) {
  const bool unordered = std::isnan(a.re) || std::isnan(b.re) ||
                         std::isnan(a.im) || std::isnan(b.im);
  const bool equal = !unordered && Order(a, b) == 0 && a.im == b.im;
  switch (op) {
    case DEVRT_OP_EQ:
      return Bool(equal);
    case DEVRT_OP_NE:
      return Bool(!equal);
    case DEVRT_OP_LT:
      return Bool(!unordered && Order(a, b) < 0);
    case DEVRT_OP_LE:
      return Bool(!unordered && Order(a, b) <= 0);
    case DEVRT_OP_GT:
      return Bool(!unordered && Order(a, b) > 0);
    default:
      return Bool(!unordered && Order(a, b) >= 0);
  }
}

Number Logical(uint32_t op, const Number& a, const Number& b) {
  const bool x = IsTrue(a), y = IsTrue(b);
  switch (op) {
    case DEVRT_OP_LOGICAL_NOT:
      return Bool(!x);
    case DEVRT_OP_ABS:
      return Bool(x);
    case DEVRT_OP_ADD:
    case DEVRT_OP_MAXIMUM:
    case DEVRT_OP_LOGICAL_OR:
      return Bool(x || y);
    default:
      return Bool(x && y);
  }
}

Number Whole(uint32_t op, Wide a, Wide b) {
  switch (op) {
    case DEVRT_OP_NEG:
      return Number::Integer(-a);
    case DEVRT_OP_ABS:
      return Number::Integer(a < 0 ? -a : a);
    case DEVRT_OP_ADD:
      return Number::Integer(a + b);
    case DEVRT_OP_SUB:
      return Number::Integer(a - b);
    case DEVRT_OP_MUL:
      return Number::Integer(static_cast<Wide>(static_cast<Unsigned>(a) *
                                               static_cast<Unsigned>(b)));
    case DEVRT_OP_DIV:
      return Number::Integer(b == 0 ? 0 : a / b);
    case DEVRT_OP_MAXIMUM:
      return Number::Integer(std::max(a, b));
    default:
      return Number::Integer(std::min(a, b));
  }
}

double Double(uint32_t op, double a, double b) {
  switch (op) {
    case DEVRT_OP_NEG:
      return -a;
    case DEVRT_OP_ABS:
      return std::fabs(a);
    case DEVRT_OP_ADD:
      return a + b;
    case DEVRT_OP_SUB:
      return a - b;
    case DEVRT_OP_MUL:
      return a * b;
    case DEVRT_OP_DIV:
      return a / b;
    default:
      break;
  }
  if (std::isnan(a) || std::isnan(b)) return static_cast<double>(kNan);
  return op == DEVRT_OP_MAXIMUM ? std::max(a, b) : std::min(a, b);
}

Number Pair(uint32_t op, const Number& a, const Number& b, bool single) {
  switch (op) {
    case DEVRT_OP_NEG:
      return Number::Complex(-a.re, -a.im);
    case DEVRT_OP_ABS:
      return Number::Real(std::hypot(a.re, a.im));
    case DEVRT_OP_MUL:
      return Number::Complex(a.re * b.re - a.im * b.im,
                             a.re * b.im + a.im * b.re);
    case DEVRT_OP_DIV: {
      const long double norm = b.re * b.re + b.im * b.im;
      return Number::Complex((a.re * b.re + a.im * b.im) / norm,
                             (a.im * b.re - a.re * b.im) / norm);
    }
    default:
      break;
  }
  const auto part = [&](long double x, long double y) {
    const double sum =
        Double(op, static_cast<double>(x), static_cast<double>(y));
    return single ? static_cast<long double>(static_cast<float>(sum))
                  : static_cast<long double>(sum);
  };
  return Number::Complex(part(a.re, b.re), part(a.im, b.im));
}

bool Compares(uint32_t op) { return op >= DEVRT_OP_EQ && op <= DEVRT_OP_GE; }
bool IsLogical(uint32_t op) {
  return op == DEVRT_OP_LOGICAL_NOT || op == DEVRT_OP_LOGICAL_AND ||
         op == DEVRT_OP_LOGICAL_OR;
}

bool PartMatches(long double got, long double want, bool zeros,
                 long double tolerance) {
  if (std::isnan(want) || std::isnan(got)) {
    return std::isnan(want) && std::isnan(got);
  }
  if (got == want) {
    return zeros || tolerance > 0 || std::signbit(got) == std::signbit(want);
  }
  return std::isfinite(got) && std::fabs(got - want) <= tolerance;
}

}  // namespace

Number Number::Integer(Wide value) { return {Kind::kInteger, value, 0, 0}; }
Number Number::Real(long double value) { return {Kind::kReal, 0, value, 0}; }
Number Number::Complex(long double re, long double im) {
  return {Kind::kComplex, 0, re, im};
}

const std::vector<uint32_t>& Dtypes() {
  static const auto* const all = new std::vector<uint32_t>{
      DEVRT_BOOL,       DEVRT_INT8,      DEVRT_INT16,      DEVRT_INT32,
      DEVRT_INT64,      DEVRT_UINT8,     DEVRT_UINT16,     DEVRT_UINT32,
      DEVRT_UINT64,     DEVRT_FLOAT16,   DEVRT_BFLOAT16,   DEVRT_FLOAT32,
      DEVRT_FLOAT64,    DEVRT_COMPLEX64, DEVRT_COMPLEX128, DEVRT_FLOAT8_E4M3FN,
      DEVRT_FLOAT8_E5M2};
  return *all;
}

const std::vector<uint32_t>& Ops() {
  static const auto* const all = new std::vector<uint32_t>{
      DEVRT_OP_COPY,        DEVRT_OP_NEG,     DEVRT_OP_ABS,
      DEVRT_OP_LOGICAL_NOT, DEVRT_OP_ADD,     DEVRT_OP_SUB,
      DEVRT_OP_MUL,         DEVRT_OP_DIV,     DEVRT_OP_EQ,
      DEVRT_OP_NE,          DEVRT_OP_LT,      DEVRT_OP_LE,
      DEVRT_OP_GT,          DEVRT_OP_GE,      DEVRT_OP_LOGICAL_AND,
      DEVRT_OP_LOGICAL_OR,  DEVRT_OP_MAXIMUM, DEVRT_OP_MINIMUM,
      DEVRT_OP_WHERE};
  return *all;
}

std::string OpName(uint32_t op) {
  if (op == DEVRT_OP_COPY) return "COPY";
  if (op == DEVRT_OP_WHERE) return "WHERE";
  return absl::StrCat("operation ", op);
}

std::string DtypeName(uint32_t dtype) {
  if (dtype == DEVRT_BOOL) return "bool";
  if (dtype == DEVRT_FLOAT8_E4M3FN) return "float8_e4m3fn";
  if (dtype == DEVRT_FLOAT8_E5M2) return "float8_e5m2";
  constexpr const char* kWords[] = {"int",  "uint",   "float",
                                    "code", "bfloat", "complex"};
  const uint32_t code = CodeOf(dtype);
  return absl::StrCat(code < std::size(kWords) ? kWords[code] : "code",
                      BitsOf(dtype));
}

size_t SizeOf(uint32_t dtype) { return BitsOf(dtype) / 8; }
bool IsInteger(uint32_t dtype) { return CodeOf(dtype) < 2; }
bool IsComplex(uint32_t dtype) { return CodeOf(dtype) == 5; }
bool IsFloat8(uint32_t dtype) { return CodeOf(dtype) > 6; }
bool IsReal(uint32_t dtype) {
  return CodeOf(dtype) == 2 || CodeOf(dtype) == 4 || IsFloat8(dtype);
}

Number Load(uint32_t dtype, const uint8_t* element) {
  switch (dtype) {
    case DEVRT_BOOL:
      return Bool(element[0] != 0);
    case DEVRT_INT8:
      return Number::Integer(Raw<int8_t>(element));
    case DEVRT_INT16:
      return Number::Integer(Raw<int16_t>(element));
    case DEVRT_INT32:
      return Number::Integer(Raw<int32_t>(element));
    case DEVRT_INT64:
      return Number::Integer(Raw<int64_t>(element));
    case DEVRT_UINT64:
      return Number::Integer(Raw<uint64_t>(element));
    case DEVRT_FLOAT32:
      return Number::Real(Raw<float>(element));
    case DEVRT_FLOAT64:
      return Number::Real(Raw<double>(element));
    case DEVRT_COMPLEX64:
      return Number::Complex(Raw<float>(element), Raw<float>(element + 4));
    case DEVRT_COMPLEX128:
      return Number::Complex(Raw<double>(element), Raw<double>(element + 8));
    default:
      break;
  }
  uint32_t bits = 0;
  std::memcpy(&bits, element, SizeOf(dtype));
  if (IsInteger(dtype)) return Number::Integer(bits);
  return Number::Real(LoadSmall(SmallOf(dtype), bits));
}

void Store(uint32_t dtype, const Number& number, uint8_t* element) {
  switch (dtype) {
    case DEVRT_BOOL:
      return Put(static_cast<uint8_t>(IsTrue(number)), element);
    case DEVRT_FLOAT32:
      return Put(static_cast<float>(RealOf(number)), element);
    case DEVRT_FLOAT64:
      return Put(static_cast<double>(RealOf(number)), element);
    case DEVRT_COMPLEX64:
      Put(static_cast<float>(number.im), element + 4);
      return Put(static_cast<float>(RealOf(number)), element);
    case DEVRT_COMPLEX128:
      Put(static_cast<double>(number.im), element + 8);
      return Put(static_cast<double>(RealOf(number)), element);
    default:
      break;
  }
  if (IsReal(dtype)) {
    const uint32_t bits = StoreSmall(SmallOf(dtype), RealOf(number));
    std::memcpy(element, &bits, SizeOf(dtype));
    return;
  }
  const Wide value =
      number.kind == Kind::kInteger
          ? number.integer
          : ToInteger(number.re, BitsOf(dtype), CodeOf(dtype) == 0);
  const auto low = static_cast<uint64_t>(value);
  std::memcpy(element, &low, SizeOf(dtype));
}

uint32_t InputsOf(uint32_t op) {
  if (op == DEVRT_OP_WHERE) return 3;
  return op <= DEVRT_OP_LOGICAL_NOT ? 1 : 2;
}

bool HasOp(uint32_t op, uint32_t dtype) {
  if (op == DEVRT_OP_COPY) return true;
  if (IsFloat8(dtype)) return false;
  const bool is_bool = dtype == DEVRT_BOOL;
  switch (op) {
    case DEVRT_OP_NEG:
    case DEVRT_OP_SUB:
    case DEVRT_OP_DIV:
      return !is_bool;
    case DEVRT_OP_LOGICAL_AND:
    case DEVRT_OP_LOGICAL_OR:
      return is_bool;
    case DEVRT_OP_LT:
    case DEVRT_OP_LE:
    case DEVRT_OP_GT:
    case DEVRT_OP_GE:
    case DEVRT_OP_MAXIMUM:
    case DEVRT_OP_MINIMUM:
      return !IsComplex(dtype);
    default:
      return true;
  }
}

uint32_t OutputOf(uint32_t op, uint32_t dtype) {
  if (Compares(op) || IsLogical(op)) return DEVRT_BOOL;
  if (op == DEVRT_OP_ABS && dtype == DEVRT_COMPLEX64) return DEVRT_FLOAT32;
  if (op == DEVRT_OP_ABS && dtype == DEVRT_COMPLEX128) return DEVRT_FLOAT64;
  return dtype;
}

Number Compute(uint32_t op, uint32_t dtype, const Number& a, const Number& b) {
  if (Compares(op)) return Compare(op, a, b);
  if (IsLogical(op) || dtype == DEVRT_BOOL) return Logical(op, a, b);
  if (IsInteger(dtype)) return Whole(op, a.integer, b.integer);
  if (IsComplex(dtype)) return Pair(op, a, b, dtype == DEVRT_COMPLEX64);
  // Double precision is wide enough that rounding its result to float gives
  // the correctly rounded float.
  const double result =
      Double(op, static_cast<double>(a.re), static_cast<double>(b.re));
  if (dtype == DEVRT_FLOAT64) return Number::Real(result);
  return Number::Real(static_cast<float>(result));
}

bool Matches(uint32_t dtype, const uint8_t* got, const uint8_t* want,
             bool zeros, long double tolerance) {
  if (std::memcmp(got, want, SizeOf(dtype)) == 0) return true;
  if (!IsReal(dtype) && !IsComplex(dtype)) return false;
  const Number x = Load(dtype, got), y = Load(dtype, want);
  return PartMatches(x.re, y.re, zeros, tolerance) &&
         PartMatches(x.im, y.im, zeros, tolerance);
}

long double EpsilonOf(uint32_t dtype) {
  switch (dtype) {
    case DEVRT_FLOAT16:
      return std::ldexp(1.0L, -10);
    case DEVRT_BFLOAT16:
      return std::ldexp(1.0L, -7);
    case DEVRT_FLOAT32:
    case DEVRT_COMPLEX64:
      return std::numeric_limits<float>::epsilon();
    case DEVRT_FLOAT64:
    case DEVRT_COMPLEX128:
      return std::numeric_limits<double>::epsilon();
    default:
      return 0;
  }
}

std::string TextOf(uint32_t dtype, const uint8_t* element) {
  const Number n = Load(dtype, element);
  std::string text = absl::StrCat(static_cast<double>(RealOf(n)));
  if (n.kind == Kind::kComplex) {
    absl::StrAppend(&text, ", ", static_cast<double>(n.im));
  }
  absl::StrAppend(&text, " [");
  for (size_t i = SizeOf(dtype); i-- > 0;) {
    absl::StrAppend(&text, absl::Hex(element[i], absl::kZeroPad2));
  }
  return text + "]";
}

}  // namespace devrt::cts
