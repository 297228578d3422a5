// SPDX-License-Identifier: Apache-2.0
//
// Backend<Api>: devrt.probe/0, kernels that hold streams busy.

#ifndef DEVRT_BACKENDS_GPU_PROBE_H_
#define DEVRT_BACKENDS_GPU_PROBE_H_

#include "backends/gpu/backend.h"

namespace devrt::gpu {

template <class Api>
devrt_status Backend<Api>::ProbeSpin(devrt_stream handle,
                                     uint64_t nanoseconds) {
  Stream* const stream = Of(handle);
  if (devrt_status error = LoadKernels(stream->device)) return error;
  uint64_t ticks = 0;
  if (devrt_status error =
          Take(api_->Ticks(stream->device->native, nanoseconds, &ticks),
               "clock rate", stream->device)) {
    return error;
  }
  void* arguments[] = {&ticks};
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
  uint64_t ticks = 0;
  if (devrt_status error =
          Take(api_->Ticks(stream->device->native, timeout, &ticks),
               "clock rate", stream->device)) {
    return error;
  }
  void* arguments[] = {&word, &ticks};
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

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_PROBE_H_
