// SPDX-License-Identifier: Apache-2.0
//
// Streams, callbacks and events.
#include <cstring>
#include <memory>

#include "tests/fakes/hip_on_cuda/forward.h"

using namespace devrt::hip_on_cuda;  // NOLINT: HIP's own names are global
using devrt::cuda::Api;

// ---- Streams ----------------------------------------------------------------

hipError_t hipStreamCreateWithPriority(hipStream_t* stream, unsigned flags,
                                       int priority) {
  return CallOnDevice([&](const Api& driver) {
    if (flags != hipStreamDefault && flags != hipStreamNonBlocking) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    return driver.CreateStream(flags == hipStreamDefault, priority,
                               reinterpret_cast<CUstream*>(stream));
  });
}

hipError_t hipStreamDestroy(hipStream_t stream) {
  return Call([&](const Api& driver) {
    return IsDefault(stream) ? CUDA_ERROR_INVALID_HANDLE
                             : driver.DestroyStream(StreamOf(stream));
  });
}

hipError_t hipStreamQuery(hipStream_t stream) {
  return CallOn(stream, [](const Api& driver, CUstream native) {
    return driver.QueryStream(native);
  });
}

hipError_t hipStreamSynchronize(hipStream_t stream) {
  return CallOn(stream, [](const Api& driver, CUstream native) {
    return driver.SynchronizeStream(native);
  });
}

hipError_t hipStreamGetFlags(hipStream_t stream, unsigned* flags) {
  return CallOn(stream, [&](const Api& driver, CUstream native) {
    bool blocking = false;
    const CUresult error = driver.IsBlocking(native, &blocking);
    *flags = blocking ? hipStreamDefault : hipStreamNonBlocking;
    return error;
  });
}

int hipGetStreamDeviceId(hipStream_t stream) {
  if (IsDefault(stream)) return CurrentDevice();
  int device = -1;
  (void)Call([&](const Api& driver) {
    CUcontext context = nullptr;
    const CUresult error = driver.ContextOf(StreamOf(stream), &context);
    if (error == CUDA_SUCCESS) device = DeviceOf(context);
    return error;
  });
  return device;
}

hipError_t hipStreamAddCallback(hipStream_t stream,
                                hipStreamCallback_t callback, void* user_data,
                                unsigned flags) {
  return CallOn(stream, [&](const Api& driver, CUstream native) {
    if (flags != 0 || callback == nullptr) return CUDA_ERROR_INVALID_VALUE;
    struct Closure {
      hipStream_t stream;
      hipStreamCallback_t callback;
      void* user_data;
    };
    auto closure =
        std::make_unique<Closure>(Closure{stream, callback, user_data});
    const Api::Callback run = [](CUstream, CUresult error, void* arg) {
      const std::unique_ptr<Closure> c(static_cast<Closure*>(arg));
      c->callback(c->stream, Translate(error), c->user_data);
    };
    const CUresult error = driver.AddCallback(native, run, closure.get());
    if (error == CUDA_SUCCESS) closure.release();
    return error;
  });
}

// ---- Events -----------------------------------------------------------------

hipError_t hipEventCreateWithFlags(hipEvent_t* event, unsigned flags) {
  return CallOnDevice([&](const Api& driver) {
    return driver.CreateEvent((flags & hipEventDisableTiming) == 0,
                              (flags & hipEventBlockingSync) != 0,
                              (flags & hipEventInterprocess) != 0,
                              reinterpret_cast<CUevent*>(event));
  });
}

hipError_t hipEventDestroy(hipEvent_t event) {
  return Call(
      [&](const Api& driver) { return driver.DestroyEvent(EventOf(event)); });
}

hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream) {
  return CallOn(stream, [&](const Api& driver, CUstream native) {
    return driver.Record(EventOf(event), native);
  });
}

hipError_t hipEventQuery(hipEvent_t event) {
  return Call(
      [&](const Api& driver) { return driver.QueryEvent(EventOf(event)); });
}

hipError_t hipEventSynchronize(hipEvent_t event) {
  return Call([&](const Api& driver) {
    return driver.SynchronizeEvent(EventOf(event));
  });
}

hipError_t hipEventElapsedTime(float* milliseconds, hipEvent_t begin,
                               hipEvent_t end) {
  return Call([&](const Api& driver) {
    int64_t nanoseconds = 0;
    const CUresult error =
        driver.Elapsed(EventOf(begin), EventOf(end), &nanoseconds);
    *milliseconds = static_cast<float>(static_cast<double>(nanoseconds) / 1e6);
    return error;
  });
}

hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event,
                              unsigned flags) {
  return CallOn(stream, [&](const Api& driver, CUstream native) {
    return flags != 0 ? CUDA_ERROR_INVALID_VALUE
                      : driver.Wait(native, EventOf(event));
  });
}

hipError_t hipIpcGetEventHandle(hipIpcEventHandle_t* handle, hipEvent_t event) {
  return CallOnDevice([&](const Api& driver) {
    devrt_event_handle_v0 name = {};
    static_assert(sizeof *handle == sizeof name.bytes);
    const CUresult error = driver.ExportEvent(EventOf(event), &name);
    if (error == CUDA_SUCCESS) std::memcpy(handle, name.bytes, sizeof *handle);
    return error;
  });
}

hipError_t hipIpcOpenEventHandle(hipEvent_t* event,
                                 hipIpcEventHandle_t handle) {
  return CallOnDevice([&](const Api& driver) {
    devrt_event_handle_v0 name = {};
    std::memcpy(name.bytes, &handle, sizeof handle);
    return driver.OpenEvent(name, reinterpret_cast<CUevent*>(event));
  });
}
