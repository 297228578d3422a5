// SPDX-License-Identifier: Apache-2.0
//
// Calls that concern a device or an event: a Call, and the checks with which
// every such call begins. refused() and error() cover these checks too.

#ifndef DEVRT_BACKENDS_MTIA_TABLE_DEVICE_CALL_H_
#define DEVRT_BACKENDS_MTIA_TABLE_DEVICE_CALL_H_

#include <cstdint>

#include "backends/mtia/engine/current_device.h"
#include "backends/mtia/engine/machine.h"
#include "backends/mtia/table/call.h"

namespace devrt::mtia {

// A call for a device that must exist and work.
//
//   DeviceCall call(Slot::alloc, device);
//   Memory* const memory = call.GetMemory();
//   if (memory == nullptr) return call.error();
class DeviceCall : public Call {
 public:
  DeviceCall(Slot slot, uint32_t device) : Call(slot, OnDevice(device)) {
    if (!refused()) error_ = CheckDevice(device);
    if (!refused()) error_ = g_machine->faults.DeviceError(device, entry());
  }

  // The memories of the machine; nullptr with error() set if the call is
  // refused or the memories cannot be mapped.
  Memory* GetMemory() {
    return refused() ? nullptr : g_machine->memory.Make(&error_);
  }
};

// A call for an event that must be live.
//
//   EventCall call(Slot::event_sync, handle);
//   if (call.refused()) return call.error();
class EventCall : public Call {
 public:
  EventCall(Slot slot, devrt_event handle, CallTag tag = CallTag::kPlain)
      : Call(slot, OnEvent(handle), tag) {
    if (!refused()) event_ = g_machine->events.Find(handle, &error_);
  }

  Event* event() const { return event_; }
  // The error of the event's device, or NULL.
  devrt_status DeviceError() const {
    return g_machine->faults.DeviceError(event_->device, entry());
  }

 private:
  Event* event_ = nullptr;
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_TABLE_DEVICE_CALL_H_
