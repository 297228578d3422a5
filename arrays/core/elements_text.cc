// SPDX-License-Identifier: Apache-2.0
#include "arrays/core/elements_text.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "arrays/core/digits.h"
#include "devrt/arrays/dtype.h"
#include "devrt/arrays/scalar.h"

namespace devrt::internal {
namespace {

using Words = std::vector<std::string>;
using Values = std::vector<double>;

std::string Spaces(size_t width, size_t used) {
  return std::string(width > used ? width - used : 0, ' ');
}

void PadLeft(Words* words) {
  size_t width = 0;
  for (const std::string& word : *words) width = std::max(width, word.size());
  for (std::string& word : *words) word.insert(0, Spaces(width, word.size()));
}

// ---- Real floats -----------------------------------------------------------

// `value` rounded to the dtype, in which NumPy compares and divides.
double Rounded(DType dtype, double value) {
  if (dtype != kFloat16 && dtype != kFloat32) return value;
  const auto element = Scalar(value).As(dtype);
  return Scalar::FromElement(dtype, element->bytes).Value<double>();
}

// Returns true if the values differ so much in size that NumPy prints
// exponents.
bool NeedsExponent(DType dtype, const Values& values) {
  double most = 0;
  double least = INFINITY;
  for (const double value : values) {
    const double magnitude = std::fabs(value);
    if (!std::isfinite(value) || magnitude == 0) continue;
    most = std::max(most, magnitude);
    least = std::min(least, magnitude);
  }
  if (most == 0) return false;
  // The digits before the point that the dtype is sure to keep.
  const double large = dtype == kFloat64 ? 1e8 : dtype == kFloat32 ? 1e6 : 1e3;
  return most >= large || least < Rounded(dtype, 1e-4) ||
         Rounded(dtype, most / least) > 1000;
}

// The widths of the pieces of a column of floats.
struct Widths {
  size_t whole = 0;
  size_t fraction = 0;
  size_t exponent = 0;  // with its sign; 0: positional notation

  // The width behind the point.
  size_t right() const { return fraction + (exponent == 0 ? 0 : exponent + 1); }
};

Widths Measure(const std::vector<DecimalText>& texts) {
  Widths widths;
  for (const DecimalText& text : texts) {
    widths.whole = std::max(widths.whole, text.whole.size());
    widths.fraction = std::max(widths.fraction, text.fraction.size());
    widths.exponent = std::max(widths.exponent, text.exponent.size());
  }
  return widths;
}

std::string Joined(const DecimalText& text, const Widths& widths) {
  std::string joined = absl::StrCat(
      Spaces(widths.whole, text.whole.size()), text.whole, ".", text.fraction,
      Spaces(widths.fraction, text.fraction.size()));
  if (widths.exponent == 0) return joined;
  const size_t zeros = widths.exponent - text.exponent.size();
  return absl::StrCat(joined, "e", text.exponent.substr(0, 1),
                      std::string(zeros, '0'), text.exponent.substr(1));
}

std::string NotFinite(double value, bool plus) {
  if (std::isnan(value)) return plus ? "+nan" : "nan";
  return value < 0 ? "-inf" : plus ? "+inf" : "inf";
}

// The finite values in pieces.  In scientific notation all have as many digits
// as the longest.
std::vector<DecimalText> FloatTexts(DType dtype, const Values& values,
                                    int precision) {
  const bool scientific = NeedsExponent(dtype, values);
  std::vector<DecimalText> texts(values.size());
  size_t longest = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) continue;
    texts[i] = scientific ? Scientific(dtype, values[i], precision)
                          : Positional(dtype, values[i], precision);
    longest = std::max(longest, texts[i].fraction.size());
  }
  for (size_t i = 0; scientific && i < values.size(); ++i) {
    if (!std::isfinite(values[i]) || texts[i].fraction.size() == longest) {
      continue;
    }
    const int digits = static_cast<int>(longest);
    texts[i] = Scientific(dtype, values[i], digits, digits);
  }
  return texts;
}

// With `plus` every number has a sign.
Words FloatWords(DType dtype, const Values& values, int precision, bool plus) {
  // The float8 dtypes have few digits, and all are shown.
  if (dtype.kind() == DTypeKind::kFloat8) dtype = kFloat32;
  std::vector<DecimalText> texts = FloatTexts(dtype, values, precision);
  size_t special = 0;  // the width of "nan", "inf" or "-inf"
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) {
      if (plus && !std::signbit(values[i])) texts[i].whole.insert(0, "+");
      continue;
    }
    const bool sign = plus || (std::isinf(values[i]) && values[i] < 0);
    special = std::max<size_t>(special, sign ? 4 : 3);
  }
  Widths widths = Measure(texts);
  const size_t right = widths.right() + 1;  // with the point
  if (special > right) widths.whole = std::max(widths.whole, special - right);
  Words words(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) {
      words[i] = Joined(texts[i], widths);
    } else {
      words[i] = NotFinite(values[i], plus);
      words[i].insert(0, Spaces(widths.whole + right, words[i].size()));
    }
  }
  return words;
}

// ---- The kinds -------------------------------------------------------------

Words ComplexWords(DType dtype, const std::vector<Scalar>& elements,
                   int precision) {
  const DType part = dtype == kComplex64 ? kFloat32 : kFloat64;
  Values real, imaginary;
  for (const Scalar& element : elements) {
    const auto value = element.Value<std::complex<double>>();
    real.push_back(value.real());
    imaginary.push_back(value.imag());
  }
  Words words = FloatWords(part, real, precision, /*plus=*/false);
  Words others = FloatWords(part, imaginary, precision, /*plus=*/true);
  for (size_t i = 0; i < words.size(); ++i) {
    // The letter stands before the spaces that align the number.
    others[i].insert(others[i].find_last_not_of(' ') + 1, "j");
    words[i] += others[i];
  }
  return words;
}

Words IntegerWords(const std::vector<Scalar>& elements) {
  Words words;
  for (const Scalar& element : elements) words.push_back(element.ToString());
  PadLeft(&words);
  return words;
}

Words BoolWords(const std::vector<Scalar>& elements, bool alone) {
  Words words;
  for (const Scalar& element : elements) {
    words.push_back(element.Value<bool>() ? (alone ? "True" : " True")
                                          : "False");
  }
  return words;
}

}  // namespace

std::vector<std::string> ElementWords(DType dtype, const char* bytes,
                                      size_t count, int precision, bool alone) {
  std::vector<Scalar> elements;
  for (size_t i = 0; i < count; ++i) {
    elements.push_back(Scalar::FromElement(dtype, bytes + i * dtype.size()));
  }
  switch (dtype.kind()) {
    case DTypeKind::kBool:
      return BoolWords(elements, alone);
    case DTypeKind::kSigned:
    case DTypeKind::kUnsigned:
      return IntegerWords(elements);
    case DTypeKind::kComplex:
      return ComplexWords(dtype, elements, precision);
    case DTypeKind::kFloat:
    case DTypeKind::kFloat8:
      break;
  }
  Values values;
  for (const Scalar& element : elements) {
    values.push_back(element.Value<double>());
  }
  return FloatWords(dtype, values, precision, /*plus=*/false);
}

}  // namespace devrt::internal
