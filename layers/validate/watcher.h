// SPDX-License-Identifier: Apache-2.0
//
// Watcher: translates the calls to one backend for the Validator.
//
// Threads: any.

#ifndef DEVRT_LAYERS_VALIDATE_WATCHER_H_
#define DEVRT_LAYERS_VALIDATE_WATCHER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "devrt/backends/abi/devrt_layer_helper.h"
#include "devrt/backends/abi/devrt_sim.h"
#include "layers/validate/collective_watch.h"
#include "layers/validate/deadlocks.h"
#include "layers/validate/host_function.h"
#include "layers/validate/layer_state.h"
#include "layers/validate/pinned_pages.h"
#include "layers/validate/simulated_run.h"
#include "layers/validate/tensor_access.h"
#include "layers/validate/thread_streams.h"

namespace devrt::race {

class Watcher : private CollectiveWatch {
 public:
  explicit Watcher(const devrt_next_v0* next) : next_(next) {
    if (g_layer.validator == nullptr) return;
    void* sim_self = nullptr;
    const auto* const sim = static_cast<const devrt_sim_v1*>(
        next->extension(next, DEVRT_SIM_EXTENSION, &sim_self));
    if ((is_simulated_ = sim != nullptr)) {
      g_layer.run = new SimulatedRun(next, sim, sim_self);
      if (g_layer.wants_witness) g_layer.witnessed = g_layer.run;
    }
    deadlocks_ = Deadlocks(next);
    device0_ = g_layer.validator->AddBackend(
        next->manifest->backend, is_simulated_, MemoryQuestion(next));
    pages_ = std::make_unique<PinnedPages>(next);
    captures_.device0 = device0_;
    captures_.table = static_cast<const devrt_capture_v0*>(
        next->extension(next, DEVRT_CAPTURE_EXTENSION, &captures_.self));
    FindHostExtensions();
  }

  DeviceKey device0() const { return device0_; }
  Captures* captures() { return &captures_; }

  template <typename Call, typename... Args>
  devrt_status On(Call call, Args... args) noexcept {
    if (g_layer.validator == nullptr) return call(args...);
    JudgeTouches();
    return deadlocks_.Judge(Handle(Id<Call::kId>(), call, args...));
  }

  void Shutdown() {
    if (g_layer.findings == nullptr) return;
    JudgeTouches();
    if (is_simulated_) EndRun();
  }

 private:
  using CollectiveWatch::Handle;
  // Calls that say nothing about order or memory.
  template <typename AnyId, typename Call, typename... Args>
  devrt_status Handle(AnyId, Call call, Args... args) {
    return call(args...);
  }

  // The caller of work that the backend gets next.
  Caller WorkOn(const char* name, devrt_stream stream,
                const char* given = nullptr) const {
    Caller caller = CallerOn(name, stream, given);
    if (is_simulated_ && caller.op.known()) caller.op.kind = OpId::Kind::kOwn;
    return caller;
  }

  // An operation.  In the mode "throw" one with a finding is not passed on.
  template <typename Call, typename... Args>
  devrt_status Operation(const Caller& caller, AccessList accesses, Call call,
                         devrt_stream stream, Args... args) {
    if (captures_.Has(stream)) return call(stream, args...);
    devrt_status status =
        Verdict(g_layer.validator->Enqueue(caller, stream, accesses));
    if (status == nullptr) status = call(stream, args...);
    if (status != nullptr) g_layer.validator->Retract(accesses);
    pages_->Update();
    return status;
  }

  // ---- Work ----------------------------------------------------------------

