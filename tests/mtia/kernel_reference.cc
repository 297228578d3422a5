// SPDX-License-Identifier: Apache-2.0

#include "tests/mtia/kernel_reference.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <sstream>

#include "devrt/backends/abi/devrt_tensor.h"

namespace devrt::mtia::reference {

const std::vector<uint32_t> kDtypes = {
    DEVRT_BOOL,       DEVRT_INT8,      DEVRT_INT16,      DEVRT_INT32,
    DEVRT_INT64,      DEVRT_UINT8,     DEVRT_UINT16,     DEVRT_UINT32,
    DEVRT_UINT64,     DEVRT_FLOAT16,   DEVRT_FLOAT32,    DEVRT_FLOAT64,
    DEVRT_BFLOAT16,   DEVRT_COMPLEX64, DEVRT_COMPLEX128, DEVRT_FLOAT8_E4M3FN,
    DEVRT_FLOAT8_E5M2};

namespace {

uint32_t Code(uint32_t dtype) { return dtype >> 8; }
uint32_t Bits(uint32_t dtype) { return dtype & 0xff; }
bool IsSigned(uint32_t dtype) { return Code(dtype) == 0; }

struct Format {
  int exponent_bits;
  int mantissa_bits;
  bool infinity;
};

Format FormatOf(uint32_t dtype) {
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

// The value of exponent and mantissa fields if no value were special.
double PlainValue(const Format& format, uint32_t bits) {
  const int bias = (1 << (format.exponent_bits - 1)) - 1;
  const int exponent = static_cast<int>(bits >> format.mantissa_bits);
  const int mantissa =
      static_cast<int>(bits) & ((1 << format.mantissa_bits) - 1);
  const int implicit = exponent == 0 ? 0 : 1 << format.mantissa_bits;
  return std::ldexp(mantissa + implicit,
                    std::max(exponent, 1) - bias - format.mantissa_bits);
}

uint32_t LargestFinite(const Format& format) {
  const uint32_t top = 1u << (format.exponent_bits + format.mantissa_bits);
  return format.infinity ? top - (1u << format.mantissa_bits) - 1 : top - 2;
}

uint32_t NanBits(const Format& format) {
  return (1u << (format.exponent_bits + format.mantissa_bits)) - 1;
}

template <typename T>
T Get(const Element& element, size_t offset = 0) {
  T value;
  std::memcpy(&value, element.data() + offset, sizeof value);
  return value;
}

template <typename T>
void Put(T value, Element* element, size_t offset = 0) {
  std::memcpy(element->data() + offset, &value, sizeof value);
}

Value Real(double re) {
  Value value;
  value.kind = Value::kReal;
  value.re = re;
  return value;
}

Value Complex(double re, double im) {
  Value value = Real(re);
  value.kind = Value::kComplex;
  value.im = im;
  return value;
}

Value Integer(uint64_t integer, bool is_signed) {
  Value value;
  value.integer = integer;
  value.is_signed = is_signed;
  return value;
}

uint64_t SignExtend(uint64_t value, uint32_t bits) {
  if (bits == 64 || (value >> (bits - 1) & 1) == 0) return value;
  return value | ~uint64_t{0} << bits;
}

long double ToLongDouble(const Value& value) {
  if (value.kind != Value::kInteger) return value.re;
  if (!value.is_signed) return static_cast<long double>(value.integer);
  return static_cast<long double>(static_cast<int64_t>(value.integer));
}

bool ToBool(const Value& value) {
  if (value.kind == Value::kInteger) return value.integer != 0;
  return value.re != 0 || value.im != 0;
}

// Truncated and saturated to an integer of `bits`, NaN 0.
uint64_t ToInteger(double value, uint32_t bits, bool is_signed) {
  if (std::isnan(value)) return 0;
  const int digits = static_cast<int>(bits) - (is_signed ? 1 : 0);
  const long double end = std::ldexp(1.0L, digits);
  const long double low = is_signed ? -end : 0;
  const long double whole = std::trunc(static_cast<long double>(value));
  if (whole >= end) return ~uint64_t{0} >> (64 - digits);
  if (whole <= low) return is_signed ? ~uint64_t{0} << digits : 0;
  return is_signed ? static_cast<uint64_t>(static_cast<int64_t>(whole))
                   : static_cast<uint64_t>(whole);
}

template <typename T>
T Arithmetic(uint32_t op, T a, T b) {
  switch (op) {
    case DEVRT_OP_NEG:
      return -a;
    case DEVRT_OP_ABS:
      return std::signbit(a) ? -a : a;
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
  if (std::isnan(a) || std::isnan(b)) {
    return std::numeric_limits<T>::quiet_NaN();
  }
  return op == DEVRT_OP_MAXIMUM ? std::max(a, b) : std::min(a, b);
}

uint64_t DivideIntegers(uint64_t a, uint64_t b, bool is_signed) {
  if (b == 0) return 0;
  if (!is_signed) return a / b;
  const bool negative = (a >> 63) != (b >> 63);
  const uint64_t quotient =
      ((a >> 63) != 0 ? 0 - a : a) / ((b >> 63) != 0 ? 0 - b : b);
  return negative ? 0 - quotient : quotient;
}

bool LessInteger(const Value& a, const Value& b) {
  return a.is_signed
             ? static_cast<int64_t>(a.integer) < static_cast<int64_t>(b.integer)
             : a.integer < b.integer;
}

Value ApplyInteger(uint32_t op, const Value& a, const Value& b) {
  const auto result = [&a](uint64_t x) { return Integer(x, a.is_signed); };
  switch (op) {
    case DEVRT_OP_NEG:
      return result(0 - a.integer);
    case DEVRT_OP_ABS:
      return a.is_signed && (a.integer >> 63) != 0 ? result(0 - a.integer) : a;
    case DEVRT_OP_ADD:
      return result(a.integer + b.integer);
    case DEVRT_OP_SUB:
      return result(a.integer - b.integer);
    case DEVRT_OP_MUL:
      return result(a.integer * b.integer);
    case DEVRT_OP_DIV:
      return result(DivideIntegers(a.integer, b.integer, a.is_signed));
    case DEVRT_OP_MAXIMUM:
      return LessInteger(a, b) ? b : a;
    default:
      return LessInteger(a, b) ? a : b;
  }
}

Value ApplyComplex(uint32_t op, const Value& a, const Value& b) {
  const long double ar = a.re, ai = a.im, br = b.re, bi = b.im;
  const auto result = [](long double re, long double im) {
    return Complex(static_cast<double>(re), static_cast<double>(im));
  };
  switch (op) {
    case DEVRT_OP_NEG:
      return Complex(-a.re, -a.im);
    case DEVRT_OP_ABS:
      return Real(static_cast<double>(std::sqrt(ar * ar + ai * ai)));
    case DEVRT_OP_ADD:
      return Complex(a.re + b.re, a.im + b.im);
    case DEVRT_OP_SUB:
      return Complex(a.re - b.re, a.im - b.im);
    case DEVRT_OP_MUL:
      return result(ar * br - ai * bi, ar * bi + ai * br);
    default: {
      const long double d = br * br + bi * bi;
      return result((ar * br + ai * bi) / d, (ai * br - ar * bi) / d);
    }
  }
}

bool Compare(uint32_t op, const Value& a, const Value& b) {
  const bool integers = a.kind == Value::kInteger;
  const bool less = integers ? LessInteger(a, b) : a.re < b.re;
  const bool equal =
      integers ? a.integer == b.integer : a.re == b.re && a.im == b.im;
  const bool ordered = integers || !(std::isnan(a.re) || std::isnan(b.re));
  switch (op) {
    case DEVRT_OP_LOGICAL_NOT:
      return !ToBool(a);
    case DEVRT_OP_LOGICAL_AND:
      return ToBool(a) && ToBool(b);
    case DEVRT_OP_LOGICAL_OR:
      return ToBool(a) || ToBool(b);
    case DEVRT_OP_EQ:
      return equal;
    case DEVRT_OP_NE:
      return !equal;
    case DEVRT_OP_LT:
      return less;
    case DEVRT_OP_LE:
      return less || equal;
    case DEVRT_OP_GT:
      return ordered && !less && !equal;
    default:
      return ordered && !less;
  }
}

Value ApplyBool(uint32_t op, const Value& a, const Value& b) {
  const bool both = ToBool(a) && ToBool(b);
  const bool either = ToBool(a) || ToBool(b);
  if (op == DEVRT_OP_ABS) return a;
  const bool is_or = op == DEVRT_OP_ADD || op == DEVRT_OP_MAXIMUM;
  return Integer(is_or ? either : both, false);
}

bool MatchesPart(Match match, double got, double want, double tolerance) {
  if (std::isnan(want) || std::isnan(got)) {
    return std::isnan(want) && std::isnan(got);
  }
  if (got == want) {
    return match != Match::kFloat || std::signbit(got) == std::signbit(want);
  }
  return match == Match::kRounded && std::fabs(got - want) <= tolerance;
}

}  // namespace

size_t Size(uint32_t dtype) { return Bits(dtype) / 8; }
bool IsBool(uint32_t dtype) { return dtype == DEVRT_BOOL; }
bool IsInteger(uint32_t dtype) { return Code(dtype) < 2; }
bool IsFloat8(uint32_t dtype) { return Code(dtype) >= 7; }
bool IsComplex(uint32_t dtype) { return Code(dtype) == 5; }
bool IsFloat(uint32_t dtype) {
  return Code(dtype) == 2 || Code(dtype) == 4 || IsFloat8(dtype);
}

double DecodeFloat(uint32_t dtype, uint32_t bits) {
  const Format format = FormatOf(dtype);
  const uint32_t sign = 1u << (format.exponent_bits + format.mantissa_bits);
  const uint32_t magnitude = bits & (sign - 1);
  const uint32_t largest = LargestFinite(format);
  double value = PlainValue(format, magnitude);
  if (magnitude > largest) {
    const bool infinite = format.infinity && magnitude == largest + 1;
    value = infinite ? std::numeric_limits<double>::infinity()
                     : std::numeric_limits<double>::quiet_NaN();
  }
  return (bits & sign) != 0 ? -value : value;
}

uint32_t EncodeFloat(uint32_t dtype, long double value, bool negative) {
  const Format format = FormatOf(dtype);
  const uint32_t sign =
      negative ? 1u << (format.exponent_bits + format.mantissa_bits) : 0;
  if (std::isnan(value)) return sign | NanBits(format);
  const long double magnitude = std::fabs(value);
  const uint32_t beyond = LargestFinite(format) + 1;  // infinity, or NaN
  uint32_t low = 0;  // the last code that is not above the value
  for (uint32_t step = 1u << 15; step > 0; step /= 2) {
    if (low + step <= beyond && PlainValue(format, low + step) <= magnitude) {
      low += step;
    }
  }
  if (low == beyond) return sign | beyond;
  const long double middle =
      (static_cast<long double>(PlainValue(format, low)) +
       static_cast<long double>(PlainValue(format, low + 1))) /
      2;
  const bool up = magnitude > middle || (magnitude == middle && low % 2 == 1);
  return sign | (up ? low + 1 : low);
}

Value Decode(uint32_t dtype, const Element& element) {
  const uint32_t bits = Bits(dtype);
  switch (dtype) {
    case DEVRT_FLOAT32:
      return Real(Get<float>(element));
    case DEVRT_FLOAT64:
      return Real(Get<double>(element));
    case DEVRT_COMPLEX64:
      return Complex(Get<float>(element), Get<float>(element, 4));
    case DEVRT_COMPLEX128:
      return Complex(Get<double>(element), Get<double>(element, 8));
    case DEVRT_BOOL:
      return Integer(Get<uint8_t>(element) != 0, false);
    default:
      break;
  }
  uint64_t raw = 0;
  std::memcpy(&raw, element.data(), bits / 8);
  if (IsFloat(dtype)) {
    return Real(DecodeFloat(dtype, static_cast<uint32_t>(raw)));
  }
  return IsSigned(dtype) ? Integer(SignExtend(raw, bits), true)
                         : Integer(raw, false);
}

Element Encode(uint32_t dtype, const Value& value) {
  Element element{};
  const long double number = ToLongDouble(value);
  switch (dtype) {
    case DEVRT_FLOAT32:
      Put(static_cast<float>(number), &element);
      return element;
    case DEVRT_FLOAT64:
      Put(static_cast<double>(number), &element);
      return element;
    case DEVRT_COMPLEX64:
      Put(static_cast<float>(number), &element);
      Put(static_cast<float>(value.im), &element, 4);
      return element;
    case DEVRT_COMPLEX128:
      Put(static_cast<double>(number), &element);
      Put(value.im, &element, 8);
      return element;
    case DEVRT_BOOL:
      Put(static_cast<uint8_t>(ToBool(value)), &element);
      return element;
    default:
      break;
  }
  uint64_t raw = value.integer;
  if (IsFloat(dtype)) {
    raw = EncodeFloat(dtype, number, std::signbit(number));
  } else if (value.kind != Value::kInteger) {
    raw = ToInteger(value.re, Bits(dtype), IsSigned(dtype));
  }
  std::memcpy(element.data(), &raw, Size(dtype));
  return element;
}

bool Supports(uint32_t op, uint32_t dtype) {
  if (op == DEVRT_OP_COPY) return true;
  if (IsFloat8(dtype)) return false;
  switch (op) {
    case DEVRT_OP_NEG:
    case DEVRT_OP_SUB:
    case DEVRT_OP_DIV:
      return !IsBool(dtype);
    case DEVRT_OP_LT:
    case DEVRT_OP_LE:
    case DEVRT_OP_GT:
    case DEVRT_OP_GE:
    case DEVRT_OP_MAXIMUM:
    case DEVRT_OP_MINIMUM:
      return !IsComplex(dtype);
    case DEVRT_OP_LOGICAL_AND:
    case DEVRT_OP_LOGICAL_OR:
      return IsBool(dtype);
    default:
      return true;
  }
}

uint32_t OutputDtype(uint32_t op, uint32_t dtype) {
  const bool compares = op >= DEVRT_OP_EQ && op <= DEVRT_OP_LOGICAL_OR;
  if (compares || op == DEVRT_OP_LOGICAL_NOT) return DEVRT_BOOL;
  if (op == DEVRT_OP_ABS && IsComplex(dtype)) {
    return DEVRT_DTYPE(2, Bits(dtype) / 2);
  }
  return dtype;
}

Element Apply(uint32_t op, uint32_t dtype, const Element& a, const Element& b) {
  const Value x = Decode(dtype, a);
  const Value y = Decode(dtype, b);
  const uint32_t out = OutputDtype(op, dtype);
  if (out == DEVRT_BOOL && !IsBool(dtype)) {
    return Encode(out, Integer(Compare(op, x, y), false));
  }
  if (IsBool(dtype)) {
    const bool compares = op == DEVRT_OP_LOGICAL_NOT ||
                          (op >= DEVRT_OP_EQ && op <= DEVRT_OP_LOGICAL_OR);
    return Encode(out, compares ? Integer(Compare(op, x, y), false)
                                : ApplyBool(op, x, y));
  }
  if (IsComplex(dtype)) return Encode(out, ApplyComplex(op, x, y));
  if (IsInteger(dtype)) return Encode(out, ApplyInteger(op, x, y));
  if (dtype == DEVRT_FLOAT64) {
    return Encode(out, Real(Arithmetic(op, x.re, y.re)));
  }
  return Encode(out, Real(Arithmetic(op, static_cast<float>(x.re),
                                     static_cast<float>(y.re))));
}

bool Matches(Match match, uint32_t dtype, const Element& got,
             const Element& want) {
  if (std::memcmp(got.data(), want.data(), Size(dtype)) == 0) return true;
  if (match == Match::kBits || !(IsFloat(dtype) || IsComplex(dtype))) {
    return false;
  }
  const Value x = Decode(dtype, got);
  const Value y = Decode(dtype, want);
  const bool single = dtype == DEVRT_COMPLEX64 || dtype == DEVRT_FLOAT32;
  const double unit = single ? std::numeric_limits<float>::epsilon()
                             : std::numeric_limits<double>::epsilon();
  const double tolerance =
      8 * unit * std::max(std::fabs(y.re), std::fabs(y.im));
  return MatchesPart(match, x.re, y.re, tolerance) &&
         MatchesPart(match, x.im, y.im, tolerance);
}

std::string Text(uint32_t dtype, const Element& element) {
  std::ostringstream text;
  text.precision(20);
  const Value value = Decode(dtype, element);
  text << ToLongDouble(value);
  if (value.kind == Value::kComplex)
    text << (value.im < 0 ? "" : "+") << value.im << "i";
  text << " [" << std::hex;
  for (size_t k = Size(dtype); k-- > 0;) {
    text << (static_cast<unsigned>(element[k]) >> 4)
         << (static_cast<unsigned>(element[k]) & 0xf);
  }
  text << "]";
  return text.str();
}

}  // namespace devrt::mtia::reference
