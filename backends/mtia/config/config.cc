// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/config/config.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <iterator>
#include <optional>
#include <type_traits>

#include "backends/mtia/config/config_values.h"
#include "backends/text/settings.h"

namespace devrt::mtia {
namespace {

using internal::QuotedSetting;
using internal::Setting;

constexpr char kMark = '=';  // between a key and its value
constexpr size_t kLongestText = size_t{64} << 10;
constexpr uint64_t kMinMemory = 1ull << 20;
constexpr uint64_t kMaxMemory = 1ull << 40;
constexpr uint64_t kMinPinned = 4ull << 10;
constexpr uint64_t kMinGranularity = 256;
constexpr uint64_t kMaxGranularity = 2ull << 20;
constexpr uint64_t kMaxGap = 16ull << 20;
constexpr uint64_t kMaxSlots = 1024;
constexpr uint64_t kMinQueueDepth = 1000;
constexpr uint64_t kMaxQueueDepth = 1'000'000'000;
constexpr uint64_t kMillisecond = 1'000'000;
constexpr uint64_t kHour = 3600 * 1000 * kMillisecond;
constexpr uint64_t kMinRate = 1000;
constexpr uint64_t kMaxRate = 1'000'000'000'000'000;
constexpr uint64_t kAny = ~uint64_t{0};
constexpr std::string_view kUnlimitedText = "unlimited";

template <typename T>
struct Choice {
  std::string_view name;
  T value;
};

constexpr Choice<Profile> kProfiles[] = {
    {"none", Profile::kNone}, {"cuda", Profile::kCuda}, {"hip", Profile::kHip}};
constexpr Choice<Mode> kModes[] = {{"virtual", Mode::kVirtual},
                                   {"threaded", Mode::kThreaded}};
constexpr Choice<StrategyKind> kStrategies[] = {
    {"hw", StrategyKind::kHardware},
    {"asap", StrategyKind::kAsap},
    {"alap", StrategyKind::kAlap},
    {"lifo", StrategyKind::kLifo},
    {"random", StrategyKind::kRandom}};
constexpr Choice<Pageable> kPageables[] = {{"explore", Pageable::kExplore},
                                           {"sync", Pageable::kSync},
                                           {"staged", Pageable::kStaged},
                                           {"late", Pageable::kLate}};
constexpr Choice<Poison> kPoisons[] = {
    {"full", Poison::kFull}, {"edges", Poison::kEdges}, {"off", Poison::kOff}};
constexpr Choice<Peers> kTopologies[] = {
    {"all", Peers::kAll}, {"ring", Peers::kRing}, {"none", Peers::kNone}};
constexpr Choice<HostAccess> kHostAccesses[] = {
    {"report", HostAccess::kReport},
    {"continue", HostAccess::kContinue},
    {"off", HostAccess::kOff}};
constexpr Choice<bool> kScopes[] = {{"device", false}, {"process", true}};
constexpr Choice<bool> kDeliveries[] = {{"status", false}, {"abort", true}};
constexpr Choice<bool> kStricts[] = {{"none", false}, {"cuda", true}};
constexpr Choice<bool> kNoYes[] = {{"no", false}, {"yes", true}};
constexpr Choice<bool> kOffCheck[] = {{"off", false}, {"check", true}};
constexpr Choice<bool> kOnOff[] = {{"on", true}, {"off", false}};

template <auto kMember, const auto& kChoices>
bool SetChoice(std::string_view value, Config* config) {
  for (const auto& choice : kChoices) {
    if (choice.name != value) continue;
    config->*kMember = choice.value;
    return true;
  }
  return false;
}

template <auto kMember, const auto& kChoices>
std::string GetChoice(const Config& config) {
  for (const auto& choice : kChoices) {
    if (choice.value == config.*kMember) return std::string(choice.name);
  }
  return {};
}

template <auto kMember, Unit kUnit, uint64_t kMin, uint64_t kMax>
bool SetNumber(std::string_view value, Config* config) {
  uint64_t number = 0;
  if (!ParseNumber(value, kUnit, &number)) return false;
  if (number < kMin || number > kMax) return false;
  using Member = std::remove_reference_t<decltype(config->*kMember)>;
  config->*kMember = static_cast<Member>(number);
  return true;
}

template <auto kMember, Unit kUnit>
std::string GetNumber(const Config& config) {
  return FormatNumber(config.*kMember, kUnit);
}

template <auto kMember, uint64_t kMin, uint64_t kMax>
bool SetLimit(std::string_view value, Config* config) {
  if (value == kUnlimitedText) {
    config->*kMember = kUnlimited;
    return true;
  }
  return SetNumber<kMember, Unit::kNone, kMin, kMax>(value, config);
}

template <auto kMember>
std::string GetLimit(const Config& config) {
  if (config.*kMember == kUnlimited) return std::string(kUnlimitedText);
  return std::to_string(config.*kMember);
}

bool SetProfile(std::string_view value, Config* config) {
  if (!SetChoice<&Config::profile, kProfiles>(value, config)) return false;
  switch (config->profile) {
    case Profile::kNone:
      break;
    case Profile::kCuda:
      config->queue_depth = kMinQueueDepth;
      config->pageable = Pageable::kStaged;
      config->raw_free_syncs = true;
      config->fault_delivery_abort = false;
      config->fault_scope_process = true;
      break;
    case Profile::kHip:
      config->pageable = Pageable::kSync;
      config->raw_free_syncs = true;
      config->fault_delivery_abort = true;
      break;
  }
  return true;
}

bool SetGranularity(std::string_view value, Config* config) {
  uint64_t number = 0;
  if (!ParseNumber(value, Unit::kBytes, &number)) return false;
  if (number < kMinGranularity || number > kMaxGranularity) return false;
  if ((number & (number - 1)) != 0) return false;
  config->granularity = number;
  return true;
}

bool ParseLink(std::string_view text, std::pair<uint32_t, uint32_t>* link) {
  const char* end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, link->first);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != '-') {
    return false;
  }
  const auto second = std::from_chars(first.ptr + 1, end, link->second);
  return second.ec == std::errc() && second.ptr == end &&
         link->first < kMaxDevices && link->second < kMaxDevices &&
         link->first != link->second;
}