  template <typename Call>
  devrt_status Handle(Id<CallId::copy_async>, Call call, devrt_stream stream,
                      void* dst, const void* src, uint64_t size,
                      uint32_t kind) {
    MemoryAccess accesses[] = {Accessed(src, size, Mode::kRead),
                               Accessed(dst, size, Mode::kWrite)};
    // A simulator keeps the addresses of its memory to itself.
    accesses[0].is_programs =
        !is_simulated_ && (kind == DEVRT_COPY_H2D || kind == DEVRT_COPY_H2H);
    accesses[1].is_programs =
        !is_simulated_ && (kind == DEVRT_COPY_D2H || kind == DEVRT_COPY_H2H);
    // A copy from host to host is complete when the call returns.
    devrt_status status = Operation(WorkOn("copy", stream), accesses, call,
                                    stream, dst, src, size, kind);
    if (kind == DEVRT_COPY_H2H && status == nullptr) {
      EndHostWait(g_layer.validator->WorkOfStream(stream));
    }
    return status;
  }

  template <typename Call>
  devrt_status Handle(Id<CallId::copy_peer_async>, Call call,
                      devrt_stream stream, void* dst, uint32_t dst_device,
                      const void* src, uint32_t src_device, uint64_t size) {
    return Operation(
        WorkOn("peer copy", stream),
        {Accessed(src, size, Mode::kRead), Accessed(dst, size, Mode::kWrite)},
        call, stream, dst, dst_device, src, src_device, size);
  }

  template <typename Call>
  devrt_status Handle(Id<CallId::fill_async>, Call call, devrt_stream stream,
                      void* dst, uint32_t value, uint64_t size) {
    return Operation(WorkOn("fill", stream),
                     {Accessed(dst, size, Mode::kWrite)}, call, stream, dst,
                     value, size);
  }

  template <typename Call, typename Function>
  devrt_status Handle(Id<CallId::host_func>, Call call, devrt_stream stream,
                      Function function, void* arg) {
    const std::vector<MemoryAccess> accesses =
        std::exchange(t_host_func_accesses, {});
    // A graph would run the function several times.
    if (captures_.Has(stream)) return call(stream, function, arg);
    devrt_status status = Verdict(g_layer.validator->Enqueue(
        WorkOn("host function", stream), stream, accesses));
    if (status == nullptr) {
      auto seen = std::make_unique<HostFunction>(
          g_layer.validator->WorkOfStream(stream), function, arg);
      status = call(stream, &HostFunction::Run, static_cast<void*>(seen.get()));
      if (status == nullptr) seen.release();
    }
    if (status != nullptr) g_layer.validator->Retract(accesses);
    pages_->Update();
    return status;
  }

  template <typename Call>
  devrt_status Handle(Id<CallId::launch_launch>, Call call, devrt_stream stream,
                      const devrt_launch_desc_v0* desc) {
    return Operation(WorkOn("kernel", stream, desc->name),
                     Accesses(desc->accesses, desc->access_count), call, stream,
                     desc);
  }

  template <typename Call>
  devrt_status Handle(Id<CallId::elementwise_fill>, Call call,
                      devrt_stream stream, const devrt_tensor_v0* out,
                      const void* value) {
    return Operation(WorkOn("fill", stream), {AccessOf(*out, Mode::kWrite)},
                     call, stream, out, value);
  }

  template <typename Call>
  devrt_status Handle(Id<CallId::elementwise_apply>, Call call,
                      devrt_stream stream, uint32_t op,
                      const devrt_tensor_v0* out, const devrt_tensor_v0* inputs,
                      uint32_t input_count) {
    ShortList accesses;
    for (uint32_t i = 0; i < input_count; ++i) {
      accesses.push_back(AccessOf(inputs[i], Mode::kRead));
    }
    accesses.push_back(AccessOf(*out, Mode::kWrite));
    return Operation(WorkOn(OperationName(op), stream), accesses, call, stream,
                     op, out, inputs, input_count);
  }

  template <typename Call>
  devrt_status Handle(Id<CallId::reduce_reduce>, Call call, devrt_stream stream,
                      uint32_t op, const devrt_tensor_v0* out,
                      const devrt_tensor_v0* in, uint32_t axes) {
    return Operation(WorkOn("reduce", stream),
                     {AccessOf(*in, Mode::kRead), AccessOf(*out, Mode::kWrite)},
                     call, stream, op, out, in, axes);
  }

