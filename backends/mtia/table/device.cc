// SPDX-License-Identifier: Apache-2.0
//
// Devices and their properties.
#include <cstdio>

#include "backends/mtia/engine/current_device.h"
#include "backends/mtia/engine/dependencies.h"
#include "backends/mtia/engine/machine.h"
#include "backends/mtia/table/backend.h"
#include "backends/mtia/table/device_call.h"
#include "devrt/backends/abi/devrt_plugin_helper.h"

namespace devrt::mtia {
namespace {

constexpr uint32_t kCopyEngines = 2;  // one per direction
constexpr uint32_t kUnlimitedSlots = 64;
constexpr uint8_t kUuidStart[8] = {0x64, 0x65, 0x76, 0x72,
                                   0x74, 0x6d, 0x74, 0x69};

uint32_t PageableMode(Pageable mode) {
  switch (mode) {
    case Pageable::kSync:
      return DEVRT_PAGEABLE_SYNC;
    case Pageable::kLate:
    case Pageable::kExplore:  // the weakest promise of the three
      return DEVRT_PAGEABLE_LATE;
    case Pageable::kStaged:
      break;
  }
  return DEVRT_PAGEABLE_STAGED;
}

devrt_device_props_v0 Describe(const Config& config, uint32_t device) {
  devrt_device_props_v0 props = {};
  props.ordinal = device;
  std::snprintf(props.name, sizeof props.name, "devrt mtia simulator");
  std::snprintf(props.arch, sizeof props.arch, "mtia-sim");
  for (uint32_t i = 0; i < sizeof kUuidStart; ++i) {
    props.uuid[i] = kUuidStart[i];
  }
  props.uuid[sizeof props.uuid - 1] = static_cast<uint8_t>(device + 1);
  props.pci_bus = device + 1;
  props.multiprocessors =
      config.slots == kUnlimited ? kUnlimitedSlots : config.slots;
  props.total_memory = config.memory;
  props.overhead_bytes = config.overhead;
  props.alloc_alignment = static_cast<uint32_t>(config.granularity);
  props.copy_engines = kCopyEngines;
  props.priority_least = config.priority_least;
  props.priority_greatest = config.priority_greatest;
  props.queue_depth = config.queue_depth;
  props.elapsed_resolution_ns = 1;
  props.pageable_async = PageableMode(config.pageable);
  props.raw_free_syncs = config.raw_free_syncs ? 1 : 0;
  props.fault_delivery = config.fault_delivery_abort
                             ? DEVRT_FAULT_DELIVERY_ABORT
                             : DEVRT_FAULT_DELIVERY_STATUS;
  props.fault_scope = config.fault_scope_process ? DEVRT_FAULT_SCOPE_PROCESS
                                                 : DEVRT_FAULT_SCOPE_DEVICE;
  props.device_reset = 1;
  return props;
}

}  // namespace

devrt_status Backend::device_count(uint32_t* count) {
  *count = g_device_count;
  return nullptr;
}

devrt_status Backend::device_props(uint32_t device,
                                   devrt_device_props_v0* props) {
  if (devrt_status error = CheckDevice(device)) return error;
  devrt::plugin::WriteStruct(props, Describe(g_machine->config, device));
  return nullptr;
}

devrt_status Backend::device_sync(uint32_t device) {
  DeviceCall call(Slot::device_sync, device);
  if (call.refused()) return call.error();
  call.NoteSite();
  Points& want = call.me()->want;
  want.clear();
  AddDeviceFrontier(g_machine->streams, device, &want);
  return call.Wait();
}

}  // namespace devrt::mtia
