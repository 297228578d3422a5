// SPDX-License-Identifier: Apache-2.0
//
// The settings that count now, for the allocators.

#ifndef DEVRT_MEMORY_COMMON_SETTINGS_STATE_H_
#define DEVRT_MEMORY_COMMON_SETTINGS_STATE_H_

#include <memory>

#include "absl/status/status.h"
#include "devrt/memory/memory_resource.h"
#include "devrt/memory/settings.h"
#include "devrt/runtime/device.h"
#include "runtime/internal/records.h"

namespace devrt::internal {

// One load.  Stays valid for ever: equal settings are kept once, so that a
// program that goes back and forth holds two of them.
const AllocatorSettings& CurrentSettings();

// The mistake in DEVRT_ALLOC_CONF, the answer of every allocation; logged by
// the first that finds it.
const absl::Status& SettingsMistake();

// Whose first use ends the time in which a setting can be changed.
enum class SettingsUse { kDeviceMemory, kPinnedMemory };
// Returns the settings that hold from now on, as far as they are fixed.
const AllocatorSettings& FixSettings(SettingsUse use);

// Whether device memory comes from the caching allocator: by setting, and
// without a mistake in the settings.  Fixes nothing.
bool UsesCaching();
// The resource that the settings name, fixing nothing.  One that the backend
// lacks fails at its allocations.
std::shared_ptr<MemoryResource> SourceResource(Device device);
// GetMemoryResource for a request: fixes the settings, and notes on the record
// whether requests need to come here again.
std::shared_ptr<MemoryResource> ResourceForRequest(Device device);

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_COMMON_SETTINGS_STATE_H_
