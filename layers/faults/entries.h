// SPDX-License-Identifier: Apache-2.0
//
// What each entry point of the plugin ABI does, as far as its failure is
// concerned.  The table has a row for each slot and each function of an
// extension, or it does not compile.

#ifndef DEVRT_LAYERS_FAULTS_ENTRIES_H_
#define DEVRT_LAYERS_FAULTS_ENTRIES_H_

#include <cstddef>
#include <cstdint>

#include "devrt/backends/abi/devrt_faults.h"
#include "devrt/backends/abi/devrt_layer_helper.h"

namespace devrt::faults {

using layer::CallId;

enum class Does : uint8_t {
  kAsks,      // changes nothing
  kMakes,     // makes an object: a failed call must not leave it behind
  kEnds,      // ends an object
  kEnqueues,  // submits work, or changes the state of an object
  kHandsOn,   // passes a function of the program on, which an error keeps
  kWaits,
  kExcluded,  // no rule hits it
};

// What a call makes or ends, for the counts of live objects.
enum class Object : uint8_t {
  kNone,
  kStream,
  kEvent,
  kBlock,
  kPinned,
  kRegistered,
  kFlag,
  kVirtualMemory,
  kCount
};

struct Entry {
  CallId id;
  Does does;
  Object object = Object::kNone;
  const char* reason = nullptr;  // why it is excluded
};

inline constexpr const char* kUndoes =
    "it restores what an earlier call has changed, and nobody could go on";
inline constexpr const char* kTells =
    "it tells tools of an allocator's blocks, and the allocator asks for no "
    "answer";

// In the order of CallId.
inline constexpr Entry kEntries[] = {
    {CallId::device_count, Does::kAsks},
    {CallId::device_props, Does::kAsks},
    {CallId::mem_info, Does::kAsks},
    {CallId::alloc, Does::kMakes, Object::kBlock},
    {CallId::dealloc, Does::kEnds, Object::kBlock},
    {CallId::stream_create, Does::kMakes, Object::kStream},
    {CallId::stream_destroy, Does::kEnds, Object::kStream},
    {CallId::stream_query, Does::kAsks},
    {CallId::stream_sync, Does::kWaits},
    {CallId::stream_native, Does::kAsks},
    {CallId::stream_wait_event, Does::kEnqueues},
    {CallId::event_create, Does::kMakes, Object::kEvent},
    {CallId::event_destroy, Does::kEnds, Object::kEvent},
    {CallId::event_record, Does::kEnqueues},
    {CallId::event_query, Does::kAsks},
    {CallId::event_sync, Does::kWaits},
    {CallId::copy_async, Does::kEnqueues},
    {CallId::fill_async, Does::kEnqueues},
    {CallId::device_sync, Does::kWaits},
    {CallId::context_enter, Does::kMakes},
    {CallId::context_exit, Does::kExcluded, Object::kNone, kUndoes},
    {CallId::context_current, Does::kAsks},
    {CallId::alloc_async, Does::kMakes, Object::kBlock},
    {CallId::dealloc_async, Does::kEnds, Object::kBlock},
    {CallId::event_elapsed_ns, Does::kAsks},
    {CallId::host_func, Does::kHandsOn},
    {CallId::host_alloc, Does::kMakes, Object::kPinned},
    {CallId::host_dealloc, Does::kEnds, Object::kPinned},
    {CallId::host_register, Does::kMakes, Object::kRegistered},
    {CallId::host_unregister, Does::kEnds, Object::kRegistered},
    {CallId::pointer_info, Does::kAsks},
    {CallId::copy_peer_async, Does::kEnqueues},
    {CallId::peer_can_access, Does::kAsks},
    {CallId::peer_enable, Does::kMakes},
    {CallId::peer_disable, Does::kEnds},
    {CallId::event_native, Does::kAsks},
    {CallId::launch_launch, Does::kHandsOn},
    {CallId::probe_spin, Does::kEnqueues},
    {CallId::probe_flag_create, Does::kMakes, Object::kFlag},
    {CallId::probe_flag_destroy, Does::kEnds, Object::kFlag},
    {CallId::probe_flag_wait, Does::kEnqueues},
    {CallId::probe_flag_set, Does::kEnqueues},
    {CallId::probe_flag_set_async, Does::kEnqueues},
    {CallId::probe_fault, Does::kEnqueues},
    {CallId::elementwise_supports, Does::kAsks},
    {CallId::elementwise_fill, Does::kEnqueues},
    {CallId::elementwise_apply, Does::kEnqueues},
    {CallId::reduce_supports, Does::kAsks},
    {CallId::reduce_reduce, Does::kEnqueues},
    {CallId::event_ipc_event_export, Does::kAsks},
    {CallId::event_ipc_event_open, Does::kMakes, Object::kEvent},
    {CallId::virtual_memory_info, Does::kAsks},
    {CallId::virtual_memory_reserve, Does::kMakes, Object::kVirtualMemory},
    {CallId::virtual_memory_release, Does::kEnds, Object::kVirtualMemory},
    {CallId::virtual_memory_create, Does::kMakes, Object::kVirtualMemory},
    {CallId::virtual_memory_destroy, Does::kEnds, Object::kVirtualMemory},
    {CallId::virtual_memory_map, Does::kMakes, Object::kVirtualMemory},
    {CallId::virtual_memory_unmap, Does::kEnds, Object::kVirtualMemory},
    {CallId::suballocation_carve, Does::kExcluded, Object::kNone, kTells},
    {CallId::suballocation_hand_out, Does::kExcluded, Object::kNone, kTells},
    {CallId::suballocation_take_back, Does::kExcluded, Object::kNone, kTells},
    {CallId::suballocation_uncarve, Does::kExcluded, Object::kNone, kTells},
    {CallId::capture_stream_is_capturing, Does::kAsks},
    {CallId::capture_stream_capture_id, Does::kAsks},
    {CallId::capture_capture_retain, Does::kMakes},
    {CallId::capture_exchange_thread_mode, Does::kExcluded, Object::kNone,
     kUndoes},
    {CallId::collectives_info, Does::kAsks},
    {CallId::collectives_supports, Does::kAsks},
    {CallId::collectives_unique_id, Does::kAsks},
    {CallId::collectives_comm_begin, Does::kMakes},
    {CallId::collectives_comm_poll, Does::kAsks},
    {CallId::collectives_submit, Does::kEnqueues},
    {CallId::collectives_comm_revoke, Does::kEnqueues},
    {CallId::collectives_comm_abort, Does::kEnqueues},
    {CallId::collectives_comm_split, Does::kMakes},
    {CallId::collectives_comm_shrink, Does::kMakes},
    {CallId::collectives_comm_finish, Does::kEnqueues},
    {CallId::collectives_comm_destroy, Does::kEnds},
    {CallId::collectives_buffer_register, Does::kMakes},
    {CallId::collectives_buffer_deregister, Does::kEnds},
};

constexpr bool HasEveryEntry() {
  constexpr size_t kRows = sizeof kEntries / sizeof kEntries[0];
  if (kRows != layer::kCallCount) return false;
  for (size_t i = 0; i < kRows; ++i) {
    if (kEntries[i].id != static_cast<CallId>(i)) return false;
    const bool is_excluded = kEntries[i].does == Does::kExcluded;
    if (is_excluded != (kEntries[i].reason != nullptr)) return false;
  }
  return true;
}
static_assert(HasEveryEntry(),
              "the plugin ABI has a new entry point: say in kEntries how it "
              "can fail, or why no rule hits it");

constexpr const Entry& EntryOf(CallId id) {
  return kEntries[static_cast<size_t>(id)];
}

constexpr bool IsAllocation(CallId id) {
  return id == CallId::alloc || id == CallId::alloc_async ||
         id == CallId::host_alloc || id == CallId::virtual_memory_create;
}

// False if a number that is the first argument names an operation.
constexpr bool BeginsWithDevice(CallId id) {
  return id != CallId::elementwise_supports && id != CallId::reduce_supports &&
         id != CallId::collectives_supports;
}

// How the call can fail: DEVRT_FAULT_*, 0 if it is excluded.
constexpr uint32_t FormsOf(CallId id) {
  switch (EntryOf(id).does) {
    case Does::kExcluded:
      return 0;
    case Does::kAsks:
    case Does::kHandsOn:
      return DEVRT_FAULT_EARLY;
    case Does::kMakes:
      return DEVRT_FAULT_EARLY | (IsAllocation(id) ? DEVRT_FAULT_OOM : 0);
    case Does::kEnds:
      return DEVRT_FAULT_EARLY | DEVRT_FAULT_LATE | DEVRT_FAULT_ENDS;
    case Does::kEnqueues:
    case Does::kWaits:
      return DEVRT_FAULT_EARLY | DEVRT_FAULT_LATE;
  }
  return 0;
}

}  // namespace devrt::faults

#endif  // DEVRT_LAYERS_FAULTS_ENTRIES_H_
