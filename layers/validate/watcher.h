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
#include "devrt/backends/abi/devrt_stream_number.h"
#include "layers/validate/host_function.h"
#include "layers/validate/layer_state.h"
#include "layers/validate/pinned_pages.h"
#include "layers/validate/tensor_access.h"

namespace devrt::race {

// The default streams of the calling thread, which end with the thread and not
// by a call.
class ThreadStreams {
 public:
  ThreadStreams() = default;
  ThreadStreams(const ThreadStreams&) = delete;
  ThreadStreams& operator=(const ThreadStreams&) = delete;
  ~ThreadStreams() {
    for (const auto& [stream, actor] : streams_) {
      g_layer.validator->RemoveStream(stream, actor);
    }
  }
  void Add(devrt_stream stream, Actor actor) {
    streams_.emplace_back(stream, actor);
  }

 private:
  std::vector<std::pair<devrt_stream, Actor>> streams_;
};
inline thread_local ThreadStreams t_thread_streams;

class Watcher {
  using CallId = layer::CallId;
  template <CallId kId>
  using Id = std::integral_constant<CallId, kId>;

 public:
  explicit Watcher(const devrt_next_v0* next) : next_(next) {
    if (g_layer.validator == nullptr) return;
    void* sim = nullptr;
    is_simulated_ = next->extension(next, DEVRT_SIM_EXTENSION, &sim) != nullptr;
    // No other library knows the streams of a simulator.
    device0_ =
        g_layer.validator->AddBackend(next->manifest->backend, !is_simulated_);
    pages_ = std::make_unique<PinnedPages>(next);
    captures_.table = static_cast<const devrt_capture_v0*>(
        next->extension(next, DEVRT_CAPTURE_EXTENSION, &captures_.self));
    if (g_layer.host->get_extension != nullptr) {
      g_layer.numbers = static_cast<const devrt_stream_number_v0*>(
          g_layer.host->get_extension(g_layer.host->host,
                                      DEVRT_STREAM_NUMBER_EXTENSION));
    }
  }

  DeviceKey device0() const { return device0_; }
  Captures* captures() { return &captures_; }

  template <typename Call, typename... Args>
  devrt_status On(Call call, Args... args) noexcept {
    if (g_layer.validator == nullptr) return call(args...);
    JudgeTouches();
    return Handle(Id<Call::kId>(), call, args...);
  }

  void Shutdown() {
    if (g_layer.findings == nullptr) return;
    JudgeTouches();
  }

 private:
  // Calls that say nothing about order or memory.
  template <typename AnyId, typename Call, typename... Args>
  devrt_status Handle(AnyId, Call call, Args... args) {
    return call(args...);
  }

  // An operation.  In the mode "throw" one with a finding is not passed on.
  template <typename Call, typename... Args>
  devrt_status Operation(const std::vector<MemoryAccess>& accesses,
                         const char* name, Call call, devrt_stream stream,
                         Args... args) {
    if (captures_.Has(stream)) return call(stream, args...);
    devrt_status status = Verdict(
        g_layer.validator->Enqueue(CallerOn(name, stream), stream, accesses));
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
    std::vector<MemoryAccess> accesses = {Accessed(src, size, Mode::kRead),
                                          Accessed(dst, size, Mode::kWrite)};
    // A simulator keeps the addresses of its memory to itself.
    accesses[0].is_programs =
        !is_simulated_ && (kind == DEVRT_COPY_H2D || kind == DEVRT_COPY_H2H);
    accesses[1].is_programs =
        !is_simulated_ && (kind == DEVRT_COPY_D2H || kind == DEVRT_COPY_H2H);
    // A copy from host to host is complete when the call returns.
    devrt_status status =
        Operation(accesses, "copy", call, stream, dst, src, size, kind);
    if (kind == DEVRT_COPY_H2H && status == nullptr) {
      EndHostWait(g_layer.validator->MarkOfStream(stream));
    }
    return status;
  }

