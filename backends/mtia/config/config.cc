// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/config/config.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <optional>
#include <type_traits>

#include "backends/mtia/config/config_choices.h"
#include "backends/mtia/config/config_faults.h"
#include "backends/mtia/config/config_values.h"
#include "backends/mtia/config/profile.h"
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
constexpr uint64_t kMaxQueueDepth = 1'000'000'000;
constexpr uint64_t kMillisecond = 1'000'000;
constexpr uint64_t kHour = 3600 * 1000 * kMillisecond;
constexpr uint64_t kMaxChanges = 100;
constexpr uint64_t kMaxJitter = 90;
constexpr uint64_t kMinRate = 1000;
constexpr uint64_t kMaxRate = 1'000'000'000'000'000;
constexpr uint64_t kAny = ~uint64_t{0};
constexpr std::string_view kUnlimitedText = "unlimited";
constexpr std::string_view kAutoText = "auto";
constexpr std::string_view kNoOp = "none";
constexpr const char* kOpText =
    "none, or an operation as thread.index, such as 0.12";

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

template <auto kMember, uint64_t kMin, uint64_t kMax, const auto& kWord>
bool SetLimit(std::string_view value, Config* config) {
  if (value == kWord) {
    config->*kMember = kUnlimited;
    return true;
  }
  return SetNumber<kMember, Unit::kNone, kMin, kMax>(value, config);
}

template <auto kMember, const auto& kWord>
std::string GetLimit(const Config& config) {
  if (config.*kMember == kUnlimited) return std::string(kWord);
  return std::to_string(config.*kMember);
}

