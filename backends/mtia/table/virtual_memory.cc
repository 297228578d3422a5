// SPDX-License-Identifier: Apache-2.0
//
// devrt.virtual_memory/0: reserved addresses, and chunks that are mapped there.
#include "backends/mtia/engine/machine.h"
#include "backends/mtia/memory/chunk_table.h"
#include "backends/mtia/table/backend.h"
#include "backends/mtia/table/device_call.h"
#include "devrt/backends/abi/devrt_plugin_helper.h"

namespace devrt::mtia {
namespace {

uint64_t Number(devrt_chunk chunk) { return reinterpret_cast<uint64_t>(chunk); }

ChunkTable* At(const void* address, uint64_t* offset, devrt_status* error) {
  Memory* const memory = g_machine->memory.IfMade();
  ChunkTable* const chunks =
      memory != nullptr ? memory->ChunksAt(address, offset) : nullptr;
  if (chunks == nullptr) {
    *error = InvalidArgument("the address is in no reservation");
  }
  return chunks;
}

}  // namespace

devrt_status Backend::vm_info(uint32_t device,
                              devrt_virtual_memory_info_v0* info) {
  Call call(Slot::vm_info, OnDevice(device));
  if (call.refused()) return call.error();
  if (devrt_status error = CheckDevice(device)) return error;
  devrt_virtual_memory_info_v0 out{};
  out.granularity = kChunkGranularity;
  devrt::plugin::WriteStruct(info, out);
  return nullptr;
}

devrt_status Backend::vm_reserve(uint32_t device, uint64_t size,
                                 uint64_t alignment, void** base) {
  DeviceCall call(Slot::vm_reserve, device);
  Memory* const memory = call.GetMemory();
  if (memory == nullptr) return call.error();
  return memory->ChunksOf(device)->Reserve(size, alignment, base);
}

devrt_status Backend::vm_release(void* base, uint64_t size) {
  Call call(Slot::vm_release);
  if (call.refused()) return call.error();
  devrt_status error = nullptr;
  uint64_t offset = 0;
  ChunkTable* const chunks = At(base, &offset, &error);
  return chunks == nullptr ? error : chunks->Release(offset, size);
}

devrt_status Backend::vm_create(uint32_t device, uint64_t size,
                                devrt_chunk* chunk) {
  DeviceCall call(Slot::vm_create, device);
  Memory* const memory = call.GetMemory();
  if (memory == nullptr) return call.error();
  uint64_t number = 0;
  devrt_status error = memory->ChunksOf(device)->Create(device, size, &number);
  if (error == nullptr) *chunk = reinterpret_cast<devrt_chunk>(number);
  return error;
}

devrt_status Backend::vm_destroy(devrt_chunk chunk) {
  Call call(Slot::vm_destroy);
  if (call.refused()) return call.error();
  if (Memory* const memory = g_machine->memory.IfMade()) {
    for (uint32_t device = 0; device < g_device_count; ++device) {
      ChunkTable* const chunks = memory->ChunksOf(device);
      if (chunks->Has(Number(chunk))) {
        return chunks->Destroy(Number(chunk));
      }
    }
  }
  return InvalidArgument("the chunk was destroyed or never made");
}

devrt_status Backend::vm_map(void* address, uint64_t size, devrt_chunk chunk) {
  Call call(Slot::vm_map);
  if (call.refused()) return call.error();
  devrt_status error = nullptr;
  uint64_t offset = 0;
  ChunkTable* const chunks = At(address, &offset, &error);
  return chunks == nullptr
             ? error
             : chunks->Map(offset, size, Number(chunk), CurrentSite());
}

devrt_status Backend::vm_unmap(void* address, uint64_t size) {
  Call call(Slot::vm_unmap);
  if (call.refused()) return call.error();
  devrt_status error = nullptr;
  uint64_t offset = 0;
  ChunkTable* const chunks = At(address, &offset, &error);
  if (chunks == nullptr) return error;
  const Resolved mapped = g_machine->memory.IfMade()->Find(address);
  if (mapped.space == Space::kDevice) {
    error = SyncBeforeFree(&call, mapped.device);
    if (error != nullptr) return error;
  }
  return chunks->Unmap(offset, size, CurrentSite());
}

const devrt_virtual_memory_v0 kVirtualMemoryTable = {
    sizeof(devrt_virtual_memory_v0),
    0,
    devrt::plugin::Thunk<&Backend::vm_info>,
    devrt::plugin::Thunk<&Backend::vm_reserve>,
    devrt::plugin::Thunk<&Backend::vm_release>,
    devrt::plugin::Thunk<&Backend::vm_create>,
    devrt::plugin::Thunk<&Backend::vm_destroy>,
    devrt::plugin::Thunk<&Backend::vm_map>,
    devrt::plugin::Thunk<&Backend::vm_unmap>,
};

}  // namespace devrt::mtia