bool SetPeers(std::string_view value, Config* config) {
  if (SetChoice<&Config::peers, kTopologies>(value, config)) {
    config->peer_links.clear();
    return true;
  }
  std::vector<std::pair<uint32_t, uint32_t>> links;
  for (size_t at = 0; at <= value.size();) {
    const size_t plus = std::min(value.find('+', at), value.size());
    std::pair<uint32_t, uint32_t> link;
    if (!ParseLink(value.substr(at, plus - at), &link)) return false;
    links.push_back(link);
    at = plus + 1;
  }
  std::sort(links.begin(), links.end());
  links.erase(std::unique(links.begin(), links.end()), links.end());
  config->peers = Peers::kMatrix;
  config->peer_links = std::move(links);
  return true;
}

std::string GetPeers(const Config& config) {
  if (config.peers != Peers::kMatrix) {
    return GetChoice<&Config::peers, kTopologies>(config);
  }
  std::string text;
  for (const auto& [from, to] : config.peer_links) {
    if (!text.empty()) text += '+';
    text += std::to_string(from) + "-" + std::to_string(to);
  }
  return text.empty() ? "none" : text;
}

bool SetPriorities(std::string_view value, Config* config) {
  return ParseSpan(value, &config->priority_greatest, &config->priority_least);
}

std::string GetPriorities(const Config& config) {
  return std::to_string(config.priority_greatest) + ".." +
         std::to_string(config.priority_least);
}

struct Key {
  std::string_view name;
  const char* expected;
  bool (*set)(std::string_view value, Config* config);
  std::string (*get)(const Config& config);
};

template <auto kMember, const auto& kChoices>
constexpr Key ChoiceKey(std::string_view name, const char* expected) {
  return {name, expected, SetChoice<kMember, kChoices>,
          GetChoice<kMember, kChoices>};
}

template <auto kMember, Unit kUnit, uint64_t kMin, uint64_t kMax>
constexpr Key NumberKey(std::string_view name, const char* expected) {
  return {name, expected, SetNumber<kMember, kUnit, kMin, kMax>,
          GetNumber<kMember, kUnit>};
}

template <auto kMember>
constexpr Key TimeKey(std::string_view name) {
  return NumberKey<kMember, Unit::kTime, 0, kHour>(
      name, "a time from 0 to 3600s, such as 200ns or 3us");
}

template <auto kMember>
constexpr Key RateKey(std::string_view name) {
  return NumberKey<kMember, Unit::kRate, kMinRate, kMaxRate>(
      name, "bytes per second from 1KB/s to 1000TB/s, such as 55GB/s");
}

