// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/engine/slot.h"

namespace devrt::mtia {

const char* const kSlotNames[] = {
#define DEVRT_SLOT(name, required, capability) #name,
#include "devrt/backends/abi/devrt_slots.inc"
    "launch",
    "spin",
    "flag_create",
    "flag_destroy",
    "flag_wait",
    "flag_set",
    "flag_set_async",
    "fault",
    "elementwise.fill",
    "elementwise.apply",
    "reduce",
    "virtual_memory.info",
    "virtual_memory.reserve",
    "virtual_memory.release",
    "virtual_memory.create",
    "virtual_memory.destroy",
    "virtual_memory.map",
    "virtual_memory.unmap",
    "collectives.unique_id",
    "collectives.comm_begin",
    "collectives.comm_poll",
    "collectives.submit",
    "collectives.comm_revoke",
    "collectives.comm_abort",
    "collectives.comm_split",
    "collectives.comm_shrink",
    "collectives.comm_finish",
    "collectives.comm_destroy",
    "collectives.buffer_register",
    "collectives.buffer_deregister",
    "sim"};

}  // namespace devrt::mtia
