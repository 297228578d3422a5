// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/config/config_values.h"

#include <charconv>
#include <limits>

#include "backends/text/settings.h"

namespace devrt::mtia {
namespace {

constexpr int32_t kPriorityLimit = 100;

struct Suffix {
  Unit unit;
  std::string_view name;
  uint64_t factor;
};

constexpr uint64_t kKilo = 1000;
constexpr Suffix kSuffixes[] = {
    {Unit::kBytes, "B", 1},
    {Unit::kBytes, "KiB", 1ull << 10},
    {Unit::kBytes, "MiB", 1ull << 20},
    {Unit::kBytes, "GiB", 1ull << 30},
    {Unit::kBytes, "TiB", 1ull << 40},
    {Unit::kTime, "ns", 1},
    {Unit::kTime, "us", kKilo},
    {Unit::kTime, "ms", kKilo* kKilo},
    {Unit::kTime, "s", kKilo* kKilo* kKilo},
    {Unit::kRate, "B/s", 1},
    {Unit::kRate, "KB/s", kKilo},
    {Unit::kRate, "MB/s", kKilo* kKilo},
    {Unit::kRate, "GB/s", kKilo* kKilo* kKilo},
    {Unit::kRate, "TB/s", kKilo* kKilo* kKilo* kKilo},
    {Unit::kRate, "KiB/s", 1ull << 10},
    {Unit::kRate, "MiB/s", 1ull << 20},
    {Unit::kRate, "GiB/s", 1ull << 30},
    {Unit::kRate, "TiB/s", 1ull << 40},
};

bool Matches(const Suffix& suffix, std::string_view text) {
  if (suffix.name == text) return true;
  constexpr std::string_view kPerSecond = "/s";
  return suffix.unit == Unit::kRate &&
         suffix.name.size() == text.size() + kPerSecond.size() &&
         suffix.name.substr(0, text.size()) == text;
}

bool ParsePriority(std::string_view text, int32_t* value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, *value);
  return error == std::errc() && stop == end && *value >= -kPriorityLimit &&
         *value <= kPriorityLimit;
}

bool ParseLink(std::string_view text, uint32_t last,
               std::pair<uint32_t, uint32_t>* link) {
  const char* end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, link->first);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != '-') {
    return false;
  }
  const auto second = std::from_chars(first.ptr + 1, end, link->second);
  return second.ec == std::errc() && second.ptr == end && link->first < last &&
         link->second < last && link->first != link->second;
}

}  // namespace

bool ParseNumber(std::string_view text, Unit unit, uint64_t* value) {
  const char* end = text.data() + text.size();
  uint64_t number = 0;
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc()) return false;

  const std::string_view name =
      internal::Trimmed({stop, static_cast<size_t>(end - stop)});
  uint64_t factor = name.empty() ? 1 : 0;
  for (const Suffix& suffix : kSuffixes) {
    if (suffix.unit == unit && Matches(suffix, name)) factor = suffix.factor;
  }
  if (factor == 0) return false;
  if (number > std::numeric_limits<uint64_t>::max() / factor) return false;
  *value = number * factor;
  return true;
}

std::string FormatNumber(uint64_t value, Unit unit) {
  const Suffix* best = nullptr;
  for (const Suffix& suffix : kSuffixes) {
    if (suffix.unit != unit || value % suffix.factor != 0) continue;
    if (best == nullptr || suffix.factor > best->factor) best = &suffix;
  }
  if (best == nullptr || value == 0) return std::to_string(value);
  return std::to_string(value / best->factor) + std::string(best->name);
}

bool ParseSpan(std::string_view text, int32_t* first, int32_t* last) {
  constexpr std::string_view kDots = "..";
  const size_t dots = text.find(kDots);
  if (dots == std::string_view::npos) return false;
  int32_t low = 0;
  int32_t high = 0;
  if (!ParsePriority(text.substr(0, dots), &low) ||
      !ParsePriority(text.substr(dots + kDots.size()), &high) || low > high) {
    return false;
  }
  *first = low;
  *last = high;
  return true;
}

bool ParseLinks(std::string_view text, uint32_t end,
                std::vector<std::pair<uint32_t, uint32_t>>* links) {
  for (size_t at = 0; at <= text.size();) {
    const size_t plus = std::min(text.find('+', at), text.size());
    std::pair<uint32_t, uint32_t> link;
    if (!ParseLink(text.substr(at, plus - at), end, &link)) return false;
    links->push_back(link);
    at = plus + 1;
  }
  std::sort(links->begin(), links->end());
  links->erase(std::unique(links->begin(), links->end()), links->end());
  return true;
}

bool ParsePair(std::string_view text, uint32_t* first, uint64_t* second) {
  const char* const end = text.data() + text.size();
  const auto [dot, error] = std::from_chars(text.data(), end, *first);
  if (error != std::errc() || dot == end || *dot != '.') return false;
  const auto [stop, wrong] = std::from_chars(dot + 1, end, *second);
  return wrong == std::errc() && stop == end;
}

}  // namespace devrt::mtia
