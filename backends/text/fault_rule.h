// SPDX-License-Identifier: Apache-2.0
//
// The grammar of fault rules: which fault hits which call or operation.  The
// layer `faults` has the classes that are errors of calls, the simulator has
// the others.
//
//   rules = rule *("+" rule)
//   rule  = class *(":" key "=" value)
//
//   "oom:nth=2+api_error:call=copy_async:nth=3:code=INTERNAL"
//
// Blanks around a name and a value do not count, and a key is given once.
// faults::kKeys has the keys, and for each the classes that take it.  The name
// of an operation with a ':', '+' or ',' is written between "[" and "]"; it
// cannot have a "]" of its own before one of these.
//
// All is inline and needs the standard library alone, as backends link nothing
// else.

#ifndef DEVRT_BACKENDS_TEXT_FAULT_RULE_H_
#define DEVRT_BACKENDS_TEXT_FAULT_RULE_H_

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/text/fault_class.h"
#include "backends/text/settings.h"

namespace devrt::internal {

struct FaultRule {
  FaultClass kind = FaultClass::kApiError;
  std::string backend;  // empty: any
  std::optional<uint32_t> device;
  std::optional<uint32_t> rank;  // of a communicator; none: any
  std::string call;              // the entry point, "alloc"; empty: any
  std::string op;      // the name of the operation, "copy H2D"; empty: any
  std::string memory;  // of oom: device, pinned, pool; empty: any
  uint64_t bytes = 0;  // hits requests of at least so many
  // The rule counts what it matches.  It fires at the nth match and at those
  // that follow, `times` times in all; 0: without end.
  uint64_t nth = 1;
  uint64_t times = 1;
  uint64_t chance = kAlways;  // in millionths, of each match from the nth on
  uint64_t seed = 0;          // of the chance, in the layer
  std::string code;           // of devrt, "INTERNAL"; empty: that of the class
  int64_t native = 0;         // the vendor's number; 0: that of the class
  bool late = false;          // the call has its effect, and returns the error
  uint64_t at = 0;            // nanoseconds of the virtual clock
  std::optional<std::pair<uint32_t, uint32_t>> link;  // two devices
  uint64_t factor = 2;                                // of the duration
  uint64_t timeout = 0;  // nanoseconds, after which a hang is a fault; 0: never
  uint64_t by = 1'000'000;  // nanoseconds, by which a rank is late
  bool flips = false;       // of ecc: a bit flips and no error says so

