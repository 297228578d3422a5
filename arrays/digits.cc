// SPDX-License-Identifier: Apache-2.0
#include "devrt/arrays/internal/digits.h"

#include <charconv>
#include <cmath>
#include <string>

namespace devrt::internal {

std::string FloatText(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  const double magnitude = std::fabs(value);
  const bool scientific = value != 0 && (magnitude < 1e-4 || magnitude >= 1e16);
  char buffer[64];
  const auto [end, error] = std::to_chars(
      buffer, buffer + sizeof buffer, value,
      scientific ? std::chars_format::scientific : std::chars_format::fixed);
  std::string text(buffer, end);
  if (!scientific && text.find('.') == text.npos) text += ".0";
  return text;
}

}  // namespace devrt::internal
