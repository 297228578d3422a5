// SPDX-License-Identifier: Apache-2.0
//
// Access to the memory of peers.
#include "backends/mtia/engine/current_device.h"
#include "backends/mtia/engine/machine.h"
#include "backends/mtia/table/backend.h"
#include "backends/mtia/table/call.h"

namespace devrt::mtia {
namespace {

// NULL if both devices exist.
devrt_status CheckPeers(uint32_t device, uint32_t peer) {
  if (devrt_status error = CheckDevice(device)) return error;
  return CheckDevice(peer);
}

}  // namespace

devrt_status Backend::peer_can_access(uint32_t device, uint32_t peer,
                                      uint32_t* can) {
  if (devrt_status error = CheckPeers(device, peer)) return error;
  Call call(Slot::peer_can_access, OnDevice(device), CallTag::kCallback);
  if (call.refused()) return call.error();
  devrt_status error = nullptr;
  Memory* const memory = g_machine->memory.Make(&error);
  if (memory == nullptr) return error;
  *can = device != peer && memory->CanAccessPeer(device, peer) ? 1 : 0;
  return nullptr;
}

devrt_status Backend::peer_enable(uint32_t device, uint32_t peer) {
  Call call(Slot::peer_enable, OnDevice(device));
  if (call.refused()) return call.error();
  if (devrt_status error = CheckPeers(device, peer)) return error;
  if (devrt_status error =
          g_machine->faults.DeviceError(device, call.entry())) {
    return error;
  }
  devrt_status error = nullptr;
  Memory* const memory = g_machine->memory.Make(&error);
  if (memory == nullptr) return error;
  return memory->EnablePeer(device, peer);
}

devrt_status Backend::peer_disable(uint32_t device, uint32_t peer) {
  Call call(Slot::peer_disable, OnDevice(device));
  if (call.refused()) return call.error();
  if (devrt_status error = CheckPeers(device, peer)) return error;
  devrt_status error = nullptr;
  Memory* const memory = g_machine->memory.Make(&error);
  if (memory == nullptr) return error;
  return memory->DisablePeer(device, peer);
}

}  // namespace devrt::mtia
