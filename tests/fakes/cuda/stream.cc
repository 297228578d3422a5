// SPDX-License-Identifier: Apache-2.0
//
// Streams, callbacks and events.
#include <unistd.h>

#include <cstring>
#include <memory>

#include "tests/fakes/cuda/driver.h"

namespace devrt::fake {
namespace {

// With bare_records, a blocking stream is as done as its last work.
bool SeesOnlyWork(const CUstream_st* stream) {
  return Has(kBareRecords) && stream != nullptr && stream->last_work != nullptr;
}

// Begins a call about a stream.
CUresult EnterWith(const char* name, CUstream stream, Target* target,
                   unsigned rules = kDeviceCall) {
  const CUresult error = Enter(name, rules);
  return error != CUDA_SUCCESS ? error : Resolve(name, stream, target);
}

// Begins a call about an event.
CUresult EnterWith(const char* name, CUevent event,
                   unsigned rules = kDeviceCall) {
  const CUresult error = Enter(name, rules);
  if (error != CUDA_SUCCESS) return error;
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  Events().Check(event, name, "event");
  const CUresult alive = CheckAlive(event->context);
  if (alive == CUDA_SUCCESS) CheckOwner(event, name, "event");
  return alive;
}

CUresult Answer(CUresult error, uint32_t done) {
  if (error != CUDA_SUCCESS) return error;
  return done != 0 ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

}  // namespace

CUresult Resolve(const char* call, CUstream stream, Target* target) {
  if (stream == nullptr || stream == CU_STREAM_LEGACY ||
      stream == CU_STREAM_PER_THREAD) {
    const CUresult error = NeedContext(&target->context);
    if (error != CUDA_SUCCESS) return error;
    target->sim_device = SimDevice(target->context->device);
    target->modules = target->context;
    return static_cast<CUresult>(engine::DefaultStream(
        target->sim_device,
        stream == CU_STREAM_PER_THREAD ? DEVRT_STREAM_PER_THREAD
                                       : DEVRT_STREAM_LEGACY,
        &target->sim));
  }
  Streams().Check(stream, call, "stream");
  if (stream->context->alive) CheckOwner(stream, call, "stream");
  target->context = stream->context;
  target->modules = stream->context;
  target->sim_device = SimDevice(stream->context->device);
  target->sim = stream->sim;
  target->own = stream;
  return CheckAlive(stream->context);
}

CUresult Submitted(const Target& target, CUresult result) {
  if (result != CUDA_SUCCESS || target.own == nullptr ||
      target.own->last_work == nullptr) {
    return result;
  }
  return Sim<&devrt_ops_v0::event_record>(target.own->last_work, target.sim);
}

}  // namespace devrt::fake

using namespace devrt::fake;  // NOLINT: the driver's own names are global

// ---- Streams ----------------------------------------------------------------

CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags,
                                    int priority) {
  CUcontext context = nullptr;
  CUresult error = Enter("cuStreamCreateWithPriority");
  if (error == CUDA_SUCCESS) error = NeedContext(&context);
  if (error != CUDA_SUCCESS) return error;
  if ((flags & ~unsigned{CU_STREAM_NON_BLOCKING}) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const bool blocking = (flags & CU_STREAM_NON_BLOCKING) == 0;
  auto made = std::make_unique<CUstream_st>();
  made->context = context;
  made->context_id = context->id;
  made->flags = flags;
  made->priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
  devrt_stream_desc_v0 desc = {};
  desc.struct_size = sizeof desc;
  desc.kind = DEVRT_STREAM_CREATE;
  desc.flags = blocking ? DEVRT_STREAM_BLOCKING : 0;
  desc.priority = priority;
  const devrt_stream_desc_v0* const given = &desc;
  const uint32_t device = SimDevice(context->device);
  error = Sim<&devrt_ops_v0::stream_create>(device, given, &made->sim);
  if (error != CUDA_SUCCESS) return error;
  if (blocking && (Has(kBareRecords) || Has(kEarlyReads))) {
    error = Sim<&devrt_ops_v0::event_create>(device, 0u, &made->last_work);
    if (error != CUDA_SUCCESS) return error;
  }
  *stream = made.release();
  Streams().Add(*stream);
  return CUDA_SUCCESS;
}

CUresult cuStreamDestroy(CUstream stream) {
  const CUresult error = Enter("cuStreamDestroy");
  if (error != CUDA_SUCCESS) return error;
  if (stream == nullptr || stream == CU_STREAM_LEGACY ||
      stream == CU_STREAM_PER_THREAD) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  Streams().Check(stream, "cuStreamDestroy", "stream");
  Streams().Remove(stream);
  const std::unique_ptr<CUstream_st> gone(stream);
  if (gone->last_work != nullptr) {
    (void)Sim<&devrt_ops_v0::event_destroy>(gone->last_work);
  }
  return Sim<&devrt_ops_v0::stream_destroy>(gone->sim);
}

CUresult cuStreamQuery(CUstream stream) {
  Target target;
  CUresult error = EnterWith("cuStreamQuery", stream, &target, kInCallback);
  if (error == CUDA_SUCCESS) error = BreakCaptureOf(target.own);
  if (error == CUDA_SUCCESS) error = BreakCaptures();
  if (error != CUDA_SUCCESS) return error;
  uint32_t done = 0;
  error = SeesOnlyWork(target.own)
              ? Sim<&devrt_ops_v0::event_query>(target.own->last_work, &done)
              : Sim<&devrt_ops_v0::stream_query>(target.sim, &done);
  return Answer(error, done);
}

CUresult cuStreamSynchronize(CUstream stream) {
  Target target;
  CUresult error = EnterWith("cuStreamSynchronize", stream, &target);
  if (error == CUDA_SUCCESS) error = BreakCaptureOf(target.own);
  if (error == CUDA_SUCCESS) error = BreakCaptures();
  if (error != CUDA_SUCCESS) return error;
  return SeesOnlyWork(target.own)
             ? Sim<&devrt_ops_v0::event_sync>(target.own->last_work)
             : Sim<&devrt_ops_v0::stream_sync>(target.sim);
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
  Target target;
  CUresult error = EnterWith("cuStreamWaitEvent", event);
  if (error == CUDA_SUCCESS) {
    error = Resolve("cuStreamWaitEvent", stream, &target);
  }
  if (error != CUDA_SUCCESS) return error;
  if (flags != CU_EVENT_WAIT_DEFAULT) return CUDA_ERROR_INVALID_VALUE;
  error = WaitInCapture(target.own, event);
  if (error != CUDA_SUCCESS) return error;
  if (target.own != nullptr && target.own->last_work != nullptr) {
    // A wait for what is complete is no work.
    uint32_t done = 0;
    error = Sim<&devrt_ops_v0::event_query>(event->sim, &done);
    if (error != CUDA_SUCCESS || done != 0) return error;
  }
  return Submitted(
      target, Sim<&devrt_ops_v0::stream_wait_event>(target.sim, event->sim));
}

CUresult cuStreamGetCtx(CUstream stream, CUcontext* context) {
  Target target;
  const CUresult error = EnterWith("cuStreamGetCtx", stream, &target);
  if (error == CUDA_SUCCESS) *context = target.context;
  return error;
}

CUresult cuStreamGetPriority(CUstream stream, int* priority) {
  Target target;
  const CUresult error = EnterWith("cuStreamGetPriority", stream, &target);
  if (error != CUDA_SUCCESS) return error;
  *priority = target.own != nullptr ? target.own->priority : 0;
  return CUDA_SUCCESS;
}

CUresult cuStreamGetFlags(CUstream stream, unsigned* flags) {
  Target target;
  CUresult error = EnterWith("cuStreamGetFlags", stream, &target);
  if (error == CUDA_SUCCESS && target.own != nullptr &&
      target.own->capture != CU_STREAM_CAPTURE_STATUS_NONE) {
    error = BreakCaptureOf(target.own);
  }
  if (error != CUDA_SUCCESS) return error;
  *flags = target.own != nullptr ? target.own->flags : 0;
  return CUDA_SUCCESS;
}

CUresult cuStreamAddCallback(CUstream stream, CUstreamCallback callback,
                             void* user_data, unsigned flags) {
  Target target;
  CUresult error = EnterWith("cuStreamAddCallback", stream, &target);
  if (error != CUDA_SUCCESS) return error;
  if (flags != 0 || callback == nullptr) return CUDA_ERROR_INVALID_VALUE;
  struct Closure {
    CUstream stream;
    CUstreamCallback callback;
    void* user_data;
  };
  auto closure =
      std::make_unique<Closure>(Closure{stream, callback, user_data});
  void (*const run)(void*, devrt_status) = [](void* arg, devrt_status status) {
    const std::unique_ptr<Closure> c(static_cast<Closure*>(arg));
    const auto code = static_cast<CUresult>(engine::Translate(status));
    const CallbackScope inside;
    c->callback(c->stream, code, c->user_data);
  };
  error = Sim<&devrt_ops_v0::host_func>(target.sim, run,
                                        static_cast<void*>(closure.get()));
  if (error == CUDA_SUCCESS) closure.release();
  return Submitted(target, error);
}

// ---- Events -----------------------------------------------------------------

CUresult cuEventCreate(CUevent* event, unsigned flags) {
  CUcontext context = nullptr;
  CUresult error = Enter("cuEventCreate");
  if (error == CUDA_SUCCESS) error = NeedContext(&context);
  if (error != CUDA_SUCCESS) return error;
  constexpr unsigned kKnown =
      CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
  const bool timing = (flags & CU_EVENT_DISABLE_TIMING) == 0;
  if ((flags & ~kKnown) != 0 ||
      ((flags & CU_EVENT_INTERPROCESS) != 0 && timing)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  auto made = std::make_unique<CUevent_st>();
  made->context = context;
  made->context_id = context->id;
  made->timing = timing;
  made->interprocess = (flags & CU_EVENT_INTERPROCESS) != 0;
  error = Sim<&devrt_ops_v0::event_create>(
      SimDevice(context->device), timing ? DEVRT_EVENT_TIMING : 0u, &made->sim);
  if (error != CUDA_SUCCESS) return error;
  *event = made.release();
  Events().Add(*event);
  return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent event) {
  const CUresult error = EnterWith("cuEventDestroy", event);
  if (error != CUDA_SUCCESS) return error;
  Events().Remove(event);
  const std::unique_ptr<CUevent_st> gone(event);
  return Sim<&devrt_ops_v0::event_destroy>(gone->sim);
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  Target target;
  CUresult error = EnterWith("cuEventRecord", event);
  if (error == CUDA_SUCCESS) error = Resolve("cuEventRecord", stream, &target);
  if (error != CUDA_SUCCESS) return error;
  if (event->context != target.context) return CUDA_ERROR_INVALID_HANDLE;
  error = RecordInCapture(event, target.own);
  if (error != CUDA_SUCCESS) return error;
  error = Sim<&devrt_ops_v0::event_record>(event->sim, target.sim);
  if (error == CUDA_SUCCESS) event->recorded = true;
  return error;
}

CUresult cuEventQuery(CUevent event) {
  CUresult error = EnterWith("cuEventQuery", event, kInCallback);
  if (error == CUDA_SUCCESS) error = BreakCaptureOf(event);
  if (error == CUDA_SUCCESS) error = BreakCaptures();
  if (error != CUDA_SUCCESS) return error;
  uint32_t done = 0;
  const CUresult result = Sim<&devrt_ops_v0::event_query>(event->sim, &done);
  return Answer(result, done);
}

CUresult cuEventSynchronize(CUevent event) {
  const CUresult error = EnterWith("cuEventSynchronize", event, kInCallback);
  if (error != CUDA_SUCCESS) return error;
  // In a callback only what is complete; the simulator refuses to wait there.
  const CUresult now = cuEventQuery(event);
  if (now != CUDA_ERROR_NOT_READY) return now;
  return Sim<&devrt_ops_v0::event_sync>(event->sim);
}

CUresult cuEventElapsedTime(float* milliseconds, CUevent begin, CUevent end) {
  CUresult error = EnterWith("cuEventElapsedTime", begin, kInCallback);
  if (error == CUDA_SUCCESS) {
    error = EnterWith("cuEventElapsedTime", end, kInCallback);
  }
  if (error != CUDA_SUCCESS) return error;
  if (!begin->timing || !end->timing || !begin->recorded || !end->recorded ||
      begin->context != end->context) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  int64_t nanoseconds = 0;
  error =
      Sim<&devrt_ops_v0::event_elapsed_ns>(begin->sim, end->sim, &nanoseconds);
  *milliseconds = static_cast<float>(static_cast<double>(nanoseconds) / 1e6);
  return error;
}

// ---- Interprocess events: none leaves this process, and the driver opens none
// in the process that made it.  A handle of the process -1, which tests write,
// opens a new event.

CUresult cuIpcGetEventHandle(CUipcEventHandle* handle, CUevent event) {
  CUcontext context = nullptr;
  CUresult error = EnterWith("cuIpcGetEventHandle", event);
  if (error == CUDA_SUCCESS) error = NeedContext(&context);
  if (error != CUDA_SUCCESS) return error;
  if (!event->interprocess) return CUDA_ERROR_INVALID_HANDLE;
  std::memset(handle, 0, sizeof *handle);
  const pid_t process = getpid();
  std::memcpy(handle->reserved, &process, sizeof process);
  std::memcpy(handle->reserved + sizeof process, &event, sizeof event);
  return CUDA_SUCCESS;
}

CUresult cuIpcOpenEventHandle(CUevent* event, CUipcEventHandle handle) {
  CUcontext context = nullptr;
  CUresult error = Enter("cuIpcOpenEventHandle");
  if (error == CUDA_SUCCESS) error = NeedContext(&context);
  if (error != CUDA_SUCCESS) return error;
  pid_t process = 0;
  std::memcpy(&process, handle.reserved, sizeof process);
  if (process == -1) {
    return cuEventCreate(event,
                         CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);
  }
  return process == getpid() ? CUDA_ERROR_INVALID_CONTEXT
                             : CUDA_ERROR_MAP_FAILED;
}