  template <typename Call>
  devrt_status Handle(Id<CallId::copy_peer_async>, Call call,
                      devrt_stream stream, void* dst, uint32_t dst_device,
                      const void* src, uint32_t src_device, uint64_t size) {
    return Operation(
        {Accessed(src, size, Mode::kRead), Accessed(dst, size, Mode::kWrite)},
        "peer copy", call, stream, dst, dst_device, src, src_device, size);
  }

  template <typename Call>
  devrt_status Handle(Id<CallId::fill_async>, Call call, devrt_stream stream,
                      void* dst, uint32_t value, uint64_t size) {
    return Operation({Accessed(dst, size, Mode::kWrite)}, "fill", call, stream,
                     dst, value, size);
  }

  template <typename Call, typename Function>
  devrt_status Handle(Id<CallId::host_func>, Call call, devrt_stream stream,
                      Function function, void* arg) {
    // A graph would run the function several times.
    if (captures_.Has(stream)) return call(stream, function, arg);
    auto seen = std::make_unique<HostFunction>(
        g_layer.validator->MarkOfNext(stream), function, arg);
    devrt_status status =
        Operation({}, "host function", call, stream, &HostFunction::Run,
                  static_cast<void*>(seen.get()));
    if (status == nullptr) seen.release();
    return status;
  }

  template <typename Call>
  devrt_status Handle(Id<CallId::launch_launch>, Call call, devrt_stream stream,
                      const devrt_launch_desc_v0* desc) {
    return Operation(Accesses(desc->accesses, desc->access_count),
                     desc->name == nullptr ? "kernel" : desc->name, call,
                     stream, desc);
  }

  template <typename Call>
  devrt_status Handle(Id<CallId::elementwise_fill>, Call call,
                      devrt_stream stream, const devrt_tensor_v0* out,
                      const void* value) {
    return Operation({AccessOf(*out, Mode::kWrite)}, "fill", call, stream, out,
                     value);
  }

  template <typename Call>
  devrt_status Handle(Id<CallId::elementwise_apply>, Call call,
                      devrt_stream stream, uint32_t op,
                      const devrt_tensor_v0* out, const devrt_tensor_v0* inputs,
                      uint32_t input_count) {
    std::vector<MemoryAccess> accesses;
    for (uint32_t i = 0; i < input_count; ++i) {
      accesses.push_back(AccessOf(inputs[i], Mode::kRead));
    }
    accesses.push_back(AccessOf(*out, Mode::kWrite));
    return Operation(accesses, OperationName(op), call, stream, op, out, inputs,
                     input_count);
  }

  template <typename Call>
  devrt_status Handle(Id<CallId::reduce_reduce>, Call call, devrt_stream stream,
                      uint32_t op, const devrt_tensor_v0* out,
                      const devrt_tensor_v0* in, uint32_t axes) {
    return Operation({AccessOf(*in, Mode::kRead), AccessOf(*out, Mode::kWrite)},
                     "reduce", call, stream, op, out, in, axes);
  }

  // ---- Order ---------------------------------------------------------------

  template <typename Call>
  devrt_status Handle(Id<CallId::stream_create>, Call call, uint32_t device,
                      const devrt_stream_desc_v0* desc, devrt_stream* stream) {
    devrt_status status = call(device, desc, stream);
    if (status != nullptr) return status;
    StreamKind kind = StreamKind::kNonBlocking;
    if (desc->kind == DEVRT_STREAM_LEGACY) {
      kind = StreamKind::kLegacy;
    } else if (desc->kind == DEVRT_STREAM_PER_THREAD ||
               (desc->flags & DEVRT_STREAM_BLOCKING) != 0) {
      kind = StreamKind::kBlocking;
    }
    void* native = nullptr;
    if (desc->kind == DEVRT_STREAM_CREATE || desc->kind == DEVRT_STREAM_ADOPT) {
      g_layer.host->error_destroy(
          g_layer.host->host,
          next_->ops->stream_native(next_->self, *stream, &native));
    }
    const Actor actor =
        g_layer.validator->AddStream(device0_ + device, *stream, kind, native,
                                     desc->kind == DEVRT_STREAM_ADOPT);
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
    if (status == nullptr)
      g_layer.validator->AddEvent(device0_ + device, *event);
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
    Mark mark = g_layer.validator->BeginRecord(CallerOn("record", stream),
                                               stream, event);
    devrt_status status = call(event, stream);
    if (status == nullptr) g_layer.validator->EndRecord(event, std::move(mark));
    return status;
  }

