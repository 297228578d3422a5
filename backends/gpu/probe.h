// SPDX-License-Identifier: Apache-2.0
//
// Probe<Api>: devrt.probe/0, kernels that keep streams busy or commit faults.
//
// Threads: every member from any thread.

#ifndef DEVRT_BACKENDS_GPU_PROBE_H_
#define DEVRT_BACKENDS_GPU_PROBE_H_

#include <cstdint>
#include <memory>

#include "backends/gpu/device.h"
#include "backends/gpu/kernels.h"
#include "backends/gpu/memory.h"
#include "backends/gpu/objects.h"
#include "devrt/backends/abi/devrt_probe.h"

namespace devrt::gpu {

template <class Api>
class Probe {
 public:
  using Device = gpu::Device<Api>;
  using Stream = gpu::Stream<Api>;
  using Function = typename Api::Function;

  Probe(Devices<Api>* devices, Memory<Api>* memory, Kernels<Api>* kernels)
      : driver_(devices->driver()),
        devices_(*devices),
        memory_(*memory),
        kernels_(*kernels) {}
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;

  // devrt.probe/0 of the plugin whose class is `Backend`; nullptr without
  // pinned memory, since flags are words of it.
  template <class Backend>
  const devrt_probe_v0* ProbeTable() const {
    static constexpr devrt_probe_v0 kTable = {
        sizeof(devrt_probe_v0),
        0,
        plugin::Thunk<&Probe::ProbeSpin, Backend>,
        plugin::Thunk<&Probe::FlagCreate, Backend>,
        plugin::Thunk<&Probe::FlagDestroy, Backend>,
        plugin::Thunk<&Probe::FlagWait, Backend>,
        plugin::Thunk<&Probe::FlagSet, Backend>,
        plugin::Thunk<&Probe::FlagSetAsync, Backend>,
        plugin::Thunk<&Probe::ProbeFault, Backend>};
    const uint64_t missing = driver_.api().MissingCapabilities();
    return (missing & DEVRT_CAP_PINNED_HOST) == 0 ? &kTable : nullptr;
  }

 private:
  // The object behind a devrt_flag.
  struct Flag {
    static Flag* Of(devrt_flag handle) {
      return reinterpret_cast<Flag*>(handle);
    }

    Device* device;
    volatile uint32_t* word;  // pinned
  };

  devrt_status ProbeSpin(devrt_stream stream, uint64_t nanoseconds);
  devrt_status FlagCreate(uint32_t device, devrt_flag* flag);
  devrt_status FlagDestroy(devrt_flag flag);
  devrt_status FlagWait(devrt_stream stream, devrt_flag flag, uint64_t timeout);
  devrt_status FlagSet(devrt_flag flag, uint32_t value);
  devrt_status FlagSetAsync(devrt_stream stream, devrt_flag flag,
                            uint32_t value);
  devrt_status ProbeFault(devrt_stream stream, uint32_t form);
  devrt_status Launch(Stream* stream, Function function, void** arguments) {
    return kernels_.Launch(stream, function, 1, 1, arguments);
  }

  Driver<Api>& driver_;
  Devices<Api>& devices_;
  Memory<Api>& memory_;
  Kernels<Api>& kernels_;
};

template <class Api>
devrt_status Probe<Api>::ProbeSpin(devrt_stream handle, uint64_t nanoseconds) {
  Stream* const stream = Stream::Of(handle);
  if (devrt_status error = kernels_.LoadAll(stream->device)) return error;
  uint64_t ticks = 0;
  if (devrt_status error = driver_.ToStatus(
          driver_.api().Ticks(stream->device->native, nanoseconds, &ticks),
          "clock rate", stream->device)) {
    return error;
  }
  void* arguments[] = {&ticks};
  return Launch(stream, stream->device->kernels.probe.spin, arguments);
}

template <class Api>
devrt_status Probe<Api>::FlagCreate(uint32_t ordinal, devrt_flag* flag) {
  Device* device = nullptr;
  if (devrt_status error = devices_.Find(ordinal, &device)) return error;
  // Loads now, while no kernel waits for this flag.
  if (devrt_status error = kernels_.LoadAll(device)) return error;
  void* word = nullptr;
  if (devrt_status error =
          memory_.host_alloc(ordinal, sizeof(uint32_t), 0, &word)) {
    return error;
  }
  __atomic_store_n(static_cast<uint32_t*>(word), 0, __ATOMIC_SEQ_CST);
  *flag = reinterpret_cast<devrt_flag>(
      new Flag{device, static_cast<volatile uint32_t*>(word)});
  return nullptr;
}

template <class Api>
devrt_status Probe<Api>::FlagDestroy(devrt_flag handle) {
  const std::unique_ptr<Flag> gone(Flag::Of(handle));
  return memory_.host_dealloc(const_cast<uint32_t*>(gone->word),
                              sizeof(uint32_t));
}

template <class Api>
devrt_status Probe<Api>::FlagWait(devrt_stream handle, devrt_flag flag,
                                  uint64_t timeout) {
  Stream* const stream = Stream::Of(handle);
  if (devrt_status error = kernels_.LoadAll(stream->device)) return error;
  const volatile uint32_t* word = Flag::Of(flag)->word;
  uint64_t ticks = 0;
  if (devrt_status error = driver_.ToStatus(
          driver_.api().Ticks(stream->device->native, timeout, &ticks),
          "clock rate", stream->device)) {
    return error;
  }
  void* arguments[] = {&word, &ticks};
  return Launch(stream, stream->device->kernels.probe.wait, arguments);
}

template <class Api>
devrt_status Probe<Api>::FlagSet(devrt_flag flag, uint32_t value) {
  __atomic_store_n(Flag::Of(flag)->word, value, __ATOMIC_SEQ_CST);
  return nullptr;
}

template <class Api>
devrt_status Probe<Api>::FlagSetAsync(devrt_stream handle, devrt_flag flag,
                                      uint32_t value) {
  Stream* const stream = Stream::Of(handle);
  if (devrt_status error = kernels_.LoadAll(stream->device)) return error;
  volatile uint32_t* word = Flag::Of(flag)->word;
  void* arguments[] = {&word, &value};
  return Launch(stream, stream->device->kernels.probe.set, arguments);
}

template <class Api>
devrt_status Probe<Api>::ProbeFault(devrt_stream handle, uint32_t form) {
  Stream* const stream = Stream::Of(handle);
  if (form > DEVRT_FAULT_TRAP) {
    return driver_.Refuse(DEVRT_INVALID_ARGUMENT, "fault %u does not exist",
                          form);
  }
  if (devrt_status error = kernels_.LoadAll(stream->device)) return error;
  // A mapped address, so that only the misalignment can fault.
  static uint32_t target[4];
  uint64_t address =
      form == DEVRT_FAULT_NULL_WRITE ? 0 : reinterpret_cast<uint64_t>(&target);
  void* arguments[] = {&form, &address};
  return Launch(stream, stream->device->kernels.probe.fault, arguments);
}

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_PROBE_H_
