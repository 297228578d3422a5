// SPDX-License-Identifier: Apache-2.0
//
// Floats as decimal digits, as NumPy prints them: the shortest digits that read
// back as the same element of their dtype.  The locale does not matter.

#ifndef DEVRT_ARRAYS_CORE_DIGITS_H_
#define DEVRT_ARRAYS_CORE_DIGITS_H_

#include <string>

#include "devrt/arrays/dtype.h"

namespace devrt::internal {

// A finite value in pieces: "-12" "." "25" "e+05".
struct DecimalText {
  std::string whole;     // with the sign
  std::string fraction;  // trailing zeros only if `least` asks for them
  std::string exponent;  // "+05"; empty in positional notation
};

// `value`, an element of a real dtype, with at most `precision` digits after
// the point; the last digit is rounded exactly, ties to even.  Scientific also
// writes at least `least` digits, those of the exact value.
DecimalText Positional(DType dtype, double value, int precision);
DecimalText Scientific(DType dtype, double value, int precision, int least = 0);

// As Python prints a float: "0.1", "1.0", "1e+16", "nan", "inf".
std::string FloatText(double value);

}  // namespace devrt::internal

#endif  // DEVRT_ARRAYS_CORE_DIGITS_H_
