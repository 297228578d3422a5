// SPDX-License-Identifier: Apache-2.0
//
// Floats as decimal digits: the shortest that read back as the same element of
// their dtype, as NumPy prints them.  No locale has a part in it.

#ifndef DEVRT_ARRAYS_CORE_DIGITS_H_
#define DEVRT_ARRAYS_CORE_DIGITS_H_

#include <string>

#include "devrt/arrays/dtype.h"

namespace devrt::internal {

// A finite value in pieces: "-12" "." "25" "e+05".
struct DecimalText {
  std::string whole;     // with the sign
  std::string fraction;  // without trailing zeros but those asked for
  std::string exponent;  // "+05"; empty in positional notation
};

// `value`, an element of the real dtype, with at most `precision` digits after
// the point; what is cut off is rounded, exactly, ties to even.  Scientific:
// and with at least `least`, those of the exact value.
DecimalText Positional(DType dtype, double value, int precision);
DecimalText Scientific(DType dtype, double value, int precision, int least = 0);

// As Python prints a float: "0.1", "1.0", "1e+16", "nan", "inf".
std::string FloatText(double value);

}  // namespace devrt::internal

#endif  // DEVRT_ARRAYS_CORE_DIGITS_H_