  static constexpr uint64_t kAlways = 1'000'000;
};

namespace faults {

template <typename Number>
bool ReadNumber(std::string_view text, Number* out) {
  const char* const end = text.data() + text.size();
  Number number = 0;
  const auto [at, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || at != end) return false;
  *out = number;
  return true;
}

// "20us"; a bare number is nanoseconds.
inline bool ReadTime(std::string_view text, uint64_t* out) {
  constexpr std::pair<std::string_view, uint64_t> kUnits[] = {
      {"ns", 1}, {"us", 1'000}, {"ms", 1'000'000}, {"s", 1'000'000'000}};
  uint64_t unit = 1;
  for (const auto& [name, value] : kUnits) {
    if (text.size() <= name.size() ||
        text.substr(text.size() - name.size()) != name) {
      continue;
    }
    unit = value;
    text.remove_suffix(name.size());
    break;
  }
  uint64_t number = 0;
  if (!ReadNumber(text, &number) || number > UINT64_MAX / unit) return false;
  *out = number * unit;
  return true;
}

// "0.25" in millionths; digits behind the sixth are refused.
inline bool ReadChance(std::string_view text, uint64_t* out) {
  constexpr size_t kDigits = 6;
  if (text == "1" || text == "1.0") {
    *out = FaultRule::kAlways;
    return true;
  }
  if (text.substr(0, 2) != "0." || text.size() == 2) return false;
  text.remove_prefix(2);
  if (text.size() > kDigits) return false;
  std::string digits(text);
  digits.resize(kDigits, '0');
  return ReadNumber(digits, out) && *out > 0;
}

inline std::string ChanceText(uint64_t chance) {
  if (chance == FaultRule::kAlways) return "1";
  std::string digits = std::to_string(FaultRule::kAlways + chance).substr(1);
  digits.erase(digits.find_last_not_of('0') + 1);
  return "0." + digits;
}

// The first `mark` outside of brackets at or behind `begin`, or the end.
inline size_t EndOfPart(std::string_view text, size_t begin, char mark) {
  bool inside = false;
  size_t end = begin;
  for (; end < text.size() && (inside || text[end] != mark); ++end) {
    if (text[end] == '[') inside = true;
    if (text[end] == ']') inside = false;
  }
  return end;
}

inline bool IsBracketed(std::string_view text) {
  return text.size() > 2 && text.front() == '[' && text.back() == ']';
}

struct Key {
  std::string_view name;
  uint32_t classes;  // Bit() of those that take the key
  const char* expected;
  bool (*set)(std::string_view value, FaultRule* rule);
  std::string (*get)(const FaultRule& rule);
};

inline bool SetName(std::string_view value, std::string* out) {
  *out = std::string(value);
  return !value.empty();
}

inline constexpr Key kKeys[] = {
    {"backend", kOfCalls, "the name of a backend, such as cuda",
     [](std::string_view v, FaultRule* r) { return SetName(v, &r->backend); },
     [](const FaultRule& r) { return r.backend; }},
    {"call", Bit(FaultClass::kApiError), "an entry point, such as copy_async",
     [](std::string_view v, FaultRule* r) { return SetName(v, &r->call); },
     [](const FaultRule& r) { return r.call; }},
    {"memory", Bit(FaultClass::kOom), "device, pinned or pool",
     [](std::string_view v, FaultRule* r) {
       return SetName(v, &r->memory) &&
              (v == "device" || v == "pinned" || v == "pool");
     },
     [](const FaultRule& r) { return r.memory; }},
    {"op", kOfOperations, "the name of an operation, such as copy H2D",
     [](std::string_view v, FaultRule* r) {
       if (IsBracketed(v)) v = v.substr(1, v.size() - 2);
       return SetName(v, &r->op);
     },
     [](const FaultRule& r) {
       const bool is_plain =
           r.op.find_first_of(":+,") == r.op.npos && !IsBracketed(r.op);
       return is_plain ? r.op : "[" + r.op + "]";
     }},
    {"device", kOfDevices, "the number of a device, from 0",
     [](std::string_view v, FaultRule* r) {
       return ReadNumber(v, &r->device.emplace());
     },
     [](const FaultRule& r) {
       return r.device ? std::to_string(*r.device) : std::string();
     }},
    {"rank", kOfRanks, "the number of a rank, from 0",
     [](std::string_view v, FaultRule* r) {
       return ReadNumber(v, &r->rank.emplace());
     },
     [](const FaultRule& r) {
       return r.rank ? std::to_string(*r.rank) : std::string();
     }},
    {"link", Bit(FaultClass::kLinkDown), "two devices, such as 0-1",
     [](std::string_view v, FaultRule* r) {
       const size_t mark = v.find('-');
       auto& link = r->link.emplace();
       return mark != v.npos && ReadNumber(v.substr(0, mark), &link.first) &&
              ReadNumber(v.substr(mark + 1), &link.second) &&
              link.first != link.second;
     },
     [](const FaultRule& r) {
       return r.link ? std::to_string(r.link->first) + "-" +
                           std::to_string(r.link->second)
                     : std::string();
     }},
    {"bytes", kOfCalls | Bit(FaultClass::kFragmentation),
     "a whole number of bytes",
     [](std::string_view v, FaultRule* r) { return ReadNumber(v, &r->bytes); },
     [](const FaultRule& r) {
       return r.bytes == 0 ? std::string() : std::to_string(r.bytes);
     }},
    {"nth", kCounting, "a whole number from 1",
     [](std::string_view v, FaultRule* r) {
       return ReadNumber(v, &r->nth) && r->nth > 0;
     },
     [](const FaultRule& r) {
       return r.nth == 1 ? std::string() : std::to_string(r.nth);
     }},
    {"times", kCounting & ~Bit(FaultClass::kDeviceLost),
     "a whole number; 0: without end",
     [](std::string_view v, FaultRule* r) { return ReadNumber(v, &r->times); },
     [](const FaultRule& r) {
       return r.times == 1 ? std::string() : std::to_string(r.times);
     }},
    {"by", Bit(FaultClass::kRankLate), "a time, such as 20us",
     [](std::string_view v, FaultRule* r) { return ReadTime(v, &r->by); },
     [](const FaultRule& r) {
       return r.by == FaultRule().by ? std::string()
                                     : std::to_string(r.by) + "ns";
     }},
    {"p", kCounting & ~Bit(FaultClass::kSlow) & ~Bit(FaultClass::kDeviceLost),
     "a probability above 0 and up to 1, such as 0.25",
     [](std::string_view v, FaultRule* r) { return ReadChance(v, &r->chance); },
     [](const FaultRule& r) {
       return r.chance == FaultRule::kAlways ? std::string()
                                             : ChanceText(r.chance);
     }},
    {"seed", kOfCalls, "a whole number below 2^64",
     [](std::string_view v, FaultRule* r) { return ReadNumber(v, &r->seed); },
     [](const FaultRule& r) {
       return r.seed == 0 ? std::string() : std::to_string(r.seed);
     }},
    {"code", Bit(FaultClass::kApiError), "the name of a code but OK",
     [](std::string_view v, FaultRule* r) {
       return SetName(v, &r->code) &&
              std::any_of(std::begin(kFaultCodes), std::end(kFaultCodes),
                          [v](const FaultCode& c) { return c.name == v; });
     },
     [](const FaultRule& r) { return r.code; }},
    {"native", kOfCalls | Bit(FaultClass::kKernelFault),
     "the vendor's number of an error, not 0",
     [](std::string_view v, FaultRule* r) {
       return ReadNumber(v, &r->native) && r->native != 0;
     },
     [](const FaultRule& r) {
       return r.native == 0 ? std::string() : std::to_string(r.native);
     }},
    {"late", Bit(FaultClass::kApiError), "yes or no",
     [](std::string_view v, FaultRule* r) {
       r->late = v == "yes";
       return v == "yes" || v == "no";
     },
     [](const FaultRule& r) { return std::string(r.late ? "yes" : ""); }},
    {"at",
     Bit(FaultClass::kDeviceLost) | Bit(FaultClass::kLinkDown) |
         Bit(FaultClass::kSlow),
     "a time of the virtual clock, such as 20us",
     [](std::string_view v, FaultRule* r) { return ReadTime(v, &r->at); },
     [](const FaultRule& r) {
       return r.at == 0 ? std::string() : std::to_string(r.at) + "ns";
     }},
    {"factor", Bit(FaultClass::kSlow), "a whole number from 2 to 1000000",
     [](std::string_view v, FaultRule* r) {
       return ReadNumber(v, &r->factor) && r->factor >= 2 &&
              r->factor <= 1'000'000;
     },
     [](const FaultRule& r) {
       return r.factor == 2 ? std::string() : std::to_string(r.factor);
     }},
    {"timeout", Bit(FaultClass::kHang),
     "a time after which the device gives up, such as 2s",
     [](std::string_view v, FaultRule* r) { return ReadTime(v, &r->timeout); },
     [](const FaultRule& r) {
       return r.timeout == 0 ? std::string() : std::to_string(r.timeout) + "ns";
     }},
    {"mode", Bit(FaultClass::kEcc), "error or flip",
     [](std::string_view v, FaultRule* r) {
       r->flips = v == "flip";
       return v == "flip" || v == "error";
     },
     [](const FaultRule& r) { return std::string(r.flips ? "flip" : ""); }},
};

// The keys that `kind` takes, as a table for UnknownSetting.
inline std::vector<Key> KeysOf(FaultClass kind) {
  std::vector<Key> keys;
  for (const Key& key : kKeys) {
    if ((key.classes & Bit(kind)) != 0) keys.push_back(key);
  }
  return keys;
}

// Sets `rule->kind`.  Returns a message about a mistake, or an empty text.
inline std::string SetClass(std::string_view name, bool of_calls,
                            FaultRule* rule) {
  std::string names;
  for (const FaultClassName& known : kFaultClasses) {
    if (known.is_of_calls == of_calls) {
      if (known.name == name) {
        rule->kind = known.kind;
        return "";
      }
      names.append(names.empty() ? "" : ", ").append(known.name);
      continue;
    }
    if (known.name != name) continue;
    const std::string start =
        "faults of the class " + QuotedSetting(name) + " are ";
    return of_calls ? start +
                          "made by the simulator: write them into the key "
                          "faults of DEVRT_MTIA"
                    : start +
                          "made by the layer faults: write them into "
                          "DEVRT_FAULTS, with faults in DEVRT_LAYERS";
  }
  return "no class of faults has the name " + QuotedSetting(name) +
         "; the classes are " + names;
}

// Sets one key of `rule`, whose class is set.  Returns a message about a
// mistake, or an empty text.
inline std::string SetKey(const Setting& setting, FaultRule* rule) {
  const std::vector<Key> keys = KeysOf(rule->kind);
  for (const Key& key : keys) {
    if (key.name != setting.key) continue;
    if (!setting.value) return MissingValue(setting, '=', key.expected);
    return key.set(*setting.value, rule) ? ""
                                         : RefusedValue(setting, key.expected);
  }
  return "faults of the class " + std::string(NameOf(rule->kind)) + ": " +
         UnknownSetting(setting, '=', keys);
}

// Checks keys against each other, and sets defaults that depend on others.
inline std::string FinishRule(bool has_times, FaultRule* rule) {
  if (!has_times &&
      (rule->chance != FaultRule::kAlways || HasNoEnd(rule->kind))) {
    rule->times = 0;
  }
  if (rule->kind == FaultClass::kLinkDown && !rule->link) {
    return "a fault of the class link_down has no key \"link\": write "
           "link=0-1 for the devices 0 and 1";
  }
  return "";
}

inline std::string ParseRule(std::string_view text, bool of_calls,
                             FaultRule* rule) {
  size_t end = EndOfPart(text, 0, ':');
  std::string error = SetClass(Trimmed(text.substr(0, end)), of_calls, rule);
  std::vector<std::string_view> seen;
  while (error.empty() && end < text.size()) {
    const size_t begin = end + 1;
    end = EndOfPart(text, begin, ':');
    const std::string_view whole = Trimmed(text.substr(begin, end - begin));
    const size_t mark = whole.find('=');
    Setting setting;
    setting.at = begin;
    setting.key = Trimmed(whole.substr(0, mark));
    if (mark != whole.npos) setting.value = Trimmed(whole.substr(mark + 1));
    if (std::find(seen.begin(), seen.end(), setting.key) != seen.end()) {
      return "key " + QuotedSetting(setting.key) + " is given twice";
    }
    seen.push_back(setting.key);
    error = SetKey(setting, rule);
  }
  const bool has_times =
      std::find(seen.begin(), seen.end(), "times") != seen.end();
  return error.empty() ? FinishRule(has_times, rule) : error;
}

}  // namespace faults

// Reads rules: of the classes of calls if `of_calls`, else of the others.  On a
// mistake returns false, leaves `*rules`, and sets `*error` to a message that
// names what is wrong, and the choices.
inline bool ParseFaultRules(std::string_view text, bool of_calls,
                            std::vector<FaultRule>* rules, std::string* error) {
  std::vector<FaultRule> read;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = faults::EndOfPart(text, begin, '+');
    const std::string_view part = Trimmed(text.substr(begin, end - begin));
    begin = end + 1;
    if (part.empty()) continue;
    *error = faults::ParseRule(part, of_calls, &read.emplace_back());
    if (!error->empty()) {
      *error = "fault " + QuotedSetting(part) + ": " + *error;
      return false;
    }
  }
  *rules = std::move(read);
  return true;
}

