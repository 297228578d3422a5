// SPDX-License-Identifier: Apache-2.0
//
// A scalar reference implementation of devrt.elementwise/0 and devrt.reduce/0:
// one element at a time, in wide arithmetic, by the rules of devrt_tensor.h.

#ifndef DEVRT_CTS_NUMBERS_H_
#define DEVRT_CTS_NUMBERS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "devrt/backends/abi/devrt_tensor.h"

namespace devrt::cts {

__extension__ typedef __int128 Wide;

struct Number {
  enum class Kind { kInteger, kReal, kComplex };  // bools are integers
  Kind kind = Kind::kInteger;
  Wide integer = 0;
  long double re = 0, im = 0;

  static Number Integer(Wide value);
  static Number Real(long double value);
  static Number Complex(long double re, long double im);
};

// All dtypes, and all operations of devrt.elementwise/0.
const std::vector<uint32_t>& Dtypes();
const std::vector<uint32_t>& Ops();
std::string OpName(uint32_t op);        // "COPY", "operation 16"
std::string DtypeName(uint32_t dtype);  // "uint16"
size_t SizeOf(uint32_t dtype);          // bytes
bool IsInteger(uint32_t dtype);         // without bool
bool IsReal(uint32_t dtype);            // floats, including float8
bool IsComplex(uint32_t dtype);
bool IsFloat8(uint32_t dtype);

Number Load(uint32_t dtype, const uint8_t* element);
// Converts by the rules of COPY and stores the element.
void Store(uint32_t dtype, const Number& number, uint8_t* element);

uint32_t InputsOf(uint32_t op);
bool HasOp(uint32_t op, uint32_t dtype);  // for inputs of `dtype`
uint32_t OutputOf(uint32_t op, uint32_t dtype);
// The result before it is stored; for all operations but COPY and WHERE.
Number Compute(uint32_t op, uint32_t dtype, const Number& a, const Number& b);

// True if `got` is an accepted result for `want`.  NaNs may have any bits.
// With `zeros`, zeros may have any sign.  Numbers may differ by `tolerance`.
bool Matches(uint32_t dtype, const uint8_t* got, const uint8_t* want,
             bool zeros = false, long double tolerance = 0);

// The relative rounding error of a float dtype; 0 for other dtypes.
long double EpsilonOf(uint32_t dtype);

// "1.5 [00003fc0]".
std::string TextOf(uint32_t dtype, const uint8_t* element);

}  // namespace devrt::cts

#endif  // DEVRT_CTS_NUMBERS_H_
