// SPDX-License-Identifier: Apache-2.0
//
// Numbers with units and spans of numbers, as config.cc reads and writes them.

#ifndef DEVRT_BACKENDS_MTIA_CONFIG_CONFIG_VALUES_H_
#define DEVRT_BACKENDS_MTIA_CONFIG_CONFIG_VALUES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace devrt::mtia {

// kBytes: B KiB MiB GiB TiB.  kTime: ns us ms s.  kRate: B KB MB GB TB and
// the binary ones, "/s" behind them optional.
enum class Unit { kNone, kBytes, kTime, kRate };

// Parses a whole number with a unit or without one.  Returns false for any
// other text and for overflow.
bool ParseNumber(std::string_view text, Unit unit, uint64_t* value);
// The text of `value` with the largest unit that divides it.  ParseNumber reads
// it.
std::string FormatNumber(uint64_t value, Unit unit);

// "-5..0", rising, each from -100 to 100.
bool ParseSpan(std::string_view text, int32_t* first, int32_t* last);

// "0-1+1-0", pairs of two numbers below `end`.  The result is sorted, and has
// no pair twice.
bool ParseLinks(std::string_view text, uint32_t end,
                std::vector<std::pair<uint32_t, uint32_t>>* links);

// "0.12", two whole numbers.
bool ParsePair(std::string_view text, uint32_t* first, uint64_t* second);

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_CONFIG_CONFIG_VALUES_H_
