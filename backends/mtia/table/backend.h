// SPDX-License-Identifier: Apache-2.0
//
// The table of the mtia backend as a class (see devrt_plugin_helper.h).  A
// member enters the machine (call.h), looks up handles, checks arguments, and
// leaves the rest to the machine.  There is a file for each subject, named as
// in every backend.

#ifndef DEVRT_BACKENDS_MTIA_TABLE_BACKEND_H_
#define DEVRT_BACKENDS_MTIA_TABLE_BACKEND_H_

#include <memory>

#include "backends/mtia/config/config.h"
#include "backends/mtia/engine/current_device.h"
#include "devrt/backends/abi/devrt_collectives.h"
#include "devrt/backends/abi/devrt_launch.h"
#include "devrt/backends/abi/devrt_pinned_guard.h"
#include "devrt/backends/abi/devrt_plugin.h"
#include "devrt/backends/abi/devrt_probe.h"
#include "devrt/backends/abi/devrt_sim.h"
#include "devrt/backends/abi/devrt_suballocation.h"
#include "devrt/backends/abi/devrt_tensor.h"
#include "devrt/backends/abi/devrt_virtual_memory.h"

namespace devrt::mtia {

class Backend {
 public:
  // ---- plugin.cc ----
  static std::unique_ptr<Backend> Open(const devrt_host_v0* host,
                                       devrt_status* error,
                                       uint64_t* capabilities);
  void shutdown();
  const void* get_extension(const char* name);

  // ---- device.cc ----
  devrt_status device_count(uint32_t* count);
  devrt_status device_props(uint32_t device, devrt_device_props_v0* props);
  devrt_status device_sync(uint32_t device);
  devrt_status context_enter(uint32_t device, devrt_context* previous) {
    return EnterDevice(device, previous);
  }
  devrt_status context_exit(const devrt_context* previous) {
    return ExitDevice(previous);
  }
  devrt_status context_current(uint32_t* device) {
    *device = t_device;
    return nullptr;
  }

  // ---- peers.cc ----
  devrt_status peer_can_access(uint32_t device, uint32_t peer, uint32_t* can);
  devrt_status peer_enable(uint32_t device, uint32_t peer);
  devrt_status peer_disable(uint32_t device, uint32_t peer);

  // ---- memory.cc ----
  devrt_status mem_info(uint32_t device, uint64_t* free_bytes,
                        uint64_t* total_bytes);
  devrt_status alloc(uint32_t device, uint64_t size, uint64_t alignment,
                     void** ptr);
  devrt_status dealloc(uint32_t device, void* ptr, uint64_t size);
  devrt_status alloc_async(devrt_stream stream, uint64_t size,
                           uint64_t alignment, void** ptr);
  devrt_status dealloc_async(devrt_stream stream, void* ptr, uint64_t size);
  devrt_status host_alloc(uint32_t device, uint64_t size, uint64_t alignment,
                          void** ptr);
  devrt_status host_dealloc(void* ptr, uint64_t size);
  devrt_status host_register(uint32_t device, void* ptr, uint64_t size);
  devrt_status host_unregister(void* ptr);
  devrt_status pointer_info(const void* ptr, devrt_pointer_info_v0* info);

  // ---- stream.cc ----
  devrt_status stream_create(uint32_t device, const devrt_stream_desc_v0* desc,
                             devrt_stream* stream);
  devrt_status stream_destroy(devrt_stream stream);
  devrt_status stream_query(devrt_stream stream, uint32_t* done);
  devrt_status stream_sync(devrt_stream stream);
  devrt_status stream_native(devrt_stream stream, void** native);
  devrt_status stream_wait_event(devrt_stream stream, devrt_event event);
  devrt_status host_func(devrt_stream stream,
                         void (*fn)(void* arg, devrt_status error), void* arg);

