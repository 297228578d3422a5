// SPDX-License-Identifier: Apache-2.0

#include "devrt/arrays/exchange.h"

#include <atomic>
#include <string>

#include "arrays/storage/release_rule.h"
#include "devrt/runtime/log.h"

namespace devrt {

namespace {

using internal::ReadChoice;
using internal::ReleaseRule;
using Release = ExchangeSettings::Release;

static_assert(static_cast<Release>(ReleaseRule::kTrust) == Release::kTrust);
static_assert(static_cast<Release>(ReleaseRule::kSync) == Release::kSync);

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
    settings.release = static_cast<Release>(word >> 16);
    return settings;
  }
  void Set(const ExchangeSettings& settings) {
    uint32_t word = settings.strict ? 1 : 0;
    if (settings.managed_as_device) word |= 2;
    if (settings.cai_sync) word |= 4;
    if (settings.hip_cai) word |= 8;
    word |= (static_cast<uint32_t>(settings.cai_version) & 0xff) << 8;
    word |= static_cast<uint32_t>(settings.release) << 16;
    internal::SetReleaseRule(static_cast<ReleaseRule>(settings.release));
    word_.store(word, std::memory_order_release);
  }
  const std::string& mistakes() const { return mistakes_; }

 private:
  State() {
    ExchangeSettings settings;
    settings.strict =
        ReadChoice("DEVRT_DLPACK_STRICT", {"0", "1"}, 0, &mistakes_) == 1;
    settings.managed_as_device =
        ReadChoice("DEVRT_DLPACK_MANAGED", {"managed", "device"}, 0,
                   &mistakes_) == 1;
    settings.release = static_cast<Release>(internal::GetReleaseRule());
    settings.cai_version =
        2 + static_cast<int>(ReadChoice("DEVRT_CAI_EXPORT_VERSION", {"2", "3"},
                                        1, &mistakes_));
    settings.cai_sync =
        ReadChoice("DEVRT_CAI_SYNC", {"0", "1"}, 1, &mistakes_) == 1;
    settings.hip_cai =
        ReadChoice("DEVRT_HIP_CAI", {"0", "1"}, 0, &mistakes_) == 1;
    Set(settings);
    if (!mistakes_.empty()) DEVRT_LOG(kWarning, mistakes_);
  }

  std::string mistakes_ = internal::ReleaseRuleMistake();
  std::atomic<uint32_t> word_{0};
};

}  // namespace

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
