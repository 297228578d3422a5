// SPDX-License-Identifier: Apache-2.0
//
// Numbers as text.

#ifndef DEVRT_ARRAYS_INTERNAL_DIGITS_H_
#define DEVRT_ARRAYS_INTERNAL_DIGITS_H_

#include <string>

namespace devrt::internal {

// As Python prints a float: the shortest text that reads back as `value`, with
// a point or an exponent; "nan", "inf".
std::string FloatText(double value);

}  // namespace devrt::internal

#endif  // DEVRT_ARRAYS_INTERNAL_DIGITS_H_
