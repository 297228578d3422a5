// SPDX-License-Identifier: Apache-2.0
//
// The names of the calls that a program can make: the slots of the table, then
// the calls of the extensions.  Fault injection and messages use them.

#ifndef DEVRT_BACKENDS_MTIA_ENGINE_SLOT_H_
#define DEVRT_BACKENDS_MTIA_ENGINE_SLOT_H_

#include <cstdint>

namespace devrt::mtia {

enum class Slot : uint8_t {
#define DEVRT_SLOT(name, required, capability) name,
#include "devrt/backends/abi/devrt_slots.inc"
  launch,
  spin,
  flag_create,
  flag_destroy,
  flag_wait,
  flag_set,
  flag_set_async,
  fault,
  tensor_fill,
  tensor_apply,
  tensor_reduce,
  vm_info,
  vm_reserve,
  vm_release,
  vm_create,
  vm_destroy,
  vm_map,
  vm_unmap,
  unique_id,
  comm_begin,
  comm_poll,
  comm_submit,
  comm_revoke,
  comm_abort,
  comm_split,
  comm_shrink,
  comm_finish,
  comm_destroy,
  buffer_register,
  buffer_deregister,
  sim,  // any call of devrt.sim/1; no error is injected into these
};

extern const char* const kSlotNames[];

// "stream_query", "elementwise.fill"
inline const char* SlotName(Slot slot) {
  return kSlotNames[static_cast<uint32_t>(slot)];
}

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_ENGINE_SLOT_H_