  // ---- event.cc ----
  devrt_status event_create(uint32_t device, uint32_t flags,
                            devrt_event* event);
  devrt_status event_destroy(devrt_event event);
  devrt_status event_record(devrt_event event, devrt_stream stream);
  devrt_status event_query(devrt_event event, uint32_t* done);
  devrt_status event_sync(devrt_event event);
  devrt_status event_elapsed_ns(devrt_event begin, devrt_event end,
                                int64_t* nanoseconds);
  devrt_status event_native(devrt_event event, void** native);

  // ---- copy.cc ----
  devrt_status copy_async(devrt_stream stream, void* dst, const void* src,
                          uint64_t size, uint32_t kind);
  devrt_status copy_peer_async(devrt_stream stream, void* dst,
                               uint32_t dst_device, const void* src,
                               uint32_t src_device, uint64_t size);
  devrt_status fill_async(devrt_stream stream, void* dst, uint32_t value,
                          uint64_t size);

  // ---- launch.cc: devrt.launch/0 ----
  devrt_status launch(devrt_stream stream, const devrt_launch_desc_v0* desc);

  // ---- virtual_memory.cc: devrt.virtual_memory/0 ----
  devrt_status vm_info(uint32_t device, devrt_virtual_memory_info_v0* info);
  devrt_status vm_reserve(uint32_t device, uint64_t size, uint64_t alignment,
                          void** base);
  devrt_status vm_release(void* base, uint64_t size);
  devrt_status vm_create(uint32_t device, uint64_t size, devrt_chunk* chunk);
  devrt_status vm_destroy(devrt_chunk chunk);
  devrt_status vm_map(void* address, uint64_t size, devrt_chunk chunk);
  devrt_status vm_unmap(void* address, uint64_t size);

  // ---- suballocation.cc: devrt.suballocation/0 ----
  devrt_status carve(uint32_t device, void* base, uint64_t size);
  devrt_status hand_out(devrt_stream stream, void* ptr, uint64_t size);
  devrt_status take_back(devrt_stream stream, void* ptr);
  devrt_status uncarve(uint32_t device, void* base, uint64_t size);

  // ---- probe.cc: devrt.probe/0 ----
  devrt_status spin(devrt_stream stream, uint64_t nanoseconds);
  devrt_status flag_create(uint32_t device, devrt_flag* flag);
  devrt_status flag_destroy(devrt_flag flag);
  devrt_status flag_wait(devrt_stream stream, devrt_flag flag,
                         uint64_t timeout_ns);
  devrt_status flag_set(devrt_flag flag, uint32_t value);
  devrt_status flag_set_async(devrt_stream stream, devrt_flag flag,
                              uint32_t value);
  devrt_status fault(devrt_stream stream, uint32_t form);

  // ---- tensor_ops.cc: devrt.elementwise/0, devrt.reduce/0 ----
  devrt_status elementwise_supports(uint32_t op, uint32_t dtype, uint32_t* yes);
  devrt_status elementwise_fill(devrt_stream stream, const devrt_tensor_v0* out,
                                const void* value);
  devrt_status elementwise_apply(devrt_stream stream, uint32_t op,
                                 const devrt_tensor_v0* out,
                                 const devrt_tensor_v0* inputs,
                                 uint32_t input_count);
  devrt_status reduce_supports(uint32_t op, uint32_t in_dtype,
                               uint32_t out_dtype, uint32_t* yes);
  devrt_status reduce(devrt_stream stream, uint32_t op,
                      const devrt_tensor_v0* out, const devrt_tensor_v0* in,
                      uint32_t axes);

  // ---- pinned_guard.cc: devrt.pinned_guard/0 ----
  devrt_status guard_enable();
  devrt_status guard_protect(void* ptr, uint64_t size, uint32_t access);
  devrt_status guard_take_touches(devrt_host_touch_v0* touches,
                                  uint32_t capacity, uint32_t* taken);

