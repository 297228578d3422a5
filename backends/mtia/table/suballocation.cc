// SPDX-License-Identifier: Apache-2.0
//
// devrt.suballocation/0.  These calls do not enter the machine: they may come
// with each allocation of a program, and must not change the schedule.
#include "backends/mtia/engine/machine.h"
#include "backends/mtia/memory/suballocations.h"
#include "backends/mtia/table/backend.h"
#include "devrt/backends/abi/devrt_plugin_helper.h"

namespace devrt::mtia {
namespace {

// The suballocations of the device in whose window `ptr` is; nullptr with
// `*error` set if it is in none.
Suballocations* SuballocationsAt(const void* ptr, uint64_t* offset,
                                 devrt_status* error) {
  Memory* const memory = g_machine->memory.IfMade();
  Suballocations* const parts =
      memory != nullptr ? memory->SuballocationsAt(ptr, offset) : nullptr;
  if (parts == nullptr)
    *error = InvalidArgument("the address is not device memory");
  return parts;
}

// With outcome=on alone the calls only tell which blocks are carved, and check
// nothing.
bool Checks() { return g_machine->config.suballocation; }

uint64_t Now() { return g_machine->scheduler.last_op_id(); }

}  // namespace

devrt_status Backend::carve(uint32_t device, void* base, uint64_t size) {
  Outcome& outcome = g_machine->history.outcome;
  if (outcome.is_on()) outcome.ForgetBlock(base);
  if (!Checks()) return nullptr;
  if (devrt_status error = CheckDevice(device)) return error;
  devrt_status error = nullptr;
  uint64_t offset = 0;
  Suballocations* const parts = SuballocationsAt(base, &offset, &error);
  return parts == nullptr ? error : parts->Carve(offset, size);
}

devrt_status Backend::hand_out(devrt_stream, void* ptr, uint64_t size) {
  if (!Checks()) return nullptr;
  devrt_status error = nullptr;
  uint64_t offset = 0;
  Suballocations* const parts = SuballocationsAt(ptr, &offset, &error);
  return parts == nullptr ? error
                          : parts->HandOut(offset, size, Now(), CurrentSite());
}

devrt_status Backend::take_back(devrt_stream, void* ptr) {
  if (!Checks()) return nullptr;
  devrt_status error = nullptr;
  uint64_t offset = 0;
  Suballocations* const parts = SuballocationsAt(ptr, &offset, &error);
  return parts == nullptr ? error
                          : parts->TakeBack(offset, Now(), CurrentSite());
}

devrt_status Backend::uncarve(uint32_t device, void* base, uint64_t size) {
  if (!Checks()) return nullptr;
  if (devrt_status error = CheckDevice(device)) return error;
  devrt_status error = nullptr;
  uint64_t offset = 0;
  Suballocations* const parts = SuballocationsAt(base, &offset, &error);
  return parts == nullptr ? error : parts->Uncarve(offset, size, Now());
}

const devrt_suballocation_v0 kSuballocationTable = {
    sizeof(devrt_suballocation_v0),
    0,
    devrt::plugin::Thunk<&Backend::carve>,
    devrt::plugin::Thunk<&Backend::hand_out>,
    devrt::plugin::Thunk<&Backend::take_back>,
    devrt::plugin::Thunk<&Backend::uncarve>,
};

}  // namespace devrt::mtia