  template <typename Call>
  devrt_status Handle(Id<CallId::probe_spin>, Call call, devrt_stream stream,
                      uint64_t nanoseconds) {
    Caller caller = WorkOn("spin", stream);
    caller.uses_memory = false;
    return Operation(caller, {}, call, stream, nanoseconds);
  }

  // ---- Order ---------------------------------------------------------------

  template <typename Call>
  devrt_status Handle(Id<CallId::stream_create>, Call call, uint32_t device,
                      const devrt_stream_desc_v0* desc, devrt_stream* stream) {
    devrt_status status = call(device, desc, stream);
    if (status != nullptr) return status;
    void* native = nullptr;
    if (desc->kind == DEVRT_STREAM_CREATE || desc->kind == DEVRT_STREAM_ADOPT) {
      g_layer.host->error_destroy(
          g_layer.host->host,
          next_->ops->stream_native(next_->self, *stream, &native));
    }
    const Actor actor =
        g_layer.validator->AddStream(device0_ + device, *stream, KindOf(*desc),
                                     native, desc->kind == DEVRT_STREAM_ADOPT);
    if (desc->kind == DEVRT_STREAM_PER_THREAD) {
      t_thread_streams.Add(*stream, actor);
    }
    return nullptr;
  }

  template <typename Call>
  devrt_status Handle(Id<CallId::stream_destroy>, Call call,
                      devrt_stream stream) {
    // Before the call: afterwards another thread may get the handle.
    g_layer.validator->RemoveStream(stream);
    return call(stream);
  }

  template <typename Call>
  devrt_status Handle(Id<CallId::event_create>, Call call, uint32_t device,
                      uint32_t flags, devrt_event* event) {
    devrt_status status = call(device, flags, event);
    if (status == nullptr) {
      g_layer.validator->AddEvent(device0_ + device, *event,
                                  (flags & DEVRT_EVENT_IPC) != 0);
    }
    return status;
  }

  template <typename Call>
  devrt_status Handle(Id<CallId::event_ipc_event_open>, Call call,
                      uint32_t device, const devrt_event_handle_v0* handle,
                      devrt_event* event) {
    devrt_status status = call(device, handle, event);
    if (status == nullptr) {
      g_layer.validator->AddEvent(device0_ + device, *event, true);
    }
    return status;
  }

  template <typename Call>
  devrt_status Handle(Id<CallId::event_destroy>, Call call, devrt_event event) {
    g_layer.validator->RemoveEvent(event);
    return call(event);
  }

  template <typename Call>
  devrt_status Handle(Id<CallId::event_record>, Call call, devrt_event event,
                      devrt_stream stream) {
    const bool noted =
        !captures_.Has(stream) &&
        g_layer.validator->Record(LineOn("record", stream), stream, event);
    devrt_status status = call(event, stream);
    if (status != nullptr && noted) g_layer.validator->UndoRecord(event);
    return status;
  }

  template <typename Call>
  devrt_status Handle(Id<CallId::stream_wait_event>, Call call,
                      devrt_stream stream, devrt_event event) {
    if (!captures_.Has(stream)) {
      g_layer.validator->Wait(LineOn("wait", stream), stream, event);
    }
    return call(stream, event);
  }

  // A wait is noted once it is enqueued and a set before its call: a set that
  // another thread makes meanwhile is then one that the wait may come after.
  template <typename Call>
  devrt_status Handle(Id<CallId::probe_flag_wait>, Call call,
                      devrt_stream stream, devrt_flag flag,
                      uint64_t timeout_ns) {
    const Caller caller = CallerOn("wait for a flag", stream);
    devrt_status status = call(stream, flag, timeout_ns);
    if (status == nullptr && !captures_.Has(stream)) {
      g_layer.validator->WaitForFlag(caller, stream, flag);
    }
    return status;
  }
  template <typename Call>
  devrt_status Handle(Id<CallId::probe_flag_set>, Call call, devrt_flag flag,
                      uint32_t value) {
    g_layer.validator->SetFlag(LineOf("set of a flag"), nullptr, flag,
                               value != 0);
    return call(flag, value);
  }
  template <typename Call>
  devrt_status Handle(Id<CallId::probe_flag_set_async>, Call call,
                      devrt_stream stream, devrt_flag flag, uint32_t value) {
    if (!captures_.Has(stream)) {
      g_layer.validator->SetFlag(LineOn("set of a flag", stream), stream, flag,
                                 value != 0);
    }
    return call(stream, flag, value);
  }
  template <typename Call>
  devrt_status Handle(Id<CallId::probe_flag_destroy>, Call call,
                      devrt_flag flag) {
    g_layer.validator->RemoveFlag(flag);
    return call(flag);
  }