  // ---- collectives.cc: devrt.collectives/0 ----
  devrt_status collectives_info(devrt_collectives_info_v0* info);
  devrt_status collectives_supports(uint32_t op, uint32_t dtype,
                                    uint32_t reduction, uint32_t* yes);
  devrt_status unique_id(void* bytes, uint64_t* size);
  devrt_status comm_begin(uint32_t device, uint32_t ranks, uint32_t rank,
                          const void* id, uint64_t size,
                          const devrt_comm_options_v0* options,
                          devrt_comm* out);
  devrt_status comm_poll(devrt_comm handle, uint32_t* state);
  devrt_status collectives_submit(const devrt_submission_v0* submissions,
                                  uint32_t count);
  devrt_status comm_revoke(devrt_comm handle);
  devrt_status comm_abort(devrt_comm handle);
  devrt_status comm_split(devrt_comm handle, int32_t color, int32_t key,
                          const devrt_comm_options_v0* options,
                          devrt_comm* child);
  devrt_status comm_shrink(devrt_comm handle, const uint32_t* gone,
                           uint32_t gone_count, uint32_t abort_first,
                           devrt_comm* child);
  devrt_status comm_finish(devrt_comm handle);
  devrt_status comm_destroy(devrt_comm handle);
  devrt_status buffer_register(devrt_comm handle, void* ptr, uint64_t size,
                               void** out);
  devrt_status buffer_deregister(devrt_comm handle, void* buffer);

  // ---- sim.cc: devrt.sim/1 ----
  devrt_status sim_reset(const char* config, uint64_t size);
  devrt_status sim_config(char* buffer, uint64_t capacity, uint64_t* size);
  devrt_status sim_now_ns(uint64_t* now);
  devrt_status sim_yield();
  devrt_status sim_trace_hash(uint64_t* hash, uint64_t* steps);
  devrt_status sim_token(char* buffer, uint64_t capacity, uint64_t* size);
  devrt_status sim_replay(const char* token, uint64_t size);
  devrt_status sim_inject(const devrt_sim_fault_v1* fault);
  devrt_status sim_timeline_enable(uint32_t on);
  devrt_status sim_timeline_take(void (*visit)(void* arg,
                                               const devrt_sim_op_v1* op),
                                 void* arg);
  devrt_status sim_timeline(void (*visit)(void* arg, const devrt_sim_op_v1* op),
                            void* arg);
  devrt_status sim_decisions_enable(uint32_t on);
  devrt_status sim_decisions(void (*visit)(void* arg,
                                           const devrt_sim_decision_v1* made),
                             void* arg);
  devrt_status sim_stats(devrt_sim_stats_v1* stats);
  devrt_status sim_deadlock_report(char* buffer, uint64_t capacity,
                                   uint64_t* size);
  devrt_status sim_peek(const void* device_ptr, void* host, uint64_t size);
  devrt_status sim_poke(void* device_ptr, const void* host, uint64_t size);
  devrt_status sim_next_op(uint32_t* thread, uint64_t* index);
  devrt_status sim_outcome(uint64_t* hash);
  devrt_status sim_take_part(uint32_t waits, uint32_t* part);
  devrt_status sim_pause();
  devrt_status sim_await_change(const uint32_t* word, uint32_t value);
  devrt_status sim_note_lock(const uint32_t* word, uint32_t state);

 private:
  // Begins a machine afresh, with any number of devices (sim.cc).
  devrt_status Reopen(const Config& config);
};

// Lets the aborts return that hang by a rule (collectives.cc).
void EndHangingAborts();

// The extension tables.
extern const devrt_collectives_v0 kCollectivesTable;
extern const devrt_launch_v0 kLaunchTable;
extern const devrt_pinned_guard_v0 kPinnedGuardTable;
extern const devrt_probe_v0 kProbeTable;
extern const devrt_elementwise_v0 kElementwiseTable;
extern const devrt_reduce_v0 kReduceTable;
extern const devrt_sim_v1 kSimTable;
extern const devrt_suballocation_v0 kSuballocationTable;
extern const devrt_virtual_memory_v0 kVirtualMemoryTable;

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_TABLE_BACKEND_H_
