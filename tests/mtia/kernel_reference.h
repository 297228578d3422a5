// SPDX-License-Identifier: Apache-2.0
//
// What the kernels are tested against: one element at a time, by definition
// instead of by bit tricks.  Shares no code with backends/mtia.

#ifndef DEVRT_TESTS_MTIA_KERNEL_REFERENCE_H_
#define DEVRT_TESTS_MTIA_KERNEL_REFERENCE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace devrt::mtia::reference {

extern const std::vector<uint32_t> kDtypes;  // all 17

// An element of any dtype.
using Element = std::array<std::byte, 16>;

// The exact value of an element.
struct Value {
  enum Kind { kInteger, kReal, kComplex } kind = kInteger;
  uint64_t integer = 0;  // two's complement
  bool is_signed = true;
  double re = 0;
  double im = 0;
};

size_t Size(uint32_t dtype);
bool IsBool(uint32_t dtype);
bool IsInteger(uint32_t dtype);  // without bool
bool IsFloat(uint32_t dtype);    // without complex, with float8
bool IsFloat8(uint32_t dtype);
bool IsComplex(uint32_t dtype);

Value Decode(uint32_t dtype, const Element& element);
// Converts if the value is of another kind, rounding once.
Element Encode(uint32_t dtype, const Value& value);

// Bits of a float of `dtype` (16 bits or fewer) as a number, and the nearest
// bits to a number.
double DecodeFloat(uint32_t dtype, uint32_t bits);
uint32_t EncodeFloat(uint32_t dtype, long double value, bool negative);

bool Supports(uint32_t op, uint32_t dtype);
uint32_t OutputDtype(uint32_t op, uint32_t dtype);
// The result of an elementwise operation other than COPY and WHERE.
Element Apply(uint32_t op, uint32_t dtype, const Element& a, const Element& b);

// How equal two elements have to be.
enum class Match {
  kBits,
  kFloat,   // all NaNs are equal
  kNumber,  // all zeros, too
  kRounded  // 8 units in the last place of the larger part of a complex number
};
bool Matches(Match match, uint32_t dtype, const Element& got,
             const Element& want);

std::string Text(uint32_t dtype, const Element& element);

}  // namespace devrt::mtia::reference

#endif  // DEVRT_TESTS_MTIA_KERNEL_REFERENCE_H_