bool SetProfile(std::string_view value, Config* config) {
  if (!SetChoice<&Config::profile, kProfiles>(value, config)) return false;
  ApplyProfile(config);
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

bool SetPeers(std::string_view value, Config* config) {
  if (SetChoice<&Config::peers, kTopologies>(value, config)) {
    config->peer_links.clear();
    return true;
  }
  std::vector<std::pair<uint32_t, uint32_t>> links;
  if (!ParseLinks(value, kMaxDevices, &links)) return false;
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

template <auto kMember>
bool SetOp(std::string_view value, Config* config) {
  if (value == kNoOp) {
    (config->*kMember).reset();
    return true;
  }
  OpId op;
  if (!ParsePair(value, &op.thread, &op.index)) return false;
  config->*kMember = op;
  return true;
}

template <auto kMember>
std::string GetOp(const Config& config) {
  const std::optional<OpId>& op = config.*kMember;
  if (!op) return std::string(kNoOp);
  return std::to_string(op->thread) + "." + std::to_string(op->index);
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
  // What is wrong with a value that `set` refused; nullptr: that it is none of
  // `expected`.
  std::string (*why)(std::string_view value) = nullptr;
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

template <auto kMember, uint64_t kMin, uint64_t kMax,
          const auto& kWord = kUnlimitedText>
constexpr Key LimitKey(std::string_view name, const char* expected) {
  return {name, expected, SetLimit<kMember, kMin, kMax, kWord>,
          GetLimit<kMember, kWord>};
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
    ChoiceKey<&Config::strategy, kStrategies>(
        "strategy", "hw, asap, alap, lifo, random, pos, pct or directed"),
    NumberKey<&Config::changes, Unit::kNone, 0, kMaxChanges>(
        "changes", "a whole number from 0 to 100"),
    {"hold", kOpText, SetOp<&Config::hold>, GetOp<&Config::hold>},
    {"until", kOpText, SetOp<&Config::until>, GetOp<&Config::until>},
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
    {"faults",
     "none, rules such as kernel_fault:nth=2 joined by +, JSON, or a path",
     SetFaults, GetFaults, WhyNotFaults},
    NumberKey<&Config::split_limit, Unit::kBytes, 0, kMaxMemory>(
        "split_limit", "a size from 0 to 1TiB, such as 1MiB"),
    ChoiceKey<&Config::poison_written, kWritten>("written", "keep or poison"),
    ChoiceKey<&Config::suballocation, kOffCheck>("suballocation",
                                                 "off or check"),
    ChoiceKey<&Config::outcome, kOnOff>("outcome", "on or off"),
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
    NumberKey<&Config::copy, Unit::kTime, 1, kHour>(
        "copy", "a time from 1ns to 3600s, such as 1us"),
    NumberKey<&Config::jitter, Unit::kNone, 0, kMaxJitter>(
        "jitter", "a whole number of percent from 0 to 90"),
    RateKey<&Config::h2d>("h2d"),
    RateKey<&Config::d2h>("d2h"),
    RateKey<&Config::p2p>("p2p"),
    RateKey<&Config::local>("local"),
    TimeKey<&Config::host_call>("host_call"),
    LimitKey<&Config::collective_slots, 1, kMaxSlots, kAutoText>(
        "collective_slots", "a whole number from 1 to 1024, or auto"),
    ChoiceKey<&Config::collective_mismatch, kMismatches>(
        "collective_mismatch", "report, hang or truncate"),
    TimeKey<&Config::collective_skew>("collective_skew"),
    TimeKey<&Config::collective_alpha>("collective_alpha"),
    NumberKey<&Config::collective_node, Unit::kNone, 1, kMaxDevices>(
        "collective_node", "a whole number of devices from 1 to 64"),
    RateKey<&Config::collective_link>("collective_link"),
    RateKey<&Config::collective_nic>("collective_nic"),
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
  if (key.set(*setting.value, config)) return "";
  return key.why != nullptr ? key.why(*setting.value)
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

// Strategy directed has both operations, and no other strategy has one.
bool CheckDirected(const Config& config, std::string* error) {
  const bool directed = config.strategy == StrategyKind::kDirected;
  for (const auto& [key, op] :
       {std::pair("hold", config.hold), std::pair("until", config.until)}) {
    if (op.has_value() == directed) continue;
    const std::string value = std::string(kKeys[IndexOf(key)].get(config));
    *error = internal::RefusedValue(
        {key, value}, directed ? "thread.index with strategy=directed, which "
                                 "holds one operation until another is complete"
                               : "none, because only strategy=directed holds "
                                 "an operation");
    return false;
  }
  if (directed && *config.hold == *config.until) {
    *error = internal::RefusedValue({"until", GetOp<&Config::until>(config)},
                                    "another operation than hold");
    return false;
  }
  return true;
}

// Checks keys against each other.
bool CheckTogether(const Given& given, Config* config, std::string* error) {
  if (!CheckDirected(*config, error) || !CheckFaults(*config, error)) {
    return false;
  }
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

namespace {

bool CountsForHash(std::string_view key) {
  for (const std::string_view other : {"seed", "strategy", "changes", "hold",
                                       "until", "outcome", "step_limit"}) {
    if (key == other) return false;
  }
  return true;
}

}  // namespace

uint64_t ConfigHash(const Config& config) {
  constexpr uint64_t kOffset = 0xcbf29ce484222325;  // FNV-1a
  constexpr uint64_t kPrime = 0x100000001b3;
  uint64_t hash = kOffset;
  const auto add = [&hash](std::string_view text) {
    for (const char c : text) {
      hash = (hash ^ static_cast<unsigned char>(c)) * kPrime;
    }
  };
  for (const Key& key : kKeys) {
    if (!CountsForHash(key.name)) continue;
    add(key.name);
    add(key.get(config));
  }
  return hash;
}

std::string ConfigDifference(const Config& config, uint64_t wanted) {
  const Config defaults;
  std::string here;
  for (const Key& key : kKeys) {
    const std::string value = key.get(config);
    const std::string usual = key.get(defaults);
    if (value == usual || !CountsForHash(key.name)) continue;
    Config other = config;
    if (key.set(usual, &other) && ConfigHash(other) == wanted) {
      return std::string(key.name) + "=" + value + " here, " + usual + " there";
    }
    here += (here.empty() ? "" : ",") + std::string(key.name) + "=" + value;
  }
  if (here.empty()) return "here all keys have their default";
  if (ConfigHash(defaults) == wanted) {
    return "here " + here + ", there all keys have their default";
  }
  return "here the keys without their default are " + here;
}

}  // namespace devrt::mtia
