// SPDX-License-Identifier: Apache-2.0
//
// Allocation: calls of Memory.
#include "backends/mtia/engine/dependencies.h"
#include "backends/mtia/engine/machine.h"
#include "backends/mtia/memory/block.h"
#include "backends/mtia/table/backend.h"
#include "backends/mtia/table/call.h"
#include "backends/mtia/table/device_call.h"
#include "backends/mtia/table/submit.h"
#include "devrt/backends/abi/devrt_plugin_helper.h"

namespace devrt::mtia {
// The free reports a wait that would never end.  It does not report a fault
// that the wait meets.
devrt_status SyncBeforeFree(Call* call, uint32_t device) {
  if (!g_machine->config.raw_free_syncs || device >= g_device_count) {
    return nullptr;
  }
  call->NoteSite();
  HostThread* const me = call->me();
  me->want.clear();
  me->want_next = 0;
  AddDeviceFrontier(g_machine->streams, device, &me->want);
  return g_machine->driver->Wait(me);
}

namespace {

// Counts the block at `base`, which `me` has just allocated.
void NoteBlock(HostThread* me, const void* base) {
  const uint64_t index = me->allocations++;
  Outcome& outcome = g_machine->history.outcome;
  if (outcome.is_on()) outcome.BeginBlock(base, me->index, index);
}

// The error of a rule that finds memory fragmented, or NULL.
devrt_status Fragmented(const Memory& memory, const char* entry,
                        uint32_t device, uint64_t size) {
  if (g_machine->fault_rules.empty()) return nullptr;
  uint64_t free = 0;
  uint64_t total = 0;
  memory.Info(device, &free, &total);
  return g_machine->fault_rules.Fragmentation(entry, device, size, free);
}

devrt_status NotAllocated() {
  return InvalidArgument("the pointer was not allocated by this backend");
}

}  // namespace

devrt_status Backend::mem_info(uint32_t device, uint64_t* free_bytes,
                               uint64_t* total_bytes) {
  DeviceCall call(Slot::mem_info, device);
  Memory* const memory = call.GetMemory();
  if (memory == nullptr) return call.error();
  memory->Info(device, free_bytes, total_bytes);
  return nullptr;
}

devrt_status Backend::alloc(uint32_t device, uint64_t size, uint64_t alignment,
                            void** ptr) {
  DeviceCall call(Slot::alloc, device);
  Memory* const memory = call.GetMemory();
  if (memory == nullptr) return call.error();
  devrt_status error = Fragmented(*memory, call.entry(), device, size);
  if (error != nullptr) return error;
  error = memory->Alloc(device, size, alignment, CurrentSite(), ptr);
  if (error == nullptr) NoteBlock(call.me(), *ptr);
  return error;
}

devrt_status Backend::dealloc(uint32_t device, void* ptr, uint64_t size) {
  static_cast<void>(size);
  Call call(Slot::dealloc, OnDevice(device));
  if (call.refused()) return call.error();
  if (devrt_status error = CheckDevice(device)) return error;
  if (ptr == nullptr) return nullptr;
  Memory* const memory = g_machine->memory.IfMade();
  if (memory == nullptr) return NotAllocated();
  // A free of stream-ordered memory waits for nothing (C64).
  if (!memory->Find(ptr).ordered) {
    if (devrt_status error = SyncBeforeFree(&call, device)) return error;
  }
  const Resolved block = memory->Find(ptr);
  Outcome& outcome = g_machine->history.outcome;
  if (outcome.is_on() && block.device == device && block.closed == kNotClosed) {
    outcome.EndBlock(*memory, ptr);
  }
  return memory->Free(device, ptr, CurrentSite());
}

// The address exists at once, the memory behind the stream's work (C65).
devrt_status Backend::alloc_async(devrt_stream stream, uint64_t size,
                                  uint64_t alignment, void** ptr) {
  Submission submission(Slot::alloc_async, stream);
  if (!submission.ok()) return submission.error();
  devrt_status error = nullptr;
  Memory* const memory = g_machine->memory.Make(&error);
  if (memory == nullptr) return error;
  const StreamCore* const s = submission.core();
  error = Fragmented(*memory, submission.call().entry(), s->device, size);
  if (error != nullptr) return error;
  uint64_t id = 0;
  error = memory->AllocOrdered(s->device, size, alignment, s->number,
                               CurrentSite(), ptr, &id);
  if (error != nullptr) return error;
  NoteBlock(submission.call().me(), *ptr);
  Op* const op =
      submission.NewOp(OpKind::kAlloc, EngineClass::kNone, "allocation");
  op->dst = *ptr;
  op->size = size;
  op->block = id;
  g_machine->scheduler.Submit(op);
  return nullptr;
}

devrt_status Backend::dealloc_async(devrt_stream stream, void* ptr,
                                    uint64_t size) {
  Call call(Slot::dealloc_async, OnStream(stream));
  if (call.refused()) return call.error();
  devrt_status error = nullptr;
  const Stream* const found = g_machine->streams.Find(stream, &error);
  if (found == nullptr) return error;
  Memory* const memory = g_machine->memory.IfMade();
  if (memory == nullptr) return NotAllocated();
  call.NoteSite();
  StreamCore* const s = found->core;
  uint64_t id = 0;
  error = memory->CloseOrdered(s->device, ptr, s->number,
                               g_machine->scheduler.last_op_id(), CurrentSite(),
                               &id);
  if (error != nullptr) return error;
  // Frees succeed after a fault (C94).  No operation of the stream will run, so
  // the block ends here.
  if (g_machine->faults.of(s->device) || s->failed_from != kNever) {
    Outcome& outcome = g_machine->history.outcome;
    if (outcome.is_on()) outcome.EndBlock(*memory, ptr);
    static_cast<void>(memory->EndOrdered(ptr, id, false));
    return nullptr;
  }
  call.DecideAtEnd();
  Op* const op =
      g_machine->scheduler.NewOp(OpKind::kFree, s, call.me(), "free");
  op->dst = ptr;
  op->size = size;
  op->block = id;
  g_machine->scheduler.Submit(op);
  return nullptr;
}

devrt_status Backend::host_alloc(uint32_t device, uint64_t size,
                                 uint64_t alignment, void** ptr) {
  DeviceCall call(Slot::host_alloc, device);
  Memory* const memory = call.GetMemory();
  if (memory == nullptr) return call.error();
  return memory->HostAlloc(device, size, alignment, CurrentSite(), ptr);
}

devrt_status Backend::host_dealloc(void* ptr, uint64_t size) {
  static_cast<void>(size);
  Call call(Slot::host_dealloc);
  if (call.refused()) return call.error();
  if (ptr == nullptr) return nullptr;
  Memory* const memory = g_machine->memory.IfMade();
  if (memory == nullptr) return NotAllocated();
  if (devrt_status stuck = SyncBeforeFree(&call, memory->Find(ptr).device)) {
    return stuck;
  }
  return memory->HostFree(ptr, CurrentSite());
}

devrt_status Backend::host_register(uint32_t device, void* ptr, uint64_t size) {
  DeviceCall call(Slot::host_register, device);
  Memory* const memory = call.GetMemory();
  if (memory == nullptr) return call.error();
  return memory->Register(device, ptr, size, CurrentSite());
}

devrt_status Backend::host_unregister(void* ptr) {
  Call call(Slot::host_unregister);
  if (call.refused()) return call.error();
  devrt_status error = nullptr;
  Memory* const memory = g_machine->memory.Make(&error);
  if (memory == nullptr) return error;
  error = SyncBeforeFree(&call, memory->Find(ptr).device);
  if (error != nullptr) return error;
  return memory->Unregister(ptr);
}

devrt_status Backend::pointer_info(const void* ptr,
                                   devrt_pointer_info_v0* info) {
  Call call(Slot::pointer_info, {}, CallTag::kCallback);
  if (call.refused()) return call.error();
  devrt_pointer_info_v0 out = {};
  out.device = -1;
  out.host_readable = 1;
  const Memory* const memory = g_machine->memory.IfMade();
  Resolved r = memory != nullptr ? memory->Find(ptr) : Resolved();
  // dealloc_async was called, though the free may not have run.
  if (r.closed != kNotClosed) r = Resolved();
  if (r.space == Space::kHost) {
    if (memory != nullptr && r.local == nullptr) out.host_readable = 0;
  } else {
    out.kind =
        r.space == Space::kDevice ? DEVRT_POINTER_DEVICE : DEVRT_POINTER_PINNED;
    out.device = static_cast<int32_t>(r.device);
    out.host_readable = r.space == Space::kDevice ? 0 : 1;
    out.base = r.base;
    out.size = r.own;
    out.allocation_id = r.id;
  }
  devrt::plugin::WriteStruct(info, out);
  return nullptr;
}

}  // namespace devrt::mtia
