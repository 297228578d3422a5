// SPDX-License-Identifier: Apache-2.0
//
// The present settings, for the allocators.

#ifndef DEVRT_MEMORY_COMMON_SETTINGS_STATE_H_
#define DEVRT_MEMORY_COMMON_SETTINGS_STATE_H_

#include "absl/status/status.h"
#include "devrt/memory/settings.h"

namespace devrt::internal {

// Costs one load.  The reference stays valid for ever: equal settings are
// stored once, so a program that switches between two values stores two.
const AllocatorSettings& CurrentSettings();

// The mistake in DEVRT_ALLOC_CONF, which every allocation returns, or OK.  The
// first call logs it.
const absl::Status& SettingsMistake();

// The kind of memory whose first use fixes some of the settings.
enum class SettingsUse { kDeviceMemory, kPinnedMemory };
// Fixes the settings that may not change after the first use, and returns all.
const AllocatorSettings& FixSettings(SettingsUse use);

// Returns true if the settings choose the caching allocator for device memory,
// and have no mistake.  Fixes nothing.
bool UsesCaching();

// Sets the fraction of memory of all devices.  SetAllocatorSettings calls the
// hook if its text names the fraction and the hook is set.  The hook is set
// before the first allocator exists.
using FractionHook = absl::Status (*)(double fraction);
void SetFractionHook(FractionHook hook);

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_COMMON_SETTINGS_STATE_H_
