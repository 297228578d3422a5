// SPDX-License-Identifier: Apache-2.0
//
// Also SetMemoryResource and GetMemoryResource of
// devrt/memory/memory_resource.h.

#include "memory/resource/chosen_resource.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "devrt/memory/resources.h"
#include "devrt/runtime/mutex.h"
#include "memory/common/settings_state.h"
#include "runtime/registry/process_state.h"
#include "runtime/registry/records.h"

namespace devrt {
namespace {

// The resources that programs have set.
struct Chosen {
  Mutex mutex;
  std::map<internal::DeviceRecord*, std::shared_ptr<MemoryResource>> resources
      DEVRT_GUARDED_BY(mutex);

  static Chosen& Get() {
    static Chosen* const chosen = new Chosen;
    return *chosen;
  }
  std::shared_ptr<MemoryResource> Find(Device device) DEVRT_REQUIRES(mutex) {
    const auto found = resources.find(device.record());
    return found != resources.end() ? found->second : nullptr;
  }
};

}  // namespace

absl::Status SetMemoryResource(Device device,
                               std::shared_ptr<MemoryResource> resource) {
  if (internal::IsForkedChild()) return internal::ProcessClosedError();
  if (resource != nullptr && resource->device() != device) {
    return absl::InvalidArgumentError(absl::StrCat(
        "SetMemoryResource: a resource of ", resource->device().name(),
        " cannot serve ", device.name(), ": make one for it"));
  }
  Chosen& chosen = Chosen::Get();
  // The destructor of the former resource may run code of the program.
  std::shared_ptr<MemoryResource> former = std::move(resource);
  MutexLock lock(&chosen.mutex);
  // The next request finds out whether a resource is set.
  device.record()->has_resource.store(true);
  chosen.resources[device.record()].swap(former);
  return absl::OkStatus();
}

std::shared_ptr<MemoryResource> GetMemoryResource(Device device) {
  if (internal::IsForkedChild()) return CachingResource(device);
  Chosen& chosen = Chosen::Get();
  {
    MutexLock lock(&chosen.mutex);
    if (auto resource = chosen.Find(device)) return resource;
  }
  return internal::SourceResource(device);
}

namespace internal {

std::shared_ptr<MemoryResource> ResourceForRequest(Device device) {
  if (SettingsMistake().ok()) FixSettings(SettingsUse::kDeviceMemory);
  Chosen& chosen = Chosen::Get();
  {
    MutexLock lock(&chosen.mutex);
    if (auto resource = chosen.Find(device)) return resource;
    // The settings are fixed: this holds until a resource is set.
    device.record()->has_resource.store(!UsesCaching());
  }
  return SourceResource(device);
}

}  // namespace internal

}  // namespace devrt