// The text of `rule`, which ParseFaultRules reads.
inline std::string FaultRuleText(const FaultRule& rule) {
  std::string text(faults::NameOf(rule.kind));
  for (const faults::Key& key : faults::kKeys) {
    if ((key.classes & faults::Bit(rule.kind)) == 0) continue;
    std::string value = key.get(rule);
    const bool has_default_times =
        key.name == "times" &&
        (rule.chance != FaultRule::kAlways || faults::HasNoEnd(rule.kind));
    if (has_default_times) {
      value = rule.times == 0 ? "" : std::to_string(rule.times);
    }
    if (!value.empty()) {
      text.append(":").append(key.name).append("=").append(value);
    }
  }
  return text;
}

inline std::string FaultRulesText(const std::vector<FaultRule>& rules) {
  std::string text;
  for (const FaultRule& rule : rules) {
    text += (text.empty() ? "" : "+") + FaultRuleText(rule);
  }
  return text;
}

// Counts what a rule matches, and says when it fires.
class FaultCounter {
 public:
  // True if the present match is one at which the rule fires, but for its
  // chance, which the caller draws for such a match.
  bool Matches(const FaultRule& rule) {
    ++matches_;
    return matches_ >= rule.nth && (rule.times == 0 || fired_ < rule.times);
  }
  void Fire() { ++fired_; }
  uint64_t matches() const { return matches_; }
  uint64_t fired() const { return fired_; }

 private:
  uint64_t matches_ = 0;
  uint64_t fired_ = 0;
};

}  // namespace devrt::internal

#endif  // DEVRT_BACKENDS_TEXT_FAULT_RULE_H_
