// SPDX-License-Identifier: Apache-2.0
//
// devrt.suballocation/0.  The calls are no decisions of the machine: they may
// come with each allocation of a program and must not change what it does.
#include "backends/mtia/engine/machine.h"
#include "backends/mtia/memory/parts.h"
#include "backends/mtia/table/backend.h"
#include "devrt/backends/abi/devrt_plugin_helper.h"

namespace devrt::mtia {
namespace {

const devrt_call_site_v0& CurrentSite() {
  return *g_host->call_site(g_host->host);
}

// The parts of the device that `ptr` is memory of; nullptr with `*error` set.
Parts* PartsAt(const void* ptr, uint64_t* offset, devrt_status* error) {
  Memory* const memory = g_machine->memory.IfMade();
  Parts* const parts =
      memory != nullptr ? memory->PartsAt(ptr, offset) : nullptr;
  if (parts == nullptr) *error = InvalidArgument("this is no device memory");
  return parts;
}

uint64_t Now() { return g_machine->scheduler.last_op_id(); }

}  // namespace

devrt_status Backend::carve(uint32_t device, void* base, uint64_t size) {
  if (devrt_status error = CheckDevice(device)) return error;
  devrt_status error = nullptr;
  uint64_t offset = 0;
  Parts* const parts = PartsAt(base, &offset, &error);
  return parts == nullptr ? error : parts->Carve(offset, size);
}

devrt_status Backend::hand_out(devrt_stream, void* ptr, uint64_t size) {
  devrt_status error = nullptr;
  uint64_t offset = 0;
  Parts* const parts = PartsAt(ptr, &offset, &error);
  return parts == nullptr ? error
                          : parts->HandOut(offset, size, Now(), CurrentSite());
}

devrt_status Backend::take_back(devrt_stream, void* ptr) {
  devrt_status error = nullptr;
  uint64_t offset = 0;
  Parts* const parts = PartsAt(ptr, &offset, &error);
  return parts == nullptr ? error
                          : parts->TakeBack(offset, Now(), CurrentSite());
}

devrt_status Backend::uncarve(uint32_t device, void* base, uint64_t size) {
  if (devrt_status error = CheckDevice(device)) return error;
  devrt_status error = nullptr;
  uint64_t offset = 0;
  Parts* const parts = PartsAt(base, &offset, &error);
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
