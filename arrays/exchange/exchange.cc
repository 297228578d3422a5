// SPDX-License-Identifier: Apache-2.0

#include "devrt/arrays/exchange.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "arrays/storage/outside_use.h"
#include "devrt/runtime/log.h"

namespace devrt {

namespace {

class State {
 public:
  static State& Get() {
    static State* const state = new State;
    return *state;
  }

  // All settings in one word, because every exchange reads them.
  ExchangeSettings settings() const {
    const uint32_t word = word_.load(std::memory_order_acquire);
    ExchangeSettings settings;
    settings.strict = (word & 1) != 0;
    settings.managed_as_device = (word & 2) != 0;
    settings.cai_sync = (word & 4) != 0;
    settings.hip_cai = (word & 8) != 0;
    settings.cai_version = static_cast<int>(word >> 8 & 0xff);
    settings.release = static_cast<ExchangeSettings::Release>(word >> 16);
    return settings;
  }
  void Set(const ExchangeSettings& settings) {
    uint32_t word = settings.strict ? 1 : 0;
    if (settings.managed_as_device) word |= 2;
    if (settings.cai_sync) word |= 4;
    if (settings.hip_cai) word |= 8;
    word |= (static_cast<uint32_t>(settings.cai_version) & 0xff) << 8;
    word |= static_cast<uint32_t>(settings.release) << 16;
    word_.store(word, std::memory_order_release);
  }
  const std::string& mistakes() const { return mistakes_; }

 private:
  State() {
    ExchangeSettings settings;
    settings.strict = Read("DEVRT_DLPACK_STRICT", {"0", "1"}, 0) == 1;
    settings.managed_as_device =
        Read("DEVRT_DLPACK_MANAGED", {"managed", "device"}, 0) == 1;
    settings.release = static_cast<ExchangeSettings::Release>(
        Read("DEVRT_DLPACK_RELEASE", {"record", "trust", "sync"}, 0));
    settings.cai_version =
        2 + static_cast<int>(Read("DEVRT_CAI_EXPORT_VERSION", {"2", "3"}, 1));
    settings.cai_sync = Read("DEVRT_CAI_SYNC", {"0", "1"}, 1) == 1;
    settings.hip_cai = Read("DEVRT_HIP_CAI", {"0", "1"}, 0) == 1;
    Set(settings);
    if (!mistakes_.empty()) DEVRT_LOG(kWarning, mistakes_);
  }

  // The index of the choice that the variable names.
  size_t Read(const char* variable, std::initializer_list<const char*> choices,
              size_t usual) {
    const char* const text = std::getenv(variable);
    if (text == nullptr || *text == '\0') return usual;
    size_t i = 0;
    for (const char* choice : choices) {
      if (std::strcmp(choice, text) == 0) return i;
      ++i;
    }
    absl::StrAppend(&mistakes_, mistakes_.empty() ? "" : "; ", variable, "=",
                    text, " is not known, the choices are ",
                    absl::StrJoin(choices, ", "));
    return usual;
  }

  std::string mistakes_;
  std::atomic<uint32_t> word_{0};
};

}  // namespace

namespace internal {

ReleaseRule GetReleaseRule() {
  using Release = ExchangeSettings::Release;
  static_assert(static_cast<Release>(ReleaseRule::kTrust) == Release::kTrust);
  static_assert(static_cast<Release>(ReleaseRule::kSync) == Release::kSync);
  return static_cast<ReleaseRule>(GetExchangeSettings().release);
}

}  // namespace internal

ExchangeSettings GetExchangeSettings() { return State::Get().settings(); }

void SetExchangeSettings(const ExchangeSettings& settings) {
  State::Get().Set(settings);
}

absl::Status CheckExchangeEnvironment() {
  const std::string& mistakes = State::Get().mistakes();
  if (mistakes.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(mistakes);
}

}  // namespace devrt
