// SPDX-License-Identifier: Apache-2.0
//
// ParseAllocatorSettings and ToString of devrt/memory/settings.h: the keys of
// DEVRT_ALLOC_CONF.  The grammar is that of backends/text/settings.h.

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "backends/text/settings.h"
#include "devrt/memory/settings.h"
#include "devrt/runtime/status.h"
#include "memory/common/rounding.h"

namespace devrt {
namespace {

using internal::kMiB;
using internal::Setting;
using internal::Trimmed;

constexpr char kMark = ':';  // between a key and its value
// Powers of two from 1 MiB to 64 GiB.
constexpr size_t kPowers = 17;
constexpr uint32_t kMostDivisions = 64;
constexpr uint32_t kMostThreads = 128;
constexpr uint64_t kLeastSplitMiB = 20;  // the value must be greater

bool IsPowerOfTwo(uint64_t x) { return x != 0 && (x & (x - 1)) == 0; }

// Reads digits only, without a sign or a fraction.
std::optional<uint64_t> Number(std::string_view text) {
  uint64_t value = 0;
  const bool digits = !text.empty() && std::all_of(text.begin(), text.end(),
                                                   absl::ascii_isdigit);
  if (!digits ||
      !absl::SimpleAtoi(absl::string_view(text.data(), text.size()), &value)) {
    return std::nullopt;
  }
  return value;
}

// Reads a whole number of MiB; returns bytes.
std::optional<uint64_t> MiBs(std::string_view text) {
  const std::optional<uint64_t> value = Number(text);
  if (!value.has_value() || *value > UINT64_MAX / kMiB) return std::nullopt;
  return *value * kMiB;
}

std::optional<double> Fraction(std::string_view text) {
  double value = 0;
  if (!absl::SimpleAtod(absl::string_view(text.data(), text.size()), &value) ||
      !(value >= 0 && value <= 1)) {
    return std::nullopt;
  }
  return value;
}

bool ReadBool(std::string_view text, bool* value) {
  if (text != "True" && text != "true" && text != "1" && text != "False" &&
      text != "false" && text != "0") {
    return false;
  }
  *value = text == "True" || text == "true" || text == "1";
  return true;
}

std::string WriteBool(bool value) { return value ? "True" : "False"; }
std::string WriteDouble(double value) {
  return absl::StrFormat("%.17g", value);
}

// ---- roundup_power2_divisions -----------------------------------------------

std::optional<uint32_t> Divisions(std::string_view text) {
  const std::optional<uint64_t> value = Number(text);
  if (!value.has_value() || *value > kMostDivisions ||
      (*value != 0 && !IsPowerOfTwo(*value))) {
    return std::nullopt;
  }
  return static_cast<uint32_t>(*value);
}

// Reads "256:1,512:2,>:4".  An entry holds for its power of two and for those
// below, down to the entry before; ">" holds for all others.
bool ReadDivisionList(std::string_view text, std::vector<uint32_t>* list) {
  std::vector<uint32_t> read(kPowers, 0);
  size_t next = 0;  // the first power without an entry
  for (bool more = true; more;) {
    const size_t comma = text.find(',');
    const std::string_view entry = Trimmed(text.substr(0, comma));
    more = comma != text.npos;
    if (more) text.remove_prefix(comma + 1);
    const size_t colon = entry.find(':');
    if (colon == entry.npos) return false;
    const std::string_view power = Trimmed(entry.substr(0, colon));
    const std::optional<uint32_t> value =
        Divisions(Trimmed(entry.substr(colon + 1)));
    size_t end = kPowers;
    if (power == ">") {
      if (more) return false;
    } else {
      const std::optional<uint64_t> mib = Number(power);
      if (!mib.has_value() || !IsPowerOfTwo(*mib)) return false;
      end = static_cast<size_t>(__builtin_ctzll(*mib)) + 1;
    }
    if (!value.has_value() || end > kPowers || end <= next) return false;
    std::fill(read.begin() + static_cast<ptrdiff_t>(next),
              read.begin() + static_cast<ptrdiff_t>(end), *value);
    next = end;
  }
  *list = std::move(read);
  return true;
}

bool ReadDivisions(std::string_view text, AllocatorSettings* s) {
  if (text == "none") {
    s->roundup_power2_divisions.clear();
    return true;
  }
  if (text.size() >= 2 && text.front() == '[' && text.back() == ']') {
    return ReadDivisionList(text.substr(1, text.size() - 2),
                            &s->roundup_power2_divisions);
  }
  const std::optional<uint32_t> all = Divisions(text);
  if (!all.has_value() || *all == 0) return false;
  s->roundup_power2_divisions.assign(kPowers, *all);
  return true;
}

std::string WriteDivisions(const AllocatorSettings& s) {
  const std::vector<uint32_t>& list = s.roundup_power2_divisions;
  if (list.empty()) return "none";
  std::vector<std::string> entries;
  for (size_t i = 0; i < list.size(); ++i) {
    entries.push_back(absl::StrCat(uint64_t{1} << i, ":", list[i]));
  }
  return absl::StrCat("[", absl::StrJoin(entries, ","), "]");
}

// ---- The keys ---------------------------------------------------------------

struct Key {
  const char* name;
  const char* choices;
  // Returns false and changes nothing if the key cannot have the value.
  bool (*read)(std::string_view value, AllocatorSettings* s);
  std::string (*write)(const AllocatorSettings& s);
};

bool ReadSplit(std::string_view text, AllocatorSettings* s) {
  const std::optional<uint64_t> bytes =
      text == "none" ? UINT64_MAX : MiBs(text);
  if (!bytes.has_value() || *bytes <= kLeastSplitMiB * kMiB) return false;
  s->max_split_size = *bytes;
  return true;
}

bool ReadThreshold(std::string_view text, AllocatorSettings* s) {
  const std::optional<double> value = Fraction(text);
  if (!value.has_value() || *value >= 1) return false;
  s->garbage_collection_threshold = *value;
  return true;
}

bool ReadMemoryFraction(std::string_view text, AllocatorSettings* s) {
  const std::optional<double> value = Fraction(text);
  if (value.has_value()) s->per_process_memory_fraction = *value;
  return value.has_value();
}

bool ReadReuse(std::string_view text, AllocatorSettings* s) {
  if (text != "ordered" && text != "never") return false;
  s->cross_stream_reuse = text == "ordered";
  return true;
}

bool ReadThreads(std::string_view text, AllocatorSettings* s) {
  const std::optional<uint64_t> value = Number(text);
  if (!value.has_value() || *value > kMostThreads || !IsPowerOfTwo(*value)) {
    return false;
  }
  s->pinned_register_threads = static_cast<uint32_t>(*value);
  return true;
}

bool ReadClassLimit(std::string_view text, AllocatorSettings* s) {
  const std::optional<uint64_t> bytes = MiBs(text);
  if (!bytes.has_value() || !IsPowerOfTwo(*bytes)) return false;
  s->pinned_class_limit = *bytes;
  return true;
}

constexpr std::pair<const char*, AllocatorSettings::Source> kSources[] = {
    {"caching", AllocatorSettings::Source::kCaching},
    {"driver", AllocatorSettings::Source::kDriver},
    {"raw", AllocatorSettings::Source::kRaw},
};

bool ReadSource(std::string_view text, AllocatorSettings* s) {
  for (const auto& [name, source] : kSources) {
    if (text != name) continue;
    s->source = source;
    return true;
  }
  return false;
}

using S = AllocatorSettings;
constexpr const char* kBoolChoices = "True or False";

constexpr Key kKeys[] = {
    {"max_split_size_mb", "a whole number above 20, or none", &ReadSplit,
     [](const S& s) {
       return s.max_split_size == UINT64_MAX
                  ? std::string("none")
                  : absl::StrCat(s.max_split_size / kMiB);
     }},
    {"garbage_collection_threshold", "a number above 0 and below 1, or 0: off",
     &ReadThreshold,
     [](const S& s) { return WriteDouble(s.garbage_collection_threshold); }},
    {"roundup_power2_divisions",
     "1, 2, 4 and so on to 64; none; or a list like [256:1,512:2,>:4] of "
     "ascending powers of two in MiB, to 65536, and divisions (0: none)",
     &ReadDivisions, &WriteDivisions},
    {"expandable_segments", kBoolChoices,
     [](std::string_view v, S* s) {
       return ReadBool(v, &s->expandable_segments);
     },
     [](const S& s) { return WriteBool(s.expandable_segments); }},
    {"per_process_memory_fraction", "a number from 0 to 1", &ReadMemoryFraction,
     [](const S& s) { return WriteDouble(s.per_process_memory_fraction); }},
    {"cross_stream_reuse", "ordered or never", &ReadReuse,
     [](const S& s) {
       return std::string(s.cross_stream_reuse ? "ordered" : "never");
     }},
    {"pinned_use_cuda_host_register", kBoolChoices,
     [](std::string_view v, S* s) { return ReadBool(v, &s->pinned_register); },
     [](const S& s) { return WriteBool(s.pinned_register); }},
    {"pinned_num_register_threads", "1, 2, 4 and so on to 128", &ReadThreads,
     [](const S& s) { return absl::StrCat(s.pinned_register_threads); }},
    {"pinned_use_background_threads", kBoolChoices,
     [](std::string_view v, S* s) {
       return ReadBool(v, &s->pinned_background);
     },
     [](const S& s) { return WriteBool(s.pinned_background); }},
    {"pinned_class_limit_mb", "a power of two of at least 1", &ReadClassLimit,
     [](const S& s) { return absl::StrCat(s.pinned_class_limit / kMiB); }},
    {"backend", "caching, driver or raw", &ReadSource,
     [](const S& s) {
       return std::string(kSources[static_cast<size_t>(s.source)].first);
     }},
};

absl::Status Mistake(const std::string& text) {
  return absl::InvalidArgumentError(text);
}

absl::Status Read(const Setting& setting, AllocatorSettings* s) {
  const Key* const key =
      std::find_if(std::begin(kKeys), std::end(kKeys),
                   [&setting](const Key& k) { return setting.key == k.name; });
  if (key == std::end(kKeys)) {
    return Mistake(internal::UnknownSetting(setting, kMark, kKeys));
  }
  if (!setting.value) {
    return Mistake(internal::MissingValue(setting, kMark, key->choices));
  }
  if (key->read(*setting.value, s)) return absl::OkStatus();
  return Mistake(internal::RefusedValue(setting, key->choices));
}

}  // namespace

absl::StatusOr<AllocatorSettings> ParseAllocatorSettings(
    std::string_view text, const AllocatorSettings& base) {
  AllocatorSettings settings = base;
  internal::SettingsReader reader(text, kMark);
  // Of a key that the text names twice, the last value counts.
  while (const std::optional<Setting> setting = reader.Next()) {
    DEVRT_RETURN_IF_ERROR(Read(*setting, &settings));
  }
  return settings;
}

std::string ToString(const AllocatorSettings& settings) {
  std::string text;
  for (const Key& key : kKeys) {
    absl::StrAppend(&text, text.empty() ? "" : ",", key.name,
                    std::string(1, kMark), key.write(settings));
  }
  return text;
}

}  // namespace devrt
