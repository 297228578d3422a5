// SPDX-License-Identifier: Apache-2.0
//
// The elements of an array as words of one width, as NumPy prints them.

#ifndef DEVRT_ARRAYS_CORE_ELEMENTS_TEXT_H_
#define DEVRT_ARRAYS_CORE_ELEMENTS_TEXT_H_

#include <cstddef>
#include <string>
#include <vector>

#include "devrt/arrays/dtype.h"

namespace devrt::internal {

// Returns the texts of the `count` elements at `bytes`, padded to one width.
// `precision`: the precision of floating-point numbers, as in NumPy.  `alone`:
// the array has no axes, so its one element is not padded.
std::vector<std::string> ElementWords(DType dtype, const char* bytes,
                                      size_t count, int precision, bool alone);

}  // namespace devrt::internal

#endif  // DEVRT_ARRAYS_CORE_ELEMENTS_TEXT_H_
