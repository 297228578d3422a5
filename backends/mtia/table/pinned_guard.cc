// SPDX-License-Identifier: Apache-2.0
//
// devrt.pinned_guard/0.  These calls do not enter the machine: a detector makes
// them inside other calls, and they must not change the schedule.
#include "backends/mtia/memory/pinned_guard.h"

#include "backends/mtia/engine/machine.h"
#include "backends/mtia/engine/user_code.h"
#include "backends/mtia/table/backend.h"
#include "devrt/backends/abi/devrt_plugin_helper.h"

namespace devrt::mtia {
namespace {

bool RunsUserCode() { return t_user_code != nullptr; }

PinnedGuard* Guard() {
  Memory* const memory = g_machine->memory.IfMade();
  return memory != nullptr ? memory->pinned_guard() : nullptr;
}

}  // namespace

devrt_status Backend::guard_enable() {
  if (g_machine->memory.IfMade() != nullptr && Guard() == nullptr) {
    return MakeError(DEVRT_FAILED_PRECONDITION, 0,
                     "memory was allocated before the guard was enabled");
  }
  PinnedGuard::Enable(&RunsUserCode);
  return nullptr;
}

devrt_status Backend::guard_protect(void* ptr, uint64_t size, uint32_t access) {
  PinnedGuard* const guard = Guard();
  if (guard != nullptr && guard->Protect(ptr, size, access)) return nullptr;
  return InvalidArgument("the range is not whole pages of guarded memory");
}

devrt_status Backend::guard_take_touches(devrt_host_touch_v0* touches,
                                         uint32_t capacity, uint32_t* taken) {
  PinnedGuard* const guard = Guard();
  *taken = guard != nullptr ? guard->Take(touches, capacity) : 0;
  return nullptr;
}

const devrt_pinned_guard_v0 kPinnedGuardTable = {
    sizeof(devrt_pinned_guard_v0),
    0,
    devrt::plugin::Thunk<&Backend::guard_enable>,
    devrt::plugin::Thunk<&Backend::guard_protect>,
    devrt::plugin::Thunk<&Backend::guard_take_touches>,
};

}  // namespace devrt::mtia
