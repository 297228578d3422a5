// SPDX-License-Identifier: Apache-2.0

#include "arrays/storage/release_rule.h"

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace devrt::internal {

namespace {

struct State {
  static State& Get() {
    static State* const state = new State;
    return *state;
  }

  std::string mistake;
  std::atomic<ReleaseRule> rule{static_cast<ReleaseRule>(ReadChoice(
      "DEVRT_DLPACK_RELEASE", {"record", "trust", "sync"}, 0, &mistake))};
};

}  // namespace

ReleaseRule GetReleaseRule() {
  return State::Get().rule.load(std::memory_order_acquire);
}

void SetReleaseRule(ReleaseRule rule) {
  State::Get().rule.store(rule, std::memory_order_release);
}

const std::string& ReleaseRuleMistake() { return State::Get().mistake; }

size_t ReadChoice(const char* variable,
                  std::initializer_list<const char*> choices, size_t usual,
                  std::string* mistakes) {
  // A program with more rights than its user ignores the user's settings.
  const char* const text = secure_getenv(variable);
  if (text == nullptr || *text == '\0') return usual;
  size_t i = 0;
  for (const char* choice : choices) {
    if (std::strcmp(choice, text) == 0) return i;
    ++i;
  }
  absl::StrAppend(mistakes, mistakes->empty() ? "" : "; ", variable, "=", text,
                  " is not known, the choices are ",
                  absl::StrJoin(choices, ", "));
  return usual;
}

}  // namespace devrt::internal