  template <typename Call>
  devrt_status Handle(Id<CallId::stream_wait_event>, Call call,
                      devrt_stream stream, devrt_event event) {
    if (!captures_.Has(stream)) {
      g_layer.validator->Wait(CallerOn("wait", stream), stream, event);
    }
    return call(stream, event);
  }

  void EndHostWait(const Mark& mark) {
    g_layer.validator->EndHostWait(mark);
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
  devrt_status HostWait(const Mark& mark, Call call, Args... args) {
    devrt_status status = call(args...);
    if (status == nullptr) EndHostWait(mark);
    return status;
  }
  template <typename Call>
  devrt_status Handle(Id<CallId::stream_sync>, Call call, devrt_stream stream) {
    return HostWait(g_layer.validator->MarkOfStream(stream), call, stream);
  }
  template <typename Call>
  devrt_status Handle(Id<CallId::event_sync>, Call call, devrt_event event) {
    return HostWait(g_layer.validator->MarkOfEvent(event), call, event);
  }
  template <typename Call>
  devrt_status Handle(Id<CallId::device_sync>, Call call, uint32_t device) {
    return HostWait(g_layer.validator->MarkOfDevice(device0_ + device), call,
                    device);
  }

  template <typename Call, typename Handle>
  devrt_status Query(const Mark& mark, Call call, Handle handle,
                     uint32_t* done) {
    devrt_status status = call(handle, done);
    if (status == nullptr && *done != 0) EndHostWait(mark);
    return status;
  }
  template <typename Call>
  devrt_status Handle(Id<CallId::stream_query>, Call call, devrt_stream stream,
                      uint32_t* done) {
    return Query(g_layer.validator->MarkOfStream(stream), call, stream, done);
  }
  template <typename Call>
  devrt_status Handle(Id<CallId::event_query>, Call call, devrt_event event,
                      uint32_t* done) {
    return Query(g_layer.validator->MarkOfEvent(event), call, event, done);
  }

  // ---- Memory --------------------------------------------------------------

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
    const std::string found = g_layer.validator->Free(CallerOf("free"), ptr);
    static_cast<void>(found);  // a free that is refused would be a leak
    return call(device, ptr, size);
  }

  template <typename Call>
  devrt_status Handle(Id<CallId::alloc_async>, Call call, devrt_stream stream,
                      uint64_t size, uint64_t alignment, void** ptr) {
    devrt_status status = call(stream, size, alignment, ptr);
    if (status == nullptr) {
      g_layer.validator->AllocateOn(CallerOn("allocation", stream), stream,
                                    *ptr, size);
    }
    return status;
  }

  template <typename Call>
  devrt_status Handle(Id<CallId::dealloc_async>, Call call, devrt_stream stream,
                      void* ptr, uint64_t size) {
    g_layer.validator->FreeOn(CallerOn("free", stream), stream, ptr);
    return call(stream, ptr, size);
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
    g_layer.validator->Free(CallerOf("free"), ptr);
    pages_->Update();  // the next block there begins with open pages
    return call(ptr, size);
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
  DeviceKey device0_ = 0;
  bool is_simulated_ = false;
  Captures captures_;
  std::unique_ptr<PinnedPages> pages_;
};

}  // namespace devrt::race

#endif  // DEVRT_LAYERS_VALIDATE_WATCHER_H_