  void EndHostWait(Validator::WaitedWork work) {
    g_layer.validator->EndHostWait(std::move(work));
    pages_->Update();
  }
  template <typename Call>
  devrt_status Handle(Id<CallId::peer_enable>, Call call, uint32_t device,
                      uint32_t peer) {
    devrt_status status = call(device, peer);
    if (status == nullptr) {
      g_layer.validator->EnablePeer(device0_ + device, device0_ + peer);
    }
    return status;
  }
  template <typename Call>
  devrt_status Handle(Id<CallId::peer_disable>, Call call, uint32_t device,
                      uint32_t peer) {
    devrt_status status = call(device, peer);
    if (status == nullptr) {
      g_layer.validator->DisablePeer(device0_ + device, device0_ + peer);
    }
    return status;
  }

  template <typename Call, typename... Args>
  devrt_status HostWait(Validator::WaitedWork work, Call call, Args... args) {
    deadlocks_.NoteHostWait();
    devrt_status status = call(args...);
    if (status == nullptr) EndHostWait(std::move(work));
    return status;
  }
  template <typename Call>
  devrt_status Handle(Id<CallId::stream_sync>, Call call, devrt_stream stream) {
    return HostWait(g_layer.validator->WorkOfStream(stream), call, stream);
  }
  template <typename Call>
  devrt_status Handle(Id<CallId::event_sync>, Call call, devrt_event event) {
    return HostWait(g_layer.validator->WorkOfEvent(event), call, event);
  }
  template <typename Call>
  devrt_status Handle(Id<CallId::device_sync>, Call call, uint32_t device) {
    return HostWait(g_layer.validator->WorkOfDevice(device0_ + device), call,
                    device);
  }

  template <typename Call, typename Handle>
  devrt_status Query(Validator::WaitedWork work, Call call, Handle handle,
                     uint32_t* done) {
    devrt_status status = call(handle, done);
    if (status != nullptr || *done == 0) return status;
    if (g_layer.own_queries != nullptr &&
        g_layer.own_queries->is_own(g_layer.host->host) != 0) {
      g_layer.validator->EndOwnQuery(std::move(work));
    } else {
      EndHostWait(std::move(work));
    }
    return nullptr;
  }
  template <typename Call>
  devrt_status Handle(Id<CallId::stream_query>, Call call, devrt_stream stream,
                      uint32_t* done) {
    return Query(g_layer.validator->WorkOfStream(stream), call, stream, done);
  }
  template <typename Call>
  devrt_status Handle(Id<CallId::event_query>, Call call, devrt_event event,
                      uint32_t* done) {
    return Query(g_layer.validator->WorkOfEvent(event), call, event, done);
  }

  // ---- Memory --------------------------------------------------------------

  // The free of block `freed` has returned.  The layer notes a free before the
  // call, because another thread may get the address as soon as it is free.
  static devrt_status EndFree(devrt_status status, void* ptr, uint64_t freed) {
    if (status != nullptr && freed != 0) {
      g_layer.validator->Unfree(ptr, freed);
    }
    return status;
  }

