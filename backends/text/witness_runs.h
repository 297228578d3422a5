// SPDX-License-Identifier: Apache-2.0
//
// The configurations of the runs by which a witness shows a race on the
// simulator, in the syntax of DEVRT_MTIA.  `given` is the user's configuration,
// whose other keys stay.
//
// All is inline and needs the standard library alone.

#ifndef DEVRT_BACKENDS_TEXT_WITNESS_RUNS_H_
#define DEVRT_BACKENDS_TEXT_WITNESS_RUNS_H_

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "backends/text/settings.h"

namespace devrt::internal {

// `given` without the settings that have one of the keys.
inline std::string WithoutKeys(std::string_view given,
                               std::initializer_list<std::string_view> keys) {
  std::string text;
  SettingsReader reader(given, '=');
  while (const std::optional<Setting> setting = reader.Next()) {
    if (std::find(keys.begin(), keys.end(), setting->key) != keys.end()) {
      continue;
    }
    if (!text.empty()) text += ',';
    text += setting->key;
    // Without a mark the setting is wrong, and the simulator says so.
    if (setting->value.has_value()) {
      text += '=';
      text += *setting->value;
    }
  }
  return text;
}

// The configuration with which a token of such a run is repeated.  Only the
// virtual mode, the default, has schedules that can be chosen.
inline std::string ReplayedMachine(std::string_view given) {
  return WithoutKeys(given, {"mode"});
}

// `given` without the keys that choose a schedule, and with a comma at the end
// if there are others.
inline std::string WithoutSchedule(std::string_view given) {
  std::string text = WithoutKeys(given, {"mode", "strategy", "seed", "hold",
                                         "until", "changes", "outcome"});
  if (!text.empty()) text += ',';
  return text;
}

// Each operation completes when it is submitted.
inline std::string ReferenceRun(std::string_view given) {
  return WithoutSchedule(given) + "strategy=asap,outcome=on";
}

// The directed run of this number, from 1: operation `hold` waits for the end
// of operation `until`.  In every fourth run it is the other way round, since
// the later operation may be the first one in the reference run.
inline std::string DirectedRun(std::string_view given, uint64_t seed,
                               int number, const std::string& hold,
                               const std::string& until) {
  const bool swapped = number % 4 == 0;
  return WithoutSchedule(given) +
         "strategy=directed,seed=" + std::to_string(seed) +
         ",hold=" + (swapped ? until : hold) +
         ",until=" + (swapped ? hold : until) + ",outcome=on";
}

}  // namespace devrt::internal

#endif  // DEVRT_BACKENDS_TEXT_WITNESS_RUNS_H_
