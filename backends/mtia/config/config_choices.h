// SPDX-License-Identifier: Apache-2.0
//
// The names of the values that keys of the configuration take.

#ifndef DEVRT_BACKENDS_MTIA_CONFIG_CONFIG_CHOICES_H_
#define DEVRT_BACKENDS_MTIA_CONFIG_CONFIG_CHOICES_H_

#include <string_view>

#include "backends/mtia/config/config.h"

namespace devrt::mtia {

template <typename T>
struct Choice {
  std::string_view name;
  T value;
};

inline constexpr Choice<Profile> kProfiles[] = {
    {"none", Profile::kNone}, {"cuda", Profile::kCuda}, {"hip", Profile::kHip}};
inline constexpr Choice<Mode> kModes[] = {{"virtual", Mode::kVirtual},
                                          {"threaded", Mode::kThreaded}};
inline constexpr Choice<StrategyKind> kStrategies[] = {
    {"hw", StrategyKind::kHardware},   {"asap", StrategyKind::kAsap},
    {"alap", StrategyKind::kAlap},     {"lifo", StrategyKind::kLifo},
    {"random", StrategyKind::kRandom}, {"pos", StrategyKind::kPos},
    {"pct", StrategyKind::kPct},       {"directed", StrategyKind::kDirected}};
inline constexpr Choice<Pageable> kPageables[] = {
    {"explore", Pageable::kExplore},
    {"sync", Pageable::kSync},
    {"staged", Pageable::kStaged},
    {"late", Pageable::kLate}};
inline constexpr Choice<Poison> kPoisons[] = {
    {"full", Poison::kFull}, {"edges", Poison::kEdges}, {"off", Poison::kOff}};
inline constexpr Choice<Peers> kTopologies[] = {
    {"all", Peers::kAll}, {"ring", Peers::kRing}, {"none", Peers::kNone}};
inline constexpr Choice<HostAccess> kHostAccesses[] = {
    {"report", HostAccess::kReport},
    {"continue", HostAccess::kContinue},
    {"off", HostAccess::kOff}};
inline constexpr Choice<Mismatch> kMismatches[] = {
    {"report", Mismatch::kReport},
    {"hang", Mismatch::kHang},
    {"truncate", Mismatch::kTruncate}};
inline constexpr Choice<bool> kScopes[] = {{"device", false},
                                           {"process", true}};
inline constexpr Choice<bool> kDeliveries[] = {{"status", false},
                                               {"abort", true}};
inline constexpr Choice<bool> kStricts[] = {{"none", false}, {"cuda", true}};
inline constexpr Choice<bool> kNoYes[] = {{"no", false}, {"yes", true}};
inline constexpr Choice<bool> kWritten[] = {{"keep", false}, {"poison", true}};
inline constexpr Choice<bool> kOffCheck[] = {{"off", false}, {"check", true}};
inline constexpr Choice<bool> kOnOff[] = {{"on", true}, {"off", false}};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_CONFIG_CONFIG_CHOICES_H_
