// SPDX-License-Identifier: Apache-2.0
#include "python/src/keep_current.h"

#include "python/src/gil.h"
#include "python/src/thread_state.h"

namespace devrt::python {

// Reads of the thread's own state: the GIL stays.
KeepCurrent::KeepCurrent() {
  for (const BackendEntry* backend : OpenedBackends()) {
    if (backend->devices.empty()) continue;
    const auto device = CurrentDevice(backend->backend);
    if (device.ok()) devices_.push_back(*device);
  }
  if (t_thread != nullptr) active_ = t_thread->active;
}

void KeepCurrent::Restore() {
  for (const Device device : devices_) {
    const auto now = CurrentDevice(device.backend());
    if (!now.ok() || *now == device) continue;
    // A device that was lost meanwhile cannot be current; its calls say so.
    WithoutLock([&] {
      SetCurrentDevice(device).IgnoreError();
      return 0;
    });
  }
  if (t_thread != nullptr) t_thread->active = active_;
}

}  // namespace devrt::python
