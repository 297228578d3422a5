// SPDX-License-Identifier: Apache-2.0

#include "devrt/memory/settings.h"

#include <atomic>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "devrt/runtime/log.h"
#include "devrt/runtime/mutex.h"
#include "devrt/runtime/status.h"
#include "memory/common/hot_settings.h"
#include "memory/common/settings_state.h"
#include "runtime/common/text.h"
#include "runtime/registry/process_state.h"

namespace devrt {
namespace {

using internal::SettingsUse;

constexpr char kVariable[] = "DEVRT_ALLOC_CONF";

std::atomic<internal::FractionHook> g_fraction_hook{nullptr};

class State {
 public:
  static State& Get() {
    static State* const state = [] {
      auto* const made = new State;
      made_.store(made, std::memory_order_release);
      return made;
    }();
    return *state;
  }
  // nullptr if there is none yet; does not wait for a thread that makes it.
  static const State* Existing() {
    return made_.load(std::memory_order_acquire);
  }

  const AllocatorSettings& now() const {
    return *now_.load(std::memory_order_acquire);
  }
  const absl::Status& mistake() {
    if (!mistake_.ok() && !is_logged_.exchange(true)) {
      DEVRT_LOG(kError, std::string(internal::ToStd(mistake_.message())));
    }
    return mistake_;
  }

  // Returns the fraction of memory if `text` names one.
  absl::StatusOr<std::optional<double>> Set(std::string_view text)
      DEVRT_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    // A text that names the fraction sets it even if the value is the present
    // setting: SetMemoryFraction may have changed the fraction since.
    constexpr double kNotNamed = -1;
    AllocatorSettings base = now();
    base.per_process_memory_fraction = kNotNamed;
    absl::StatusOr<AllocatorSettings> read = ParseAllocatorSettings(text, base);
    if (!read.ok()) {
      return internal::WithPrefix("allocator settings: ", read.status());
    }
    DEVRT_RETURN_IF_ERROR(CheckFixed(*read));
    std::optional<double> named;
    double& fraction = read->per_process_memory_fraction;
    if (fraction == kNotNamed) {
      fraction = now().per_process_memory_fraction;
    } else {
      named = fraction;
    }
    Use(*std::move(read));
    return named;
  }

  const AllocatorSettings& Fix(SettingsUse use) DEVRT_EXCLUDES(mutex_) {
    std::atomic<bool>& fixed = fixed_[static_cast<size_t>(use)];
    if (!fixed.load(std::memory_order_acquire)) {
      MutexLock lock(&mutex_);
      fixed.store(true, std::memory_order_release);
    }
    return now();
  }

 private:
  State() {
    MutexLock lock(&mutex_);
    AllocatorSettings settings;
    if (const char* text = secure_getenv("DEVRT_ALLOC_CONF")) {
      absl::StatusOr<AllocatorSettings> read = ParseAllocatorSettings(text);
      if (read.ok()) {
        settings = *std::move(read);
      } else {
        mistake_ =
            internal::WithPrefix(absl::StrCat(kVariable, ": "), read.status());
      }
    }
    Use(std::move(settings));
  }

  bool IsFixed(SettingsUse use) const {
    return fixed_[static_cast<size_t>(use)].load(std::memory_order_acquire);
  }

  absl::Status CheckFixed(const AllocatorSettings& next) const {
    const auto error = [](const char* key, const char* first) {
      return absl::FailedPreconditionError(
          absl::StrCat("allocator settings: \"", key,
                       "\" cannot be changed after the first ", first,
                       "; set it before, or in ", kVariable));
    };
    if (next.pinned_background != now().pinned_background &&
        IsFixed(SettingsUse::kPinnedMemory)) {
      return error("pinned_use_background_threads", "pinned allocation");
    }
    if (next.source != now().source && IsFixed(SettingsUse::kDeviceMemory)) {
      return error("backend", "allocation of device memory");
    }
    return absl::OkStatus();
  }

  void Use(AllocatorSettings settings) DEVRT_REQUIRES(mutex_) {
    std::string text = ToString(settings);
    const auto kept = kept_.emplace(std::move(text), std::move(settings)).first;
    now_.store(&kept->second, std::memory_order_release);
    internal::PublishSettings(kept->second);
  }

  static inline std::atomic<State*> made_{nullptr};
  absl::Status mistake_;  // never changes
  std::atomic<bool> is_logged_{false};
  std::atomic<bool> fixed_[2] = {};
  Mutex mutex_;
  // By their text.  Never removed, because readers hold references.
  std::map<std::string, AllocatorSettings> kept_ DEVRT_GUARDED_BY(mutex_);
  std::atomic<const AllocatorSettings*> now_{nullptr};
};

}  // namespace

namespace internal {

const AllocatorSettings& CurrentSettings() { return State::Get().now(); }

const absl::Status& SettingsMistake() { return State::Get().mistake(); }

const AllocatorSettings& FixSettings(SettingsUse use) {
  return State::Get().Fix(use);
}

void SetFractionHook(FractionHook hook) {
  g_fraction_hook.store(hook, std::memory_order_release);
}

bool UsesCaching() {
  return SettingsMistake().ok() &&
         CurrentSettings().source == AllocatorSettings::Source::kCaching;
}

}  // namespace internal

AllocatorSettings GetAllocatorSettings() {
  if (!internal::IsForkedChild()) return internal::CurrentSettings();
  const State* const state = State::Existing();
  return state != nullptr ? state->now() : AllocatorSettings();
}

absl::Status SetAllocatorSettings(std::string_view text) {
  if (internal::IsForkedChild()) return internal::ProcessClosedError();
  DEVRT_ASSIGN_OR_RETURN(const std::optional<double> fraction,
                         State::Get().Set(text));
  const internal::FractionHook hook =
      g_fraction_hook.load(std::memory_order_acquire);
  if (!fraction.has_value() || hook == nullptr) return absl::OkStatus();
  return hook(*fraction);
}

}  // namespace devrt