template <auto kMember, uint64_t kMin, uint64_t kMax>
constexpr Key LimitKey(std::string_view name, const char* expected) {
  return {name, expected, SetLimit<kMember, kMin, kMax>, GetLimit<kMember>};
}

// In the order of Config's members.  ConfigText prints the keys in this order,
// and the keys behind profile overwrite what it sets.
constexpr Key kKeys[] = {
    {"profile", "none, cuda or hip", SetProfile,
     GetChoice<&Config::profile, kProfiles>},
    NumberKey<&Config::devices, Unit::kNone, 1, kMaxDevices>(
        "devices", "a whole number from 1 to 64"),
    NumberKey<&Config::memory, Unit::kBytes, kMinMemory, kMaxMemory>(
        "memory", "a size from 1MiB to 1TiB, such as 256MiB"),
    NumberKey<&Config::overhead, Unit::kBytes, 1, kMaxMemory>(
        "overhead", "a size from 1B to below memory, such as 1MiB"),
    NumberKey<&Config::pinned, Unit::kBytes, kMinPinned, kMaxMemory>(
        "pinned", "a size from 4KiB to 1TiB, such as 1GiB"),
    {"granularity", "a power of two from 256B to 2MiB, such as 512B",
     SetGranularity, GetNumber<&Config::granularity, Unit::kBytes>},
    NumberKey<&Config::gap, Unit::kBytes, 0, kMaxGap>(
        "gap", "a size from 0 to 16MiB, such as 512B"),
    ChoiceKey<&Config::mode, kModes>("mode", "virtual or threaded"),
    ChoiceKey<&Config::strategy, kStrategies>("strategy",
                                              "hw, asap, alap, lifo or random"),
    NumberKey<&Config::seed, Unit::kNone, 0, kAny>("seed",
                                                   "a whole number below 2^64"),
    LimitKey<&Config::slots, 1, kMaxSlots>(
        "slots", "a whole number from 1 to 1024, or unlimited"),
    ChoiceKey<&Config::pageable, kPageables>("pageable",
                                             "explore, sync, staged or late"),
    ChoiceKey<&Config::poison, kPoisons>("poison", "full, edges or off"),
    {"peers",
     "all, ring, none, or links from-to between two devices joined by +, such "
     "as 0-1+1-0",
     SetPeers, GetPeers},
    LimitKey<&Config::queue_depth, kMinQueueDepth, kMaxQueueDepth>(
        "queue_depth", "a whole number of at least 1000, or unlimited"),
    ChoiceKey<&Config::fault_scope_process, kScopes>("fault_scope",
                                                     "device or process"),
    ChoiceKey<&Config::raw_free_syncs, kNoYes>("raw_free_syncs", "no or yes"),
    ChoiceKey<&Config::fault_delivery_abort, kDeliveries>("fault_delivery",
                                                          "status or abort"),
    ChoiceKey<&Config::strict_cuda, kStricts>("strict", "none or cuda"),
    NumberKey<&Config::split_limit, Unit::kBytes, 0, kMaxMemory>(
        "split_limit", "a size from 0 to 1TiB, such as 1MiB"),
    ChoiceKey<&Config::suballocation, kOffCheck>("suballocation",
                                                 "off or check"),
    ChoiceKey<&Config::host_access, kHostAccesses>("host_access",
                                                   "report, continue or off"),
    NumberKey<&Config::watchdog, Unit::kTime, kMillisecond, kHour>(
        "watchdog", "a time from 1ms to 3600s, such as 2s"),
    ChoiceKey<&Config::baton, kOnOff>("baton", "on or off"),
    ChoiceKey<&Config::pin, kOnOff>("pin", "on or off"),
    NumberKey<&Config::step_limit, Unit::kNone, 0, kAny>(
        "step_limit", "a whole number of steps, or 0 for no limit"),
    {"priorities", "greatest..least from -100 to 100, such as -5..0",
     SetPriorities, GetPriorities},
    ChoiceKey<&Config::invert_priorities, kNoYes>("invert_priorities",
                                                  "no or yes"),
    TimeKey<&Config::latency>("latency"),
    // C35: every operation takes more than 0.
    NumberKey<&Config::kernel, Unit::kTime, 1, kHour>(
        "kernel", "a time from 1ns to 3600s, such as 3us"),
    RateKey<&Config::h2d>("h2d"),
    RateKey<&Config::d2h>("d2h"),
    RateKey<&Config::p2p>("p2p"),
    RateKey<&Config::local>("local"),
    TimeKey<&Config::host_call>("host_call"),
};
constexpr size_t kKeyCount = std::size(kKeys);
constexpr size_t kProfileKey = 0;