  template <typename Call>
  devrt_status Handle(Id<CallId::alloc>, Call call, uint32_t device,
                      uint64_t size, uint64_t alignment, void** ptr) {
    devrt_status status = call(device, size, alignment, ptr);
    if (status == nullptr) {
      g_layer.validator->Allocate(CallerOf("allocation"), device0_ + device,
                                  *ptr, size, MemoryKind::kDevice);
    }
    return status;
  }
  template <typename Call>
  devrt_status Handle(Id<CallId::dealloc>, Call call, uint32_t device,
                      void* ptr, uint64_t size) {
    // A free with a finding is passed on in each mode: it would be a leak.
    const uint64_t freed = g_layer.validator->Free(CallerOf("free"), ptr);
    return EndFree(call(device, ptr, size), ptr, freed);
  }

  template <typename Call>
  devrt_status Handle(Id<CallId::alloc_async>, Call call, devrt_stream stream,
                      uint64_t size, uint64_t alignment, void** ptr) {
    const Caller caller = WorkOn("allocation", stream);
    const bool captured = captures_.Has(stream);
    devrt_status status = call(stream, size, alignment, ptr);
    if (status == nullptr) {
      g_layer.validator->AllocateOn(caller, stream, *ptr, size, captured);
    }
    return status;
  }
  template <typename Call>
  devrt_status Handle(Id<CallId::dealloc_async>, Call call, devrt_stream stream,
                      void* ptr, uint64_t size) {
    const uint64_t freed = g_layer.validator->FreeOn(
        WorkOn("free", stream), stream, ptr, captures_.Has(stream));
    return EndFree(call(stream, ptr, size), ptr, freed);
  }

  template <typename Call>
  devrt_status Handle(Id<CallId::host_alloc>, Call call, uint32_t device,
                      uint64_t size, uint64_t alignment, void** ptr) {
    devrt_status status = call(device, size, alignment, ptr);
    if (status == nullptr) {
      g_layer.validator->Allocate(CallerOf("pinned allocation"),
                                  device0_ + device, *ptr, size,
                                  MemoryKind::kPinned);
    }
    return status;
  }
  template <typename Call>
  devrt_status Handle(Id<CallId::host_dealloc>, Call call, void* ptr,
                      uint64_t size) {
    const uint64_t freed = g_layer.validator->Free(CallerOf("free"), ptr);
    pages_->Update();  // the next block there begins with open pages
    return EndFree(call(ptr, size), ptr, freed);
  }

  template <typename Call>
  devrt_status Handle(Id<CallId::host_register>, Call call, uint32_t device,
                      void* ptr, uint64_t size) {
    devrt_status status = call(device, ptr, size);
    if (status == nullptr) g_layer.validator->Register(ptr, size);
    return status;
  }
  template <typename Call>
  devrt_status Handle(Id<CallId::host_unregister>, Call call, void* ptr) {
    g_layer.validator->Unregister(CallerOf("unregistration"), ptr);
    return call(ptr);
  }

  template <typename Call>
  devrt_status Handle(Id<CallId::suballocation_carve>, Call call,
                      uint32_t device, void* base, uint64_t size) {
    g_layer.validator->Carve(base);
    return call(device, base, size);
  }

  template <typename Call>
  devrt_status Handle(Id<CallId::suballocation_uncarve>, Call call,
                      uint32_t device, void* base, uint64_t size) {
    g_layer.validator->Uncarve(base, size);
    return call(device, base, size);
  }
  template <typename Call>
  devrt_status Handle(Id<CallId::suballocation_hand_out>, Call call,
                      devrt_stream stream, void* ptr, uint64_t size) {
    g_layer.validator->HandOut(CallerOf("allocation"), stream, ptr, size);
    return call(stream, ptr, size);
  }
  template <typename Call>
  devrt_status Handle(Id<CallId::suballocation_take_back>, Call call,
                      devrt_stream stream, void* ptr) {
    g_layer.validator->TakeBack(CallerOf("free"), stream, ptr);
    return call(stream, ptr);
  }

  const devrt_next_v0* const next_;
  Captures captures_;
  Deadlocks deadlocks_;
  std::unique_ptr<PinnedPages> pages_;
};

}  // namespace devrt::race

#endif  // DEVRT_LAYERS_VALIDATE_WATCHER_H_
