// SPDX-License-Identifier: Apache-2.0
#include "arrays/core/digits.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>

#include "devrt/arrays/dtype.h"
#include "devrt/arrays/scalar.h"

namespace devrt::internal {
namespace {

// Room for the largest double in fixed notation with 17 digits after the point.
constexpr int kBufferSize = 350;
constexpr int kMostDigits = 17;

// Stands for digits[0].digits[1]... * 10^exponent.
struct Decimal {
  std::string digits;
  int exponent = 0;
};

template <typename... Format>
std::string ToChars(double value, Format... format) {
  char buffer[kBufferSize];
  const auto result =
      std::to_chars(buffer, buffer + sizeof buffer, value, format...);
  return std::string(buffer, result.ptr);
}

// Reads "1.25e-05".
Decimal ParseScientific(const std::string& text) {
  const size_t e = text.find('e');
  Decimal decimal;
  decimal.digits = text.substr(0, 1);
  if (e > 2) decimal.digits += text.substr(2, e - 2);
  std::from_chars(text.data() + e + (text[e + 1] == '+' ? 2 : 1),
                  text.data() + text.size(), decimal.exponent);
  return decimal;
}

void TrimZeros(std::string* digits, size_t keep = 0) {
  while (digits->size() > keep && digits->back() == '0') digits->pop_back();
}

bool ReadsBack(DType dtype, const Decimal& decimal, double value) {
  const std::string text = decimal.digits.substr(0, 1) + "." +
                           decimal.digits.substr(1) + "e" +
                           std::to_string(decimal.exponent);
  double read = 0;
  std::from_chars(text.data(), text.data() + text.size(), read);
  const auto element = Scalar(read).As(dtype);
  return element.ok() &&
         Scalar::FromElement(dtype, element->bytes).Value<double>() == value;
}

// The nearest decimal with as many digits on the other side of `value`.
Decimal Neighbour(Decimal decimal, bool up) {
  for (size_t k = decimal.digits.size(); k-- > 0;) {
    char& digit = decimal.digits[k];
    if (digit != (up ? '9' : '0')) {
      digit = static_cast<char>(digit + (up ? 1 : -1));
      return decimal;
    }
    digit = up ? '0' : '9';
  }
  // The step from 9.9 to 10, or from 1.0 to 0.99, changes the exponent.
  if (up) decimal.digits.insert(0, 1, '1');
  decimal.exponent += up ? 1 : -1;
  return decimal;
}

// Tries one digit more each time, because the standard library has no function
// for narrow floats.  At a power of two the interval of decimals that read back
// as `value` is not symmetric: the nearest decimal may be outside while that on
// the other side is inside.
Decimal ShortestNarrow(DType dtype, double value) {
  for (int digits = 0; digits < kMostDigits; ++digits) {
    const std::string text =
        ToChars(value, std::chars_format::scientific, digits);
    const Decimal nearest = ParseScientific(text);
    if (ReadsBack(dtype, nearest, value)) return nearest;
    double read = 0;
    std::from_chars(text.data(), text.data() + text.size(), read);
    const Decimal other = Neighbour(nearest, read < value);
    if (ReadsBack(dtype, other, value)) return other;
  }
  return ParseScientific(ToChars(value, std::chars_format::scientific));
}

// The shortest digits that read back as `value`, which is finite and not
// negative.
Decimal Shortest(DType dtype, double value) {
  Decimal decimal;
  if (dtype == kFloat64) {
    decimal = ParseScientific(ToChars(value, std::chars_format::scientific));
  } else if (dtype == kFloat32) {
    char buffer[kBufferSize];
    const auto result =
        std::to_chars(buffer, buffer + sizeof buffer, static_cast<float>(value),
                      std::chars_format::scientific);
    decimal = ParseScientific(std::string(buffer, result.ptr));
  } else {
    decimal = ShortestNarrow(dtype, value);
  }
  TrimZeros(&decimal.digits, 1);
  return decimal;
}

std::string ExponentText(int exponent) {
  const std::string digits = std::to_string(std::abs(exponent));
  return (exponent < 0 ? "-" : "+") + std::string(digits.size() < 2, '0') +
         digits;
}

const char* SignOf(double value) { return std::signbit(value) ? "-" : ""; }

}  // namespace

DecimalText Positional(DType dtype, double value, int precision) {
  const double magnitude = std::fabs(value);
  const Decimal decimal = Shortest(dtype, magnitude);
  const int length = static_cast<int>(decimal.digits.size());
  DecimalText text;
  if (length - 1 - decimal.exponent > precision) {
    const std::string all =
        ToChars(magnitude, std::chars_format::fixed, precision);
    const size_t point = std::min(all.find('.'), all.size());
    text.whole = all.substr(0, point);
    text.fraction = all.substr(std::min(point + 1, all.size()));
  } else if (decimal.exponent < 0) {
    text.whole = "0";
    text.fraction =
        std::string(static_cast<size_t>(-decimal.exponent - 1), '0') +
        decimal.digits;
  } else {
    const int whole = decimal.exponent + 1;
    text.whole = decimal.digits.substr(0, static_cast<size_t>(whole));
    text.whole.append(static_cast<size_t>(std::max(0, whole - length)), '0');
    if (whole < length) {
      text.fraction = decimal.digits.substr(static_cast<size_t>(whole));
    }
  }
  TrimZeros(&text.fraction);
  text.whole.insert(0, SignOf(value));
  return text;
}

DecimalText Scientific(DType dtype, double value, int precision, int least) {
  const double magnitude = std::fabs(value);
  Decimal decimal = Shortest(dtype, magnitude);
  const int shortest = static_cast<int>(decimal.digits.size()) - 1;
  const int wanted =
      std::clamp(shortest, std::min(least, precision), precision);
  if (wanted != shortest) {
    decimal = ParseScientific(
        ToChars(magnitude, std::chars_format::scientific, wanted));
  }
  DecimalText text;
  text.whole = SignOf(value) + decimal.digits.substr(0, 1);
  text.fraction = decimal.digits.substr(1);
  text.exponent = ExponentText(decimal.exponent);
  TrimZeros(&text.fraction, static_cast<size_t>(least));
  return text;
}

std::string FloatText(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  const double magnitude = std::fabs(value);
  if (value != 0 && (magnitude < 1e-4 || magnitude >= 1e16)) {
    const DecimalText text = Scientific(kFloat64, value, kMostDigits);
    return text.whole + (text.fraction.empty() ? "" : ".") + text.fraction +
           "e" + text.exponent;
  }
  const DecimalText text = Positional(kFloat64, value, kBufferSize);
  return text.whole + "." + (text.fraction.empty() ? "0" : text.fraction);
}

}  // namespace devrt::internal
