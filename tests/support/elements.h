// SPDX-License-Identifier: Apache-2.0
//
// Elements of tensors for tests that compare kernels with the scalar reference
// of the conformance suite, cts/numbers.h.  The reference shares no code with
// the backends.
//
//   const Element sum = reference::Apply(DEVRT_OP_ADD, DEVRT_INT8, a, b);

#ifndef DEVRT_TESTS_SUPPORT_ELEMENTS_H_
#define DEVRT_TESTS_SUPPORT_ELEMENTS_H_

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include "cts/numbers.h"

namespace devrt::reference {

using Value = cts::Number;

// An element of any dtype, in its first bytes.
using Element = std::array<std::byte, 16>;

inline const uint8_t* BytesOf(const Element& element) {
  return reinterpret_cast<const uint8_t*>(element.data());
}

inline Value Decode(uint32_t dtype, const Element& element) {
  return cts::Load(dtype, BytesOf(element));
}
// Converts a value of another kind, and rounds once.
inline Element Encode(uint32_t dtype, const Value& value) {
  Element element{};
  cts::Store(dtype, value, reinterpret_cast<uint8_t*>(element.data()));
  return element;
}

// The result of an elementwise operation other than COPY and WHERE.
inline Element Apply(uint32_t op, uint32_t dtype, const Element& a,
                     const Element& b) {
  return Encode(cts::OutputOf(op, dtype),
                cts::Compute(op, dtype, Decode(dtype, a), Decode(dtype, b)));
}

// The rule by which two elements count as equal.
enum class Match {
  kBits,
  kFloat,   // as kBits, but all NaNs are equal
  kNumber,  // as kFloat, but all zeros are equal
  kRounded  // within 8 units in the last place of the larger part of a complex
            // number
};
inline bool Matches(Match match, uint32_t dtype, const Element& got,
                    const Element& want) {
  if (match == Match::kBits) {
    return std::equal(want.begin(), want.begin() + cts::SizeOf(dtype),
                      got.begin());
  }
  long double tolerance = 0;
  if (match == Match::kRounded) {
    const Value value = Decode(dtype, want);
    tolerance = 8 * cts::EpsilonOf(dtype) *
                std::max(std::fabs(value.re), std::fabs(value.im));
  }
  return cts::Matches(dtype, BytesOf(got), BytesOf(want),
                      match != Match::kFloat, tolerance);
}

inline std::string Text(uint32_t dtype, const Element& element) {
  return cts::TextOf(dtype, BytesOf(element));
}

}  // namespace devrt::reference

#endif  // DEVRT_TESTS_SUPPORT_ELEMENTS_H_