using Given = std::array<bool, kKeyCount>;

size_t IndexOf(std::string_view name) {
  for (size_t i = 0; i < kKeyCount; ++i) {
    if (kKeys[i].name == name) return i;
  }
  return kKeyCount;
}

// Sets the key of `setting`, which is kKeys[index].  Returns a message about a
// mistake, or an empty text.
std::string Assign(const Setting& setting, size_t index, Config* config,
                   Given* given) {
  const Key& key = kKeys[index];
  if (!setting.value) {
    return internal::MissingValue(setting, kMark, key.expected);
  }
  if ((*given)[index]) {
    return "key " + QuotedSetting(setting.key) + " is given twice, now as " +
           QuotedSetting(*setting.value) + ": write it once";
  }
  (*given)[index] = true;
  return key.set(*setting.value, config)
             ? ""
             : internal::RefusedValue(setting, key.expected);
}

// Sets the profile if `profile` is true, all other keys if it is false.
bool AssignAll(std::string_view text, bool profile, Config* config,
               Given* given, std::string* error) {
  internal::SettingsReader reader(text, kMark);
  while (const std::optional<Setting> setting = reader.Next()) {
    const size_t index = IndexOf(setting->key);
    if (index == kKeyCount) {
      *error = internal::UnknownSetting(*setting, kMark, kKeys);
    } else if ((index == kProfileKey) == profile) {
      *error = Assign(*setting, index, config, given);
    }
    if (!error->empty()) return false;
  }
  return true;
}

// Checks keys against each other.
bool CheckTogether(const Given& given, Config* config, std::string* error) {
  const auto bytes = [](uint64_t n) { return FormatNumber(n, Unit::kBytes); };
  if (config->overhead >= config->memory) {
    constexpr uint64_t kShare = 8;
    if (given[IndexOf("overhead")]) {
      *error = internal::RefusedValue(
          {"overhead", bytes(config->overhead)},
          "a size below memory, which is " + bytes(config->memory));
      return false;
    }
    config->overhead = config->memory / kShare;
  }
  if (config->granularity > config->memory - config->overhead) {
    *error =
        internal::RefusedValue({"granularity", bytes(config->granularity)},
                               "at most memory - overhead, which is " +
                                   bytes(config->memory - config->overhead));
    return false;
  }
  for (const auto& [from, to] : config->peer_links) {
    if (std::max(from, to) < config->devices) continue;
    *error = internal::RefusedValue(
        {"peers", GetPeers(*config)},
        "links between numbers below devices, which is " +
            std::to_string(config->devices) + "; " + std::to_string(from) +
            "-" + std::to_string(to) + " is not such a link");
    return false;
  }
  return true;
}

}  // namespace

bool ParseConfig(std::string_view text, Config* config, std::string* error) {
  if (text.size() > kLongestText) {
    *error = "the configuration " + QuotedSetting(text) +
             " is too long: write at most " + std::to_string(kLongestText) +
             " bytes";
    return false;
  }
  Config next = *config;
  Given given = {};
  error->clear();
  if (!AssignAll(text, /*profile=*/true, &next, &given, error) ||
      !AssignAll(text, /*profile=*/false, &next, &given, error) ||
      !CheckTogether(given, &next, error)) {
    return false;
  }
  *config = std::move(next);
  return true;
}

std::string ConfigText(const Config& config) {
  std::string text;
  for (const Key& key : kKeys) {
    if (!text.empty()) text += ',';
    text.append(key.name).append(1, kMark).append(key.get(config));
  }
  return text;
}

uint64_t ConfigHash(const Config& config) {
  constexpr uint64_t kOffset = 0xcbf29ce484222325;  // FNV-1a
  constexpr uint64_t kPrime = 0x100000001b3;
  Config shared = config;
  shared.seed = Config{}.seed;
  shared.strategy = Config{}.strategy;
  uint64_t hash = kOffset;
  for (const char c : ConfigText(shared)) {
    hash = (hash ^ static_cast<unsigned char>(c)) * kPrime;
  }
  return hash;
}

}  // namespace devrt::mtia
