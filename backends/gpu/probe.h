// SPDX-License-Identifier: Apache-2.0
//
// Backend<Api>: devrt.probe/0, kernels that hold streams busy.

#ifndef DEVRT_BACKENDS_GPU_PROBE_H_
#define DEVRT_BACKENDS_GPU_PROBE_H_

#include <cstring>

#include "backends/gpu/backend.h"

namespace devrt::gpu {

// The plugin's kernels for every architecture it was built for.
extern const KernelImage kProbeImage;

// All of them are loaded before the first can hold anything, and launched once:
// what is loaded lazily starts only when running kernels have ended (F40).
template <class Api>
devrt_status Backend<Api>::LoadKernels(Device* device) {
  if (device->has_kernels.load(std::memory_order_acquire)) return nullptr;
  Context context{};
  if (devrt_status error = Enter(device, &context)) return error;
  const std::lock_guard<std::mutex> lock(device->kernels_mutex);
  if (device->has_kernels.load(std::memory_order_relaxed)) return nullptr;
  const ContextScope scope(*api_, context);
  Error error = scope.error();
  if (error == Api::kSuccess) {
    error = api_->LoadModule(kProbeImage.data, &device->module);
  }
  const auto load = [&](const char* name, typename Api::Function* function) {
    if (error == Api::kSuccess) {
      error = api_->LoadFunction(device->module, name, function);
    }
  };
  auto& probe = device->probe;
  load("devrt_spin", &probe.spin);
  load("devrt_wait", &probe.wait);
  load("devrt_set", &probe.set);
  load("devrt_fault", &probe.fault);
  if (error == Api::kSuccess) {
    typename Api::Stream stream{};
    error = api_->CreateStream(false, 0, &stream);
    uint64_t none = 1;
    void* arguments[] = {&none};
    if (error == Api::kSuccess) {
      error = api_->Launch(probe.spin, 1, 1, stream, arguments);
      if (error == Api::kSuccess) error = api_->SynchronizeStream(stream);
      (void)api_->DestroyStream(stream);
    }
  }
  if (error != Api::kSuccess) return Take(error, "kernel loading", device);
  device->has_kernels.store(true, std::memory_order_release);
  return nullptr;
}

template <class Api>
devrt_status Backend<Api>::LaunchProbe(Stream* stream,
                                       typename Api::Function function,
                                       void** arguments) {
  // The function is of the primary context; so must the stream be.
  if (stream->context != stream->device->context.load()) {
    return Refuse(DEVRT_UNIMPLEMENTED,
                  "devrt's kernels do not run on streams of foreign contexts");
  }
  return Submit(stream, "launch", [&] {
    return api_->Launch(function, 1, 1, stream->native, arguments);
  });
}

template <class Api>
devrt_status Backend<Api>::ProbeSpin(devrt_stream handle,
                                     uint64_t nanoseconds) {
  Stream* const stream = Of(handle);
  if (devrt_status error = LoadKernels(stream->device)) return error;
  void* arguments[] = {&nanoseconds};
  return LaunchProbe(stream, stream->device->probe.spin, arguments);
}

template <class Api>
devrt_status Backend<Api>::FlagCreate(uint32_t ordinal, devrt_flag* flag) {
  Device* device = nullptr;
  if (devrt_status error = Find(ordinal, &device)) return error;
  // Now, while nothing of the flag's can hold a stream.
  if (devrt_status error = LoadKernels(device)) return error;
  void* word = nullptr;
  if (devrt_status error = host_alloc(ordinal, sizeof(uint32_t), 0, &word)) {
    return error;
  }
  __atomic_store_n(static_cast<uint32_t*>(word), 0, __ATOMIC_SEQ_CST);
  *flag = reinterpret_cast<devrt_flag>(
      new Flag{device, static_cast<volatile uint32_t*>(word)});
  return nullptr;
}

template <class Api>
devrt_status Backend<Api>::FlagDestroy(devrt_flag handle) {
  const std::unique_ptr<Flag> gone(Of(handle));
  return host_dealloc(const_cast<uint32_t*>(gone->word), sizeof(uint32_t));
}

template <class Api>
devrt_status Backend<Api>::FlagWait(devrt_stream handle, devrt_flag flag,
                                    uint64_t timeout) {
  Stream* const stream = Of(handle);
  if (devrt_status error = LoadKernels(stream->device)) return error;
  const volatile uint32_t* word = Of(flag)->word;
  void* arguments[] = {&word, &timeout};
  return LaunchProbe(stream, stream->device->probe.wait, arguments);
}

template <class Api>
devrt_status Backend<Api>::FlagSet(devrt_flag flag, uint32_t value) {
  __atomic_store_n(Of(flag)->word, value, __ATOMIC_SEQ_CST);
  return nullptr;
}

template <class Api>
devrt_status Backend<Api>::FlagSetAsync(devrt_stream handle, devrt_flag flag,
                                        uint32_t value) {
  Stream* const stream = Of(handle);
  if (devrt_status error = LoadKernels(stream->device)) return error;
  volatile uint32_t* word = Of(flag)->word;
  void* arguments[] = {&word, &value};
  return LaunchProbe(stream, stream->device->probe.set, arguments);
}

template <class Api>
devrt_status Backend<Api>::ProbeFault(devrt_stream handle, uint32_t form) {
  Stream* const stream = Of(handle);
  if (form > DEVRT_FAULT_TRAP) {
    return Refuse(DEVRT_INVALID_ARGUMENT, "there is no fault %u", form);
  }
  if (devrt_status error = LoadKernels(stream->device)) return error;
  // A mapped address for what must fault by its alignment only.
  static uint32_t target[4];
  uint64_t address =
      form == DEVRT_FAULT_NULL_WRITE ? 0 : reinterpret_cast<uint64_t>(&target);
  void* arguments[] = {&form, &address};
  return LaunchProbe(stream, stream->device->probe.fault, arguments);
}

template <class Api>
const void* Backend<Api>::get_extension(const char* name) {
  static constexpr devrt_probe_v0 kProbe = {
      sizeof(devrt_probe_v0),
      0,
      plugin::Thunk<&Backend::ProbeSpin>,
      plugin::Thunk<&Backend::FlagCreate>,
      plugin::Thunk<&Backend::FlagDestroy>,
      plugin::Thunk<&Backend::FlagWait>,
      plugin::Thunk<&Backend::FlagSet>,
      plugin::Thunk<&Backend::FlagSetAsync>,
      plugin::Thunk<&Backend::ProbeFault>};
  static constexpr devrt_event_ipc_v0 kEventIpc = {
      sizeof(devrt_event_ipc_v0), 0, plugin::Thunk<&Backend::EventExport>,
      plugin::Thunk<&Backend::EventOpen>};
  if (std::strcmp(name, DEVRT_EVENT_IPC_EXTENSION) == 0) return &kEventIpc;
  if (kProbeImage.data == nullptr) return nullptr;
  return std::strcmp(name, DEVRT_PROBE_EXTENSION) == 0 ? &kProbe : nullptr;
}

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_PROBE_H_
